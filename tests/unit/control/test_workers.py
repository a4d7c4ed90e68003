import json

import pytest

from smg.control.workers import routes
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.health import HealthOptions
from smg.fleet.worker import Status
from smg.services.inspection import Inspector
from smg.services.jobs import JobQueue
from smg.services.registrar import Registrar, RegistrarOptions

URL = "http://a"
NOBODY = "0199a1c2-7e3f-7b10-8c4d-2e5f6a7b8c90"
MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]}).encode()


def api(client, registry, engines, **limits):
    jobs = JobQueue(**limits)
    registrar = Registrar(
        registry,
        jobs,
        Inspector(engines),
        lambda _spec: Breaker(BreakerOptions()),
        options=RegistrarOptions(),
        health=HealthOptions(drain_settle_secs=0),
    )
    call = client(routes(registry, registrar, jobs))
    call.jobs = jobs
    return call


@pytest.fixture
async def call(client, registry, engines):
    for url in (URL, "http://b"):
        engines.answers[url + "/health"] = 200, b"", b""
        engines.answers[url + "/v1/models"] = 200, MODELS, b"application/json"
    call = api(client, registry, engines)
    yield call
    await call.jobs.close()


@pytest.fixture
def added(call, registry, eventually):
    async def add(**members):
        answer = await call("POST", "/workers", {"url": URL} | members)
        assert answer.status == 202
        await eventually(lambda: answer.json["worker_id"] in registry.snapshot.by_id)
        await eventually(lambda: call.jobs.record(answer.json["worker_id"]) is None)
        return answer.json["worker_id"]

    return add


def refusal(answer):
    assert set(answer.json) == {"error", "code"}
    assert answer.json["error"]
    return answer.status, answer.json["code"]


def test_every_route_is_an_admin_route(client, registry, engines):
    assert {route.group for route in api(client, registry, engines).table} == {"admin"}


async def test_an_empty_fleet_is_an_empty_list(call):
    answer = await call("GET", "/workers")
    assert answer.json == {
        "workers": [],
        "total": 0,
        "stats": {"prefill_count": 0, "decode_count": 0, "regular_count": 0},
    }


async def test_adding_is_accepted_with_the_id_and_where_to_look(call, registry, eventually):
    answer = await call("POST", "/workers", {"url": URL + "/"})
    worker_id = answer.json["worker_id"]
    assert answer.status == 202
    assert answer.json == {
        "status": "accepted",
        "worker_id": worker_id,
        "url": URL,
        "location": f"/workers/{worker_id}",
        "message": "Worker addition queued for background processing",
    }
    assert answer.sent == {b"location": f"/workers/{worker_id}".encode()}
    pending = await call("GET", f"/workers/{worker_id}")
    assert (pending.json["status"], pending.json["job_status"]["job_type"]) == ("pending", "AddWorker")
    assert (await call("GET", "/workers")).json["workers"] == []
    await eventually(lambda: registry.snapshot.workers and call.jobs.record(worker_id) is None)
    row = await call("GET", f"/workers/{worker_id}")
    assert (row.status, row.json["status"], row.json["model_id"]) == (200, "ready", "m")
    assert "job_status" not in row.json


async def test_the_list_counts_by_type_and_encode_workers_only_in_total(call, registry, make_worker):
    for kind in ("prefill", "prefill", "decode", "regular", "encode"):
        name = f"{kind}{len(registry.snapshot.workers)}"
        registry.add(make_worker(name, worker_type=kind))
    answer = await call("GET", "/workers")
    assert answer.json["total"] == 5
    assert answer.json["stats"] == {"prefill_count": 2, "decode_count": 1, "regular_count": 1}


@pytest.fixture
def two_models(registry, make_worker, make_card):
    registry.add(make_worker("any"))
    registry.add(make_worker("a", make_card("m")))
    registry.add(make_worker("b", make_card("n")))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("m", ["a", "any"]),
        ("nick", ["a", "any"]),
        ("n", ["b", "any"]),
        ("x", ["any"]),
        ("%6D", ["a", "any"]),
        ("", ["any"]),
    ],
)
@pytest.mark.usefixtures("two_models")
async def test_the_list_can_be_limited_to_a_model(call, query, names):
    answer = await call("GET", f"/workers?model={query}")
    assert [row["id"] for row in answer.json["workers"]] == names
    assert answer.json["total"] == len(names)


async def test_a_taken_url_is_a_conflict(call, added):
    accepted = await call("POST", "/workers", {"url": "http://slow"})
    assert accepted.status == 202
    again = await call("POST", "/workers", {"url": "http://slow"})
    assert refusal(again) == (409, "WORKER_CREATE_IN_PROGRESS")
    assert accepted.json["worker_id"] in again.json["error"]
    await added()
    assert refusal(await call("POST", "/workers", {"url": URL})) == (409, "WORKER_ALREADY_EXISTS")


