import asyncio
import ssl
from contextlib import closing

import pytest

from smg.control.rl.answers import LARGE_BYTES, Answered, Failed
from smg.control.rl.caller import ControlCaller, ControlOptions, ControlRequest, FinishedCall, outgoing
from smg.control.rl.kept import Keeper
from smg.fleet.spec import HttpPoolSpec, WorkerSpec
from smg.net.calls import KEEP_SECS
from smg.net.capture import Captured, Outgoing

PAUSE = ControlRequest("POST", "pause", body=b"{}")


async def all_called(caller, workers, request):
    """What came of a call to every worker."""
    outcomes = []
    with closing(Keeper()) as keeper:
        await caller.call_all(list(map(caller.destination, workers)), request, keeper, outcomes.append)
    return outcomes


def test_a_worker_gets_the_requests_own_fields_and_body(make_worker):
    request = ControlRequest("POST", "v1/op", "a=%2F&b", [(b"x-request-id", b"1"), (b"content-type", b"x/y")], b"body")
    assert outgoing(make_worker(), request) == Outgoing(
        "POST", "/v1/op?a=%2F&b", [(b"accept", b"*/*"), (b"x-request-id", b"1"), (b"content-type", b"x/y")], b"body"
    )


def test_a_path_is_appended_to_that_of_the_worker(make_worker):
    assert outgoing(make_worker("h/base"), PAUSE).target == "/base/pause"


def test_the_key_is_the_workers_own(make_worker):
    assert (b"authorization", b"Bearer k") in outgoing(make_worker(api_key="k"), PAUSE).fields
    assert b"authorization" not in dict(outgoing(make_worker(), PAUSE).fields)


async def test_an_answer_is_wrapped_and_announced(plane, captured):
    (worker,) = plane.register("a")
    plane.engines.answers["a"] = captured(500)
    outcome = await plane.caller.call(worker, PAUSE)
    assert isinstance(outcome, Answered)
    assert (outcome.worker, outcome.status, outcome.good) == (worker, 500, False)
    assert plane.heard == [FinishedCall(worker, "POST", "pause", b"{}", "upstream_error", 500)]


@pytest.mark.parametrize(
    ("answer", "code", "result", "message"),
    [
        ("down", "upstream_unreachable", "unreachable", "upstream `http://a` unreachable: connection refused"),
        ("silent", "upstream_timeout", "timeout", "upstream `http://a` timed out: no answer within 5 s"),
    ],
)
async def test_an_engine_that_does_not_answer_has_failed(plane, answer, code, result, message):
    (worker,) = plane.register("a")
    plane.engines.answers["a"] = answer
    outcome = await plane.caller.call(worker, PAUSE)
    assert isinstance(outcome, Failed)
    assert (outcome.refusal.code, outcome.refusal.message) == (code, message)
    assert plane.heard == [FinishedCall(worker, "POST", "pause", b"{}", result, None)]
    assert plane.engines.called == ["a"]


@pytest.mark.parametrize(("url", "mode"), [("grpc://a", "grpc"), ("ipc:///a", "zmq")])
async def test_only_http_workers_are_called(plane, url, mode):
    (worker,) = plane.register("a", url=url, connection_mode=mode)
    outcome = await plane.caller.call(worker, PAUSE)
    assert (outcome.refusal.code, outcome.refusal.context) == ("unsupported_connection_mode", {"connection_mode": mode})
    assert plane.engines.called == []
    assert plane.heard == []


async def test_a_worker_whose_address_leads_nowhere_is_unreachable(plane, make_worker):
    outcome = await plane.caller.call(make_worker("a", url="http://:1"), PAUSE)
    assert outcome.refusal.code == "upstream_unreachable"


async def test_the_workers_connection_settings_hold(new_plane, make_worker):
    plane = new_plane(timeout_secs=77)
    quick = make_worker("quick", spec=WorkerSpec(url="http://quick", http_pool=HttpPoolSpec(connect_timeout_secs=2)))
    await all_called(plane.caller, [quick, make_worker("plain"), make_worker("bare", spec=None)], PAUSE)
    limits = {sent.host: sent.limits for sent in plane.engines.sent}
    assert {host: limit.connect_timeout_secs for host, limit in limits.items()} == {"quick": 2, "plain": 10, "bare": 10}
    assert {(limit.timeout_secs, limit.max_bytes) for limit in limits.values()} == {(77, 1 << 20)}


@pytest.mark.parametrize(
    ("own", "keep_secs"),
    [
        ({}, KEEP_SECS),
        ({"pool_idle_timeout_secs": 60}, KEEP_SECS),
        ({"pool_idle_timeout_secs": 0.5}, 0.5),
        ({"pool_max_idle_per_host": 0}, 0),
        ({"pool_max_idle_per_host": 5}, KEEP_SECS),
    ],
)
async def test_a_worker_may_have_its_connections_kept_for_less_time_and_not_for_more(
    plane, make_worker, own, keep_secs
):
    worker = make_worker("a", spec=WorkerSpec(url="http://a", http_pool=HttpPoolSpec(**own)))
    await plane.caller.call(worker, PAUSE)
    assert [(sent.key, sent.limits.keep_secs) for sent in plane.engines.sent] == [("a", keep_secs)]


async def test_a_worker_may_have_certificates_of_its_own(plane, make_worker):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    worker = make_worker("a")

    def tls_of(asked):
        return context if asked is worker else None

    caller = ControlCaller(ControlOptions(), plane.engines, tls_of=tls_of)
    await all_called(caller, [worker, make_worker("b")], PAUSE)
    assert [sent.tls for sent in plane.engines.sent] == [context, None]


