"""The states of a gateway that leaves, one by one."""

import asyncio
import signal
import socket

import pytest

from smg.app.compose import compose
from smg.app.lifecycle import serve_until_signalled
from smg.config.settings import Settings
from smg.errors import ConfigError
from smg.telemetry.logs import start_logs
from support.bodies import CHAT, chat
from support.raw_engine import answers
from support.waiting import until, within


async def test_a_gateway_that_drains_says_so_and_serves_on(stage):
    gateway = await stage.gateway(await stage.engine())
    gateway.gateway.begin_draining()
    answer = await gateway.get("/readiness")
    assert (answer.status, answer.json) == (503, {"status": "not ready", "reason": "draining"})
    assert (await gateway.get("/health")).status == 200
    assert (await gateway.get("/liveness")).status == 200
    assert (await gateway.chat(chat(max_tokens=1))).status == 200


async def test_draining_is_for_good(stage):
    """A worker that comes or goes meanwhile does not make the gateway ready again."""
    engine = await stage.engine()
    gateway = await stage.gateway()
    gateway.gateway.begin_draining()
    await gateway.post("/workers", {"url": engine.url})
    await gateway.registered(1)
    assert (await gateway.get("/readiness")).json["reason"] == "draining"


async def test_when_it_stops_listening_requests_under_way_go_on_and_idle_connections_end(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    idle = await gateway.connect()
    await idle.send("GET", "/health")
    await idle.answer()
    streaming = await gateway.send("POST", CHAT, chat(stream=True))
    stream = await engine.call()
    await stream.begin_stream()
    await streaming.head()
    waiting = await gateway.send("POST", CHAT, chat())
    call = await engine.call()

    gateway.gateway.stop_listening()
    assert await idle.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await gateway.connect()
    assert gateway.in_flight == 2

    await call.answer()
    answer = await waiting.answer()
    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    await stream.event("last words")
    assert await streaming.chunk() == b"data: last words\n\n"
    await stream.end_stream()
    assert await streaming.chunk() == b""
    assert await streaming.rest() == b""
    await gateway.settled()


async def test_requests_in_the_queue_are_served_while_it_drains(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, max_concurrent_requests=1)
    clients = [await gateway.send("POST", CHAT, chat())]
    call = await engine.call()
    clients.append(await gateway.send("POST", CHAT, chat()))
    await until(lambda: gateway.permits == (1, 1))
    gateway.gateway.begin_draining()
    gateway.gateway.stop_listening()
    await call.answer()
    await (await engine.call()).answer()
    assert [(await client.answer()).status for client in clients] == [200, 200]


async def test_what_is_left_at_the_end_is_cut(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine)
    client = await gateway.send("POST", CHAT, chat(stream=True))
    call = await engine.call()
    await call.begin_stream()
    await client.head()
    await gateway.gateway.close()
    assert gateway.loads == [0]
    assert gateway.permits == (0, 0)
    assert len(gateway.access_lines()) == 1
    assert not (await client.rest()).endswith(b"0\r\n\r\n")
    await within(call.abandoned())
    await gateway.settled()


async def test_what_is_cut_has_ended_when_the_gateway_has(stage):
    """Calls to a whole fleet take longer to give up than those to one worker."""
    engines = [await stage.raw_engine() for _ in range(3)]
    gateway = await stage.gateway(*engines)
    await gateway.send("POST", "/flush_cache")
    for engine in engines:
        await engine.call()
    await gateway.gateway.close()
    assert gateway.gateway.accounts.under_way == {}
    (line,) = gateway.access_lines("/flush_cache")
    assert " status=499 " in line


async def test_idle_connections_to_workers_end_with_the_gateway(stage):
    engine = await stage.raw_engine(answers())
    gateway = await stage.gateway(engine, upstream_pool_idle_timeout_secs=0)
    assert (await gateway.chat(chat())).status == 200
    assert engine.open_connections == 1
    await gateway.gateway.close()
    await until(lambda: not engine.open_connections)


async def test_a_close_waits_for_nobody(stage):
    """Registrations and probes of engines that do not answer end with the gateway."""
    engine = await stage.raw_engine(well=False)
    gateway = await stage.gateway(ready=False)
    await gateway.post("/workers", {"url": engine.url})
    await until(lambda: engine.asked)
    await within(gateway.gateway.close())


class Quiet:
    """A gateway whose every step is noted."""

    def __init__(self, in_flight=0):
        self.in_flight = in_flight
        self.steps = []

    def begin_draining(self):
        self.steps.append("draining")

    def stop_listening(self):
        self.steps.append("not listening")

    async def close(self):
        self.steps.append("closed")


async def test_a_signal_drains_and_ends_with_success():
    gateway = Quiet()
    serving = asyncio.ensure_future(serve_until_signalled(gateway, grace_secs=0.0))
    await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)
    assert await within(serving) == 0
    assert gateway.steps == ["draining", "not listening", "closed"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_does_not_wait(number):
    gateway = Quiet(in_flight=1)
    serving = asyncio.ensure_future(serve_until_signalled(gateway, grace_secs=3600.0))
    await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)
    await until(lambda: gateway.steps)
    signal.raise_signal(number)
    assert await within(serving) == 0
    assert gateway.steps == ["draining", "closed"]


async def test_the_grace_period_is_the_longest_wait():
    gateway = Quiet(in_flight=1)
    serving = asyncio.ensure_future(serve_until_signalled(gateway, grace_secs=0.05))
    await asyncio.sleep(0)
    signal.raise_signal(signal.SIGINT)
    assert await within(serving) == 0
    assert gateway.steps == ["draining", "not listening", "closed"]


@pytest.fixture
def taken_ports():
    with socket.socket() as one, socket.socket() as other:
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
            sock.listen()
        yield one.getsockname()[1], other.getsockname()[1]


async def test_addresses_that_are_taken_are_all_named(taken_ports, tmp_path):
    port, metrics_port = taken_ports
    with (tmp_path / "log").open("wb") as log:
        logs = start_logs(fd=log.fileno())
        try:
            gateway = compose(
                Settings(host="127.0.0.1", port=port, prometheus_host="127.0.0.1", prometheus_port=metrics_port), logs
            )
            with pytest.raises(ConfigError) as refused:
                await gateway.start()
            await gateway.close()
        finally:
            logs.close()
    first, second = refused.value.problems
    assert first.startswith(f"--port: cannot listen on 127.0.0.1:{port}")
    assert second.startswith(f"--prometheus-port: cannot listen on 127.0.0.1:{metrics_port}")
