import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.engines import engine_of
from smg.engines.gauges import read_gauges
from smg.engines.load import RankLoad

VLLM = engine_of("vllm").load_gauges
SGLANG = engine_of("sglang").load_gauges


def vllm(**gauges):
    """The metrics of an engine with these gauges: a number each, or one a rank."""
    lines = ["# HELP vllm:num_requests_waiting Requests that wait.", "# TYPE vllm:num_requests_waiting gauge"]
    for name, values in gauges.items():
        for rank, value in enumerate(values if isinstance(values, tuple) else (values,)):
            lines.append(f'vllm:{name}{{engine="{rank}",model_name="m"}} {value}')
    return "\n".join([*lines, ""]).encode()


def read(text, families=VLLM):
    return read_gauges(text if isinstance(text, bytes) else text.encode(), families)


def test_vllm_tells_waiting_running_and_cache_usage():
    text = vllm(num_requests_running=3.0, num_requests_waiting=2.0, kv_cache_usage_perc=0.5)
    assert read(text) == (RankLoad(num_running_reqs=3, num_waiting_reqs=2, token_usage=0.5),)


def test_vllm_s_older_name_of_cache_usage_counts_where_the_newer_one_is_missing():
    assert read(vllm(num_requests_waiting=2, gpu_cache_usage_perc=0.25))[0].token_usage == 0.25
    both = vllm(gpu_cache_usage_perc=0.25) + vllm(kv_cache_usage_perc=0.75)
    assert read(both)[0].token_usage == 0.75


@pytest.mark.parametrize("prefix", ["sglang:", "sglang_"])
def test_sglang_tells_throughput_too_under_either_prefix(prefix):
    text = (
        f'{prefix}num_running_reqs{{tp_rank="0"}} 3\n{prefix}num_queue_reqs{{tp_rank="0"}} 2\n'
        f'{prefix}token_usage{{tp_rank="0"}} 0.5\n{prefix}gen_throughput{{tp_rank="0"}} 99.5\n'
    )
    expected = RankLoad(num_running_reqs=3, num_waiting_reqs=2, token_usage=0.5, gen_throughput=99.5)
    assert read(text, SGLANG) == (expected,)


def test_each_rank_has_its_row():
    text = vllm(num_requests_running=(1, 2), num_requests_waiting=(3, 4), kv_cache_usage_perc=(0.1, 0.2))
    assert [(r.dp_rank, r.num_running_reqs, r.num_waiting_reqs, r.token_usage) for r in read(text)] == [
        (0, 1, 3, 0.1),
        (1, 2, 4, 0.2),
    ]


def test_several_series_of_one_rank_are_not_added_up():
    text = "".join(f'sglang:num_queue_reqs{{dp_rank="1",tp_rank="{tp}"}} {n}\n' for tp, n in [(0, 5), (1, 7), (2, 6)])
    (row,) = read(text + 'sglang:token_usage{dp_rank="1"} 0.5\n', SGLANG)
    assert (row.dp_rank, row.num_waiting_reqs) == (1, 7)


@pytest.mark.parametrize("line", ["vllm:kv_cache_usage_perc 0.5", "vllm:kv_cache_usage_perc{} 0.5 1700000000000"])
def test_a_series_needs_no_labels_and_may_have_a_time(line):
    assert read(line) == (RankLoad(token_usage=0.5),)


def test_metrics_whose_names_only_begin_alike_are_others():
    others = 'vllm:kv_cache_usage_perc_total 7\nvllm:num_requests_waiting_by_reason{reason="x"} 9\n'
    assert read(others + "vllm:kv_cache_usage_perc 0.5\n") == (RankLoad(token_usage=0.5),)


def test_a_label_s_value_may_hold_braces_and_spaces():
    assert read('vllm:kv_cache_usage_perc{engine="1",model_name="a} 9 {b"} 0.5')[0] == RankLoad(
        dp_rank=1, token_usage=0.5
    )


def test_without_a_gauge_of_the_cache_there_is_no_report():
    assert read(vllm(num_requests_running=1, num_requests_waiting=1)) is None
    assert read(vllm(num_requests_waiting=1, kv_cache_usage_perc=0.1), SGLANG) is None
    assert read(b"") is None


@pytest.mark.parametrize(
    "line",
    [
        "vllm:kv_cache_usage_perc_total 0.9",
        'vllm:kv_cache_usage_percentile{a="b"} 0.9',
        "# HELP vllm:kv_cache_usage_perc 0.9",
        "my_vllm:kv_cache_usage_perc 0.9",
        "  vllm:kv_cache_usage_perc 0.9",
    ],
)
def test_lines_of_other_metrics_and_comments_are_not_taken_for_it(line):
    assert read(line) is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "x", "", "0x10", "50"])
def test_a_usage_that_is_none_is_no_report(value):
    assert read(f"vllm:kv_cache_usage_perc {value}\n") is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "x", ""])
@pytest.mark.parametrize("name", ["num_requests_waiting", "num_requests_running"])
def test_a_count_that_is_none_voids_the_report(name, value):
    assert read(vllm(kv_cache_usage_perc=0.5) + f"vllm:{name} {value}\n".encode()) is None


@pytest.mark.parametrize("rank", ["x", "-1", "99999", "1.0"])
def test_a_rank_that_is_none_voids_the_report(rank):
    assert read(f'vllm:kv_cache_usage_perc{{engine="{rank}"}} 0.5') is None


def test_more_series_than_any_engine_has_ranks_are_no_report():
    assert read("".join(f'vllm:kv_cache_usage_perc{{engine="{rank}"}} 0.5\n' for rank in range(1025))) is None


PIECES = st.sampled_from(
    [
        b"vllm:kv_cache_usage_perc",
        b"vllm:num_requests_waiting",
        b"{",
        b"}",
        b'engine="',
        b'"',
        b" ",
        b"\n",
        b"0.5",
        b"1e9",
        b"\xff",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=3)).map(b"".join))
def test_no_text_whatsoever_makes_the_reader_fail(text):
    for row in read(text) or ():
        assert row.token_usage is None or 0 <= row.token_usage <= 1