async def test_a_worker_is_spoken_to_in_its_protocol(plane, make_worker):
    await all_called(plane.caller, [make_worker("a", http2=True), make_worker("b")], PAUSE)
    assert [sent.http2 for sent in plane.engines.sent] == [True, False]


async def test_workers_that_get_the_same_share_it(plane, make_worker):
    alike = [make_worker(name, api_key="k") for name in "ab"]
    others = [make_worker("c"), make_worker("d/base", api_key="k")]
    await all_called(plane.caller, [*alike, *others], PAUSE)
    first, second, *rest = [sent.request for sent in plane.engines.sent]
    assert first is second
    assert [request.target for request in rest] == ["/pause", "/base/pause"]
    assert [(b"authorization", b"Bearer k") in request.fields for request in (first, *rest)] == [True, False, True]


async def test_what_fails_in_the_gateway_fails_the_fan_out_and_ends_its_calls(new_plane, make_worker, monkeypatch):
    plane = new_plane(window=3)
    plane.engines.answers["b"] = asyncio.Event()

    def fail(*_args):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("smg.control.rl.caller.answered", fail)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await all_called(plane.caller, [make_worker(name) for name in "abcd"], PAUSE)
    await asyncio.sleep(0)
    assert (plane.engines.under_way, plane.engines.called) == (0, ["a", "b", "c"])


async def test_a_listener_that_fails_spoils_no_call(plane):
    (worker,) = plane.register("a")
    heard = []

    def fail(call):
        raise RuntimeError("a listener's own fault")

    plane.caller.subscribe(fail)
    plane.caller.subscribe(heard.append)
    assert (await plane.caller.call(worker, PAUSE)).good
    assert len(heard) == 1


async def test_a_body_is_shared_by_all_calls(plane, make_worker):
    request = ControlRequest("POST", "op", body=b"x" * 10_000)
    await all_called(plane.caller, [make_worker("a"), make_worker("b")], request)
    assert all(sent.request.body is request.body for sent in plane.engines.sent)


async def test_every_target_is_called_once_within_the_window(new_plane, make_worker, eventually):
    plane = new_plane(window=3)
    workers = [make_worker(f"w{number}") for number in range(10)]
    outcomes = await all_called(plane.caller, workers, PAUSE)
    assert {outcome.worker.id for outcome in outcomes} == {worker.id for worker in workers}
    assert plane.engines.called == [worker.id for worker in workers]
    assert plane.engines.most_under_way == 3


async def test_a_call_that_ends_makes_room_for_the_next(new_plane, make_worker, eventually):
    plane = new_plane(window=2)
    slow = plane.engines.answers["w0"] = asyncio.Event()
    running = asyncio.ensure_future(all_called(plane.caller, [make_worker(f"w{n}") for n in range(6)], PAUSE))
    await eventually(lambda: len(plane.heard) == 5)
    assert plane.engines.under_way == 1
    assert not running.done()
    slow.set()
    assert len(await running) == 6


async def test_large_answers_that_come_together_are_read_one_by_one(new_plane, make_worker):
    """Between two of them the loop has a turn for everybody else."""
    plane = new_plane()
    large = Captured(200, b"application/json", b'"%b"' % (b"x" * LARGE_BYTES), truncated=False)
    plane.engines.answers.update({f"w{number}": large for number in range(5)})
    turns = []

    async def somebody_else():
        while True:
            turns.append(len(plane.heard))
            await asyncio.sleep(0)

    other = asyncio.ensure_future(somebody_else())
    await all_called(plane.caller, [make_worker(f"w{number}") for number in range(5)], PAUSE)
    other.cancel()
    assert {1, 2, 3, 4} <= set(turns)


async def test_a_window_wider_than_the_fleet_is_no_trouble(new_plane, make_worker):
    plane = new_plane(window=10_000_000)
    assert len(await all_called(plane.caller, [make_worker("a"), make_worker("b")], PAUSE)) == 2
    assert await all_called(plane.caller, [], PAUSE) == []


async def test_cancelling_ends_what_is_under_way_and_starts_nothing(new_plane, make_worker, eventually):
    plane = new_plane(window=2)
    workers = [make_worker(f"w{number}") for number in range(6)]
    plane.engines.answers.update({worker.id: asyncio.Event() for worker in workers[1:]})
    outcomes = []
    running = asyncio.ensure_future(
        plane.caller.call_all(list(map(plane.caller.destination, workers)), PAUSE, None, outcomes.append)
    )
    await eventually(lambda: plane.engines.called == ["w0", "w1", "w2"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert (plane.engines.under_way, plane.engines.cancelled) == (0, 2)
    assert plane.engines.called == ["w0", "w1", "w2"]
    assert [call.worker.id for call in plane.heard] == ["w0"]
    assert [outcome.worker.id for outcome in outcomes] == ["w0"]


async def test_cancelling_leaves_large_answers_unread(plane, captured, make_worker, eventually):
    workers = [make_worker(name) for name in "abc"]
    plane.engines.answers.update({worker.id: captured(200, b'"' + b"x" * LARGE_BYTES + b'"') for worker in workers})
    outcomes = []
    running = asyncio.ensure_future(
        plane.caller.call_all(list(map(plane.caller.destination, workers)), PAUSE, None, outcomes.append)
    )
    async with plane.caller.reading:
        await eventually(lambda: len(plane.engines.called) == 3 and not plane.engines.under_way)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert running.cancelled()
    assert (outcomes, plane.heard) == ([], [])