@pytest.mark.parametrize("body", [{}, {"url": 5}, {"url": "ftp://h"}, {"url": URL, "labels": {"a": 1}}, b"{", b"[]"])
async def test_a_bad_spec_is_refused(call, registry, body):
    assert refusal(await call("POST", "/workers", body)) == (400, "BAD_REQUEST")
    assert registry.snapshot.workers == ()


@pytest.mark.parametrize("content_type", [None, b"text/plain", b"application/x-www-form-urlencoded"])
async def test_a_body_must_be_declared_as_json(call, content_type):
    headers = {} if content_type is None else {b"content-type": content_type}
    answer = await call("POST", "/workers", {"url": URL}, headers)
    assert refusal(answer) == (400, "BAD_REQUEST")


async def test_parameters_of_the_content_type_do_not_matter(call):
    headers = {b"content-type": b"Application/JSON; charset=utf-8"}
    assert (await call("POST", "/workers", {"url": URL}, headers)).status == 202


async def test_a_full_queue_is_said_so(client, registry, engines):
    call = api(client, registry, engines, capacity=0, concurrency=0)
    answer = await call("POST", "/workers", {"url": URL})
    assert refusal(answer) == (500, "INTERNAL_SERVER_ERROR")


BODIES = [("GET", None), ("DELETE", None), ("PATCH", {"priority": 1}), ("PUT", {"url": URL})]


@pytest.mark.parametrize(("method", "body"), BODIES)
async def test_an_unknown_id_is_not_found_and_no_uuid_is_a_bad_request(call, method, body):
    assert refusal(await call(method, f"/workers/{NOBODY}", body)) == (404, "WORKER_NOT_FOUND")
    assert refusal(await call(method, "/workers/first", body)) == (400, "BAD_REQUEST")


async def test_a_patch_changes_in_place(call, added, registry):
    worker_id = await added(labels={"a": "1"})
    answer = await call("PATCH", f"/workers/{worker_id}", {"priority": 7, "labels": {"b": "2"}})
    assert answer.status == 202
    assert answer.json == {
        "status": "accepted",
        "worker_id": worker_id,
        "message": "Worker update queued for background processing",
    }
    row = (await call("GET", f"/workers/{worker_id}")).json
    assert (row["priority"], row["labels"]["a"], row["labels"]["b"], row["status"]) == (7, "1", "2", "ready")
    assert refusal(await call("PATCH", f"/workers/{worker_id}", {"priority": "x"})) == (400, "BAD_REQUEST")


async def test_a_put_replaces_and_shows_its_job_meanwhile(call, added, eventually):
    worker_id = await added(labels={"a": "1"}, priority=3)
    answer = await call("PUT", f"/workers/{worker_id}", {"url": URL + "/", "labels": {"n": "1"}})
    assert (answer.status, answer.json["worker_id"]) == (202, worker_id)
    row = (await call("GET", f"/workers/{worker_id}")).json
    assert (row["priority"], row["status"], row["job_status"]["job_type"]) == (3, "ready", "UpdateWorker")
    await eventually(lambda: call.jobs.record(worker_id) is None)
    row = (await call("GET", f"/workers/{worker_id}")).json
    assert (row["priority"], row["labels"]) == (50, {"served_model_name": "m", "n": "1"})


async def test_a_put_cannot_move_a_worker(call, added):
    worker_id = await added()
    answer = await call("PUT", f"/workers/{worker_id}", {"url": "http://b"})
    assert refusal(answer) == (400, "BAD_REQUEST")


async def test_a_delete_takes_the_worker_out(call, added):
    worker_id = await added()
    answer = await call("DELETE", f"/workers/{worker_id}")
    assert answer.status == 202
    assert answer.json == {
        "status": "accepted",
        "worker_id": worker_id,
        "message": "Worker removal queued for background processing",
    }
    assert refusal(await call("GET", f"/workers/{worker_id}")) == (404, "WORKER_NOT_FOUND")


async def test_keys_are_never_shown(call, added):
    worker_id = await added(api_key="hush")
    await call("PATCH", f"/workers/{worker_id}", {"api_key": "hush-hush"})
    answers = [await call("GET", "/workers"), await call("GET", f"/workers/{worker_id}")]
    assert not any(b"hush" in answer.body or b"api_key" in answer.body for answer in answers)


async def test_a_draining_worker_is_shown_as_such(call, added, registry):
    worker_id = await added()
    registry.set_status(worker_id, Status.DRAINING, 0)
    row = (await call("GET", f"/workers/{worker_id}")).json
    assert (row["status"], row["is_healthy"]) == ("draining", False)
