import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.engines.load import MAX_COUNT, MAX_RANKS, RankLoad, read_rows

ROW = {
    "dp_rank": 0,
    "num_running_reqs": 3,
    "num_waiting_reqs": 2,
    "num_waiting_uncached_tokens": 700,
    "num_total_reqs": 5,
    "num_used_tokens": 4000,
    "max_total_num_tokens": 10_000,
    "token_usage": 0.4,
    "gen_throughput": 123.5,
    "cache_hit_rate": 0.25,
    "utilization": 0.1,
    "max_running_requests": 64,
    "memory": {"weight_gb": 15.5, "token_capacity": 10_000},
    "queues": {"waiting": 2, "grammar": 0},
    "disaggregation": {"mode": "prefill", "kv_transfer_speed_gb_s": 1.5},
}


def rows(*given_rows):
    return read_rows({"loads": list(given_rows)})


def changed(**members):
    return {**ROW, **members}


def test_a_row_is_read_member_by_member():
    assert rows(ROW) == (
        RankLoad(
            dp_rank=0,
            num_running_reqs=3,
            num_waiting_reqs=2,
            num_waiting_uncached_tokens=700,
            num_used_tokens=4000,
            max_total_num_tokens=10_000,
            token_usage=0.4,
            gen_throughput=123.5,
            cache_hit_rate=0.25,
            utilization=0.1,
            max_running_requests=64,
            memory={"weight_gb": 15.5, "token_capacity": 10_000},
            queues={"waiting": 2, "grammar": 0},
            disagg={"mode": "prefill", "kv_transfer_speed_gb_s": 1.5},
        ),
    )


def test_running_and_waiting_requests_are_all_a_row_needs():
    assert rows({"num_running_reqs": 1, "num_waiting_reqs": 0}) == (RankLoad(num_running_reqs=1),)


def test_a_report_without_rows_is_an_empty_one():
    assert rows() == ()


@pytest.mark.parametrize("members", [{}, {"loads": None}, {"loads": {}}, {"loads": "x"}, {"loads": 5}])
def test_an_object_without_a_list_of_loads_is_no_report(members):
    assert read_rows(members) is None


@pytest.mark.parametrize("row", [None, 1, "x", [], {}, {"num_running_reqs": 1}, {"num_waiting_reqs": 1}])
def test_one_row_that_is_none_voids_the_report(row):
    assert rows(ROW, row) is None


@pytest.mark.parametrize(
    "member",
    ["num_running_reqs", "num_waiting_reqs", "num_waiting_uncached_tokens", "token_usage", "gen_throughput"],
)
@pytest.mark.parametrize("value", ["7", True, -1, 10**30, -(10**30), 1e300, float("nan"), float("inf"), [], {}])
def test_a_senseless_number_that_steers_placement_voids_the_report(member, value):
    assert rows(changed(**{member: value})) is None


@pytest.mark.parametrize("member", ["num_waiting_uncached_tokens", "token_usage", "gen_throughput"])
def test_a_number_that_is_null_is_not_reported(member):
    (row,) = rows(changed(**{member: None}))
    assert getattr(row, member) is None


@pytest.mark.parametrize("member", ["num_used_tokens", "max_total_num_tokens", "cache_hit_rate", "utilization"])
@pytest.mark.parametrize("value", ["7", -1, 10**30, [], True])
def test_a_senseless_number_that_is_only_shown_is_left_out(member, value):
    (row,) = rows(changed(**{member: value}))
    assert getattr(row, member) is None
    assert row.num_waiting_reqs == 2


def test_a_count_may_be_written_as_a_decimal():
    (row,) = rows(changed(num_waiting_reqs=2.0))
    assert row.num_waiting_reqs == 2
    assert rows(changed(num_waiting_reqs=2.5)) is None
    assert rows(changed(num_waiting_reqs=MAX_COUNT + 1)) is None


@pytest.mark.parametrize(("reported", "read"), [(0, 0.0), (1, 1.0), (1.02, 1.0)])
def test_a_share_just_above_one_is_one(reported, read):
    assert rows(changed(token_usage=reported))[0].token_usage == read


def test_a_share_in_percent_is_no_share():
    assert rows(changed(token_usage=40)) is None


def test_ranks_keep_the_numbers_they_report():
    assert [row.dp_rank for row in rows(changed(dp_rank=3), changed(dp_rank=1))] == [3, 1]


@pytest.mark.parametrize("numbers", [(0, 0), (None, 1), (1, "x"), (-1, 1)])
def test_ranks_without_distinct_numbers_are_numbered_by_position(numbers):
    assert [row.dp_rank for row in rows(*[changed(dp_rank=number) for number in numbers])] == [0, 1]


def test_more_rows_than_any_engine_has_ranks_are_no_report():
    assert rows(*[ROW] * MAX_RANKS) is not None
    assert rows(*[ROW] * (MAX_RANKS + 1)) is None


@pytest.mark.parametrize("section", ["x", 1, [], {}, {"a": {}}, {"a": "x" * 100}, {"x" * 100: 1}, {"a": 10**30}])
def test_a_section_keeps_only_what_is_plain_and_small(section):
    assert rows(changed(memory=section))[0].memory is None


def test_a_section_with_more_members_than_any_engine_has_is_left_out():
    assert rows(changed(queues={str(i): i for i in range(1000)}))[0].queues is None


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
VALUE = SCALAR | st.lists(SCALAR, max_size=2) | st.dictionaries(st.text(max_size=3), SCALAR, max_size=3)
GOOD = {name: st.just(value) for name, value in ROW.items()}


@given(
    st.lists(
        VALUE | st.fixed_dictionaries({**GOOD, "num_waiting_reqs": VALUE, "token_usage": VALUE, "memory": VALUE}),
        max_size=4,
    )
)
def test_no_object_whatsoever_makes_the_reader_fail(loads):
    found = read_rows({"loads": loads})
    for row in found or ():
        assert 0 <= row.num_waiting_reqs <= MAX_COUNT
        assert row.token_usage is None or 0 <= row.token_usage <= 1
        json.dumps([row.memory, row.queues, row.disagg], allow_nan=False)
