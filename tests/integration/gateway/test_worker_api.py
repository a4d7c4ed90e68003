"""Workers that come, change and go while requests are served."""

import asyncio
import uuid
from contextlib import asynccontextmanager

from support.bodies import CHAT, chat
from support.raw_engine import answers, hangs, loses_its_second_call, resets
from support.waiting import until


@asynccontextmanager
async def traffic(gateway, clients=4):
    """Requests one after the other on some connections, until the block ends: yields the answers as they come."""
    seen, stop = [], asyncio.Event()

    async def ask():
        client = await gateway.connect()
        while not stop.is_set():
            await client.send("POST", CHAT, chat(max_tokens=2))
            seen.append(await client.answer())

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(ask())
        yield seen
        stop.set()


async def more(seen, count=20):
    """Wait for more answers."""
    target = len(seen) + count
    await until(lambda: len(seen) >= target, f"{count} more answers")


async def row_of(gateway, engine):
    rows = (await gateway.get("/workers")).json["workers"]
    return next((row for row in rows if row["url"] == engine.url), None)


async def test_a_worker_that_is_added_serves(stage):
    engine = await stage.engine(engine="vllm", model="added")
    gateway = await stage.gateway(ready=False)
    assert (await gateway.get("/readiness")).json["reason"] == "insufficient healthy workers"
    assert (await gateway.chat(chat(model="added"))).code == "model_not_found"
    accepted = await gateway.post("/workers", {"url": f"{engine.url}/", "labels": {"zone": "a"}, "priority": 7})
    worker_id = accepted.json["worker_id"]
    assert (accepted.status, accepted.headers["location"]) == (202, f"/workers/{worker_id}")
    await gateway.registered(1)
    shown = (await gateway.get(f"/workers/{worker_id}")).json
    assert (shown["url"], shown["model_id"], shown["runtime_type"]) == (engine.url, "added", "vllm")
    assert (shown["status"], shown["is_healthy"], shown["priority"]) == ("ready", True, 7)
    assert shown["labels"]["zone"] == "a"
    assert (await gateway.chat(chat(model="added"))).worker == engine.url
    assert (await gateway.get("/readiness")).json == {"status": "ready", "healthy_workers": 1, "total_workers": 1}


async def test_a_worker_that_is_not_up_yet_is_waited_for(stage):
    engine = await stage.raw_engine(answers(), well=False)
    gateway = await stage.gateway(ready=False)
    worker_id = (await gateway.post("/workers", {"url": engine.url})).json["worker_id"]
    await until(lambda: len(engine.asked) > 3)
    shown = (await gateway.get(f"/workers/{worker_id}")).json
    assert (shown["status"], shown["job_status"]["status"]) == ("pending", "processing")
    assert (await gateway.get("/workers")).json["total"] == 0
    again = await gateway.post("/workers", {"url": engine.url})
    assert (again.status, again.json["code"]) == (409, "WORKER_CREATE_IN_PROGRESS")
    engine.well = True
    await gateway.registered(1)
    assert "job_status" not in (await gateway.get(f"/workers/{worker_id}")).json
    again = await gateway.post("/workers", {"url": engine.url})
    assert (again.status, again.json["code"]) == (409, "WORKER_ALREADY_EXISTS")


async def test_a_registration_can_be_called_off(stage):
    engine = await stage.raw_engine(well=False)
    gateway = await stage.gateway(ready=False)
    worker_id = (await gateway.post("/workers", {"url": engine.url})).json["worker_id"]
    assert (await gateway.ask("DELETE", f"/workers/{worker_id}")).status == 202
    assert (await gateway.get(f"/workers/{worker_id}")).status == 404
    await until(
        lambda: not any(task.get_name().startswith("AddWorker") for task in asyncio.all_tasks()), "the job's end"
    )
    engine.well = True
    again = await gateway.post("/workers", {"url": engine.url})
    await gateway.registered(1)
    assert gateway.worker(engine).id == again.json["worker_id"] != worker_id
    assert "job failed" not in gateway.log()


async def test_a_registration_that_fails_frees_its_address(stage):
    engine = await stage.raw_engine(well=False)
    gateway = await stage.gateway(ready=False, worker_startup_timeout_secs=0.05)
    worker_id = (await gateway.post("/workers", {"url": engine.url})).json["worker_id"]
    await until(lambda: "job failed" in gateway.log())
    assert "status 503" in gateway.log()
    assert (await gateway.get(f"/workers/{worker_id}")).status == 404
    engine.well = True
    assert (await gateway.post("/workers", {"url": engine.url})).status == 202
    await gateway.registered(1)


