import json

import pytest

from smg.engines import engine_of
from smg.engines.load_routes import Reading, read_load
from smg.engines.plan import NO_ANSWER, Answer

LOADS = {"loads": [{"dp_rank": 0, "num_running_reqs": 1, "num_waiting_reqs": 2}]}
FIRST = "/loads?model=org%2Fm"
SECOND = "/v1/loads?include=core,disagg,queues,memory"
METRICS = Answer(200, None, b"vllm:kv_cache_usage_perc 0.5\nvllm:num_requests_waiting 7\n")


def loads(body=LOADS):
    return Answer(200, body, json.dumps(body).encode())


def poll(answers, remembered=None, *, runtime="vllm", model="org/m"):
    """What a poll finds, and the paths it asked for one after the other."""
    plan = read_load(engine_of(runtime).load_gauges, model, remembered)
    asked = []
    try:
        paths = next(plan)
        while True:
            asked += paths
            paths = plan.send({path: answers.get(path, Answer(404)) for path in paths})
    except StopIteration as end:
        return end.value, asked


def test_the_plain_load_route_is_asked_first_and_limited_to_the_worker_s_model():
    reading, asked = poll({FIRST: loads(), SECOND: loads()})
    assert asked == [FIRST]
    assert (reading.route, [rank.num_waiting_reqs for rank in reading.ranks]) == ("/loads", [2])


def test_a_worker_that_serves_any_model_is_asked_for_all():
    assert poll({"/loads": loads()}, model=None)[1] == ["/loads"]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_route_that_is_absent_leads_to_the_next_one(status):
    reading, asked = poll({FIRST: Answer(status), SECOND: loads()})
    assert asked == [FIRST, SECOND]
    assert reading.route == "/v1/loads"


def test_metrics_are_the_last_resort():
    reading, asked = poll({"/metrics": METRICS})
    assert asked == [FIRST, SECOND, "/metrics"]
    assert (reading.route, reading.ranks[0].num_waiting_reqs) == ("/metrics", 7)


def test_metrics_of_an_engine_whose_gauges_are_unknown_are_not_asked_for():
    reading, asked = poll({"/metrics": METRICS}, runtime="generic")
    assert asked == [FIRST, SECOND]
    assert reading == Reading(absent=True)


@pytest.mark.parametrize("route", ["/v1/loads", "/metrics"])
def test_the_route_that_answered_is_asked_first_the_next_time(route):
    reading, asked = poll({SECOND: loads(), "/metrics": METRICS}, remembered=route)
    assert asked == [SECOND if route == "/v1/loads" else route]
    assert reading.route == route


def test_a_remembered_route_that_is_gone_is_replaced_in_the_same_poll():
    reading, asked = poll({SECOND: loads()}, remembered="/metrics")
    assert asked == ["/metrics", FIRST, SECOND]
    assert reading.route == "/v1/loads"


@pytest.mark.parametrize("answer", [NO_ANSWER, Answer(500), Answer(401), Answer(302), Answer(503)])
def test_an_engine_in_trouble_has_no_report_and_keeps_its_route(answer):
    assert poll({FIRST: answer, SECOND: loads()}) == (Reading(), [FIRST])
    assert poll({SECOND: answer}, remembered="/v1/loads") == (Reading(route="/v1/loads"), [SECOND])


@pytest.mark.parametrize("answer", [Answer(200), Answer(200, []), Answer(200, {}), Answer(200, {"loads": [1]})])
def test_an_answer_that_is_no_report_is_passed_over(answer):
    reading, asked = poll({FIRST: answer, SECOND: loads()})
    assert (asked, reading.route) == ([FIRST, SECOND], "/v1/loads")
    assert poll({FIRST: answer})[0] == Reading()


def test_an_engine_that_has_not_counted_yet_has_answered():
    assert poll({SECOND: loads({"loads": []})}) == (Reading(route="/v1/loads"), [FIRST, SECOND])


def test_an_engine_without_any_route_says_so():
    assert poll({})[0] == Reading(absent=True)
