from datetime import datetime

import pytest

from smg import __version__
from smg.control.loads import engine_load, routes
from smg.engines.load import RankLoad
from smg.fleet.load import report_of

AT = 1_700_000_000.0
FULL = RankLoad(
    dp_rank=1,
    num_running_reqs=3,
    num_waiting_reqs=2,
    num_waiting_uncached_tokens=700,
    num_used_tokens=4000,
    max_total_num_tokens=10_000,
    token_usage=0.4,
    gen_throughput=100.0,
    cache_hit_rate=0.25,
    utilization=0.1,
    max_running_requests=64,
    memory={"weight_gb": 15.5},
    queues={"waiting": 2},
    disagg={"mode": "null"},
)


@pytest.fixture
def fleet(registry, make_worker, make_card):
    """Three workers, two of them with a report."""
    reports = {
        "a": [RankLoad(num_running_reqs=1, token_usage=0.5), FULL],
        "b": [RankLoad(num_waiting_reqs=4)],
        "c": None,
    }
    for name, ranks in reports.items():
        worker = make_worker(name, make_card("other" if name == "b" else "m"))
        worker.report = None if ranks is None else report_of(ranks, AT)
        registry.add(worker)
    return registry


@pytest.fixture
def ask(fleet, client):
    return client(routes(fleet, lambda: AT))


async def test_every_rank_of_every_reporting_worker_has_a_row(ask):
    call = await ask("GET", "/loads")
    assert call.status == 200
    assert [(row["worker"], row["dp_rank"]) for row in call.json["loads"]] == [
        ("http://a", 0),
        ("http://a", 1),
        ("http://b", 0),
    ]
    assert call.json["dp_rank_count"] == 3
    assert call.json["version"] == f"smg-{__version__}"
    assert datetime.fromisoformat(call.json["timestamp"]).timestamp() == AT


async def test_a_row_shows_all_that_was_reported(ask):
    call = await ask("GET", "/loads")
    assert call.json["loads"][1] == {
        "worker": "http://a",
        "worker_type": "regular",
        "dp_rank": 1,
        "num_running_reqs": 3,
        "num_waiting_reqs": 2,
        "num_waiting_uncached_tokens": 700,
        "num_total_reqs": 5,
        "num_used_tokens": 4000,
        "max_total_num_tokens": 10_000,
        "token_usage": 0.4,
        "gen_throughput": 100.0,
        "cache_hit_rate": 0.25,
        "utilization": 0.1,
        "max_running_requests": 64,
        "memory": {"weight_gb": 15.5},
        "queues": {"waiting": 2},
        "disagg": {"mode": "null"},
    }


async def test_a_number_that_was_not_reported_is_zero_and_a_section_is_left_out(ask):
    row = (await ask("GET", "/loads")).json["loads"][2]
    assert row["num_waiting_reqs"] == row["num_total_reqs"] == 4
    assert row["max_total_num_tokens"] == row["gen_throughput"] == row["token_usage"] == 0
    assert not {"memory", "queues", "disagg"} & row.keys()


async def test_the_aggregate_sums_requests_and_averages_what_is_reported(ask):
    assert (await ask("GET", "/loads")).json["aggregate"] == {
        "total_running_reqs": 4,
        "total_waiting_reqs": 6,
        "total_reqs": 10,
        "avg_token_usage": 0.45,
        "avg_throughput": 100.0,
        "avg_utilization": 0.1,
    }


@pytest.mark.parametrize(("name", "workers"), [("m", ["a", "a"]), ("nick", ["a", "a"]), ("other", ["b"])])
async def test_the_view_can_be_limited_to_a_model_or_its_alias(ask, name, workers):
    rows = (await ask("GET", f"/loads?model={name}")).json["loads"]
    assert [row["worker"] for row in rows] == [f"http://{worker}" for worker in workers]


async def test_without_a_report_there_is_no_aggregate(ask):
    body = (await ask("GET", "/loads?model=unknown")).json
    assert body["loads"] == []
    assert body["dp_rank_count"] == 0
    assert "aggregate" not in body


async def test_a_blank_model_is_no_limit(ask):
    assert len((await ask("GET", "/loads?model=")).json["loads"]) == 3


async def test_the_older_route_is_the_same_and_an_admin_s(fleet, ask):
    assert (await ask("GET", "/get_loads")).json == (await ask("GET", "/loads")).json
    assert {route.path: route.group for route in routes(fleet, lambda: AT)} == {
        "/loads": "public",
        "/get_loads": "admin",
    }


def test_a_worker_s_row_shows_its_last_report():
    assert engine_load(None) is None
    shown = engine_load(report_of([FULL], AT))
    assert (shown["dp_rank_count"], shown["loads"][0]["num_waiting_reqs"]) == (1, 2)
    assert "worker" not in shown["loads"][0]
    assert datetime.fromisoformat(shown["timestamp"]).timestamp() == AT