async def test_a_worker_that_joins_under_traffic_gets_its_share(stage):
    one, other = await stage.engines(2)
    gateway = await stage.gateway(one)
    async with traffic(gateway) as seen:
        await more(seen)
        await gateway.post("/workers", {"url": other.url})
        await until(lambda: any(answer.worker == other.url for answer in seen))
    assert {answer.status for answer in seen} == {200}


async def test_a_worker_that_is_removed_under_traffic_costs_no_request(stage):
    one, other = await stage.engines(2)
    gateway = await stage.gateway(one, other)
    worker_id = gateway.worker(one).id
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
    async with traffic(gateway) as seen:
        await more(seen)
        assert (await gateway.ask("DELETE", f"/workers/{worker_id}")).status == 202
        begun = len(seen)
        await more(seen, 40)
    assert {answer.status for answer in seen} == {200}
    assert {answer.worker for answer in seen[begun + 4 :]} == {other.url}
    assert (await gateway.get(f"/workers/{worker_id}")).status == 404


async def test_a_worker_drains_for_its_window_while_streams_go_on(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    worker_id = gateway.worker(engine).id
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 600}})
    assert (await gateway.ask("DELETE", f"/workers/{worker_id}")).status == 202
    row = await row_of(gateway, engine)
    assert (row["status"], row["is_healthy"], row["load"]) == ("draining", False, 1)
    assert row["url"] == engine.url
    other = await gateway.chat(chat())
    assert (other.status, other.code) == (503, "no_available_workers")
    await call.event("still there")
    await call.end_stream()
    assert (await client.answer()).events == ["still there"]


async def test_a_stream_outlives_its_worker_s_registration(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    worker_id = gateway.worker(engine).id
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
    await gateway.ask("DELETE", f"/workers/{worker_id}")
    assert gateway.workers == ()
    await call.event("one")
    assert await client.chunk() == b"data: one\n\n"
    await call.end_stream()
    assert await client.chunk() == b""
    await gateway.settled()
    await until(lambda: gateway.gateway.upstream._retired == [], "the end of the worker's connections")


async def test_nothing_of_a_removed_worker_comes_back_into_the_metrics(stage):
    """Not even when a request that was under way meanwhile ends."""
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, cb_failure_threshold=1, disable_retries=True)
    pending = [await gateway.send("POST", CHAT, chat(str(n))) for n in range(2)]
    calls = [await engine.call() for _ in pending]
    worker_id = gateway.worker(engine).id
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
    await gateway.ask("DELETE", f"/workers/{worker_id}")
    await calls[0].answer()
    calls[1].reset()
    assert sorted([(await client.answer()).status for client in pending]) == [200, 500]
    scrape = await gateway.scrape()
    assert engine.url not in scrape.values_of("worker")


async def test_counts_of_resends_only_grow_when_a_worker_goes(stage):
    engine = await stage.raw_engine(loses_its_second_call)
    gateway = await stage.gateway(engine)
    for _ in range(2):
        assert (await gateway.chat(chat())).status == 200
    assert (await gateway.scrape()).value("smg_router_upstream_send_retries_total") == 1
    worker_id = gateway.worker(engine).id
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
    await gateway.ask("DELETE", f"/workers/{worker_id}")
    assert (await gateway.scrape()).value("smg_router_upstream_send_retries_total") == 1
    await until(lambda: not gateway.gateway.upstream._retired, "the end of the worker's connections")
    assert (await gateway.scrape()).value("smg_router_upstream_send_retries_total") == 1


async def test_a_patch_changes_a_worker_without_a_pause(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine)
    worker_id = gateway.worker(engine).id
    async with traffic(gateway, clients=2) as seen:
        await more(seen)
        body = {"priority": 9, "cost": 2.5, "labels": {"zone": "b"}, "api_key": "new-key"}
        assert (await gateway.ask("PATCH", f"/workers/{worker_id}", body)).status == 202
        await until(lambda: engine.calls[-1].headers.get("authorization") == "Bearer new-key")
    assert {answer.status for answer in seen} == {200}
    row = await row_of(gateway, engine)
    assert (row["priority"], row["cost"], row["labels"]["zone"]) == (9, 2.5, "b")
    assert "api_key" not in row


async def test_a_put_registers_a_worker_anew_under_traffic(stage):
    engine = await stage.engine()
    gateway = await stage.gateway(engine)
    worker_id = gateway.worker(engine).id
    async with traffic(gateway, clients=2) as seen:
        await more(seen)
        spec = {"url": engine.url, "models": [{"id": "m", "aliases": ["nick"]}], "priority": 3}
        assert (await gateway.ask("PUT", f"/workers/{worker_id}", spec)).status == 202
        await until(lambda: gateway.worker(engine).priority == 3)
        await more(seen)
    assert {answer.status for answer in seen} == {200}
    assert gateway.worker(engine).id == worker_id
    assert (await gateway.chat(chat(model="nick"))).status == 200
    moved = await gateway.ask("PUT", f"/workers/{worker_id}", {"url": "http://127.0.0.1:1"})
    assert (moved.status, moved.json["code"]) == (400, "BAD_REQUEST")


async def test_what_the_worker_api_refuses_it_explains(stage):
    gateway = await stage.gateway(ready=False)
    unknown = f"/workers/{uuid.uuid4()}"
    for method, target, body, status, code in [
        ("POST", "/workers", b"{", 400, "BAD_REQUEST"),
        ("POST", "/workers", {"url": "ftp://x"}, 400, "BAD_REQUEST"),
        ("POST", "/workers", {"url": "http://x", "priority": -1}, 400, "BAD_REQUEST"),
        ("GET", "/workers/not-an-id", None, 400, "BAD_REQUEST"),
        ("GET", unknown, None, 404, "WORKER_NOT_FOUND"),
        ("PATCH", unknown, {"priority": 1}, 404, "WORKER_NOT_FOUND"),
        ("PUT", unknown, {"url": "http://x"}, 404, "WORKER_NOT_FOUND"),
        ("DELETE", unknown, None, 404, "WORKER_NOT_FOUND"),
    ]:
        answer = await gateway.ask(method, target, body)
        assert (answer.status, answer.json["code"]) == (status, code), (method, target)
        assert answer.json["error"]
        assert answer.headers["x-request-id"]
    plain = await gateway.post("/workers", b"{}", ["content-type: text/plain"])
    assert (plain.status, plain.json["code"]) == (400, "BAD_REQUEST")


async def test_the_admin_routes_ask_for_the_key(stage):
    gateway = await stage.gateway(await stage.engine(), api_key="the-right-key")
    for method, target in [("GET", "/workers"), ("POST", "/workers"), ("DELETE", f"/workers/{uuid.uuid4()}")]:
        refused = await gateway.ask(method, target, b"{}")
        assert (refused.status, refused.body) == (401, b"")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        wrong = await gateway.ask(method, target, b"{}", ["authorization: Bearer the-wrong-key"])
        assert wrong.status == 401
    right = await gateway.get("/workers", ["authorization: bearer the-right-key"])
    assert right.status == 200
    assert "the-right-key" not in right.body.decode()
    for target in ("/health", "/liveness", "/readiness", "/v1/models"):
        assert (await gateway.get(target)).status == 200


async def test_the_queue_of_jobs_is_bounded(stage):
    engines = [await stage.raw_engine(well=False) for _ in range(3)]
    gateway = await stage.gateway(ready=False, job_queue_capacity=1, job_queue_concurrency=1)
    statuses = [(await gateway.post("/workers", {"url": engine.url})).status for engine in engines]
    assert statuses == [202, 202, 500]
    engines[2].well = True
    full = await gateway.post("/workers", {"url": engines[2].url})
    assert full.json["code"] == "INTERNAL_SERVER_ERROR"


async def test_a_fleet_that_changes_all_the_time_loses_nothing(stage):
    """Engines come and go, one of them ill, while clients ask, give up, and ask again."""
    steady = await stage.engine()
    guests = [await stage.engine(), await stage.raw_engine(resets), await stage.raw_engine(hangs)]
    gateway = await stage.gateway(steady, request_timeout_secs=60.0)
    async with traffic(gateway) as seen:
        for _ in range(5):
            ids = [(await gateway.post("/workers", {"url": guest.url})).json["worker_id"] for guest in guests[:2]]
            await gateway.registered(3)
            await more(seen, 10)
            for worker_id in ids:
                await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
                await gateway.ask("DELETE", f"/workers/{worker_id}")
            await gateway.registered(1)
    assert {answer.status for answer in seen} == {200}
    await gateway.settled()
    scrape = await gateway.scrape()
    assert scrape.values_of("worker") == {steady.url}
