"""Simulated engines over real sockets."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress

import pytest

from smg.sim.engine import SimEngine
from smg.sim.faults import Fault
from smg.sim.options import SimOptions
from smg.sim.scheduler import Pace

CHAT = "/v1/chat/completions"
DEADLINE_SECS = 20
AT_ONCE = Pace()


OPENED = []


class Client:
    """One connection, one request at a time."""

    def __init__(self, port):
        self.port = port

    async def send(self, method, target, body=None, headers=()):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        OPENED.append(self)
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.1", "host: sim", f"content-length: {len(data)}", *headers]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        return self

    async def head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        self.status = int(head[0].split()[1])
        return self.status

    async def pieces(self):
        """The chunks of a chunked body."""
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    async def body(self):
        if "content-length" in self.fields:
            return await self.reader.readexactly(int(self.fields["content-length"]))
        return b"".join([piece async for piece in self.pieces()])

    async def events(self):
        """The data of server-sent events, decoded; the end mark as text."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n\n")
            for event in whole:
                data = event.removeprefix(b"data: ")
                yield "[DONE]" if data == b"[DONE]" else json.loads(data)

    def leave(self):
        self.writer.close()


@asynccontextmanager
async def engine(**options):
    """An engine, and an end for every connection made to it."""
    try:
        async with asyncio.timeout(DEADLINE_SECS), SimEngine(SimOptions(model="m", **options)) as running:
            yield running
    finally:
        for client in OPENED:
            client.leave()
            with suppress(ConnectionError):
                await client.writer.wait_closed()
        OPENED.clear()


async def ask(running, method, target, body=None, headers=()):
    """A whole answer: status and body, decoded when it is JSON."""
    client = await Client(running.port).send(method, target, body, headers)
    status = await client.head()
    data = await client.body()
    client.leave()
    return status, json.loads(data) if client.fields["content-type"].startswith("application/json") else data.decode()


async def open_stream(running, body, path=CHAT):
    client = await Client(running.port).send("POST", path, {**body, "stream": True})
    assert await client.head() == 200
    return client


def chat(content="hello", **fields):
    return {"messages": [{"role": "user", "content": content}], **fields}


def text_of(events):
    return "".join(e["choices"][0]["delta"].get("content", "") for e in events if e != "[DONE]" and e["choices"])


async def collect(stream, seen):
    async for event in stream.events():
        seen.append(event)  # what came before a failure counts


async def until(condition):
    while not condition():  # noqa: ASYNC110  engines have no events for tests
        await asyncio.sleep(0.002)


# --- inference


async def test_a_plain_answer_and_its_stream_say_the_same():
    async with engine() as running:
        status, answer = await ask(running, "POST", CHAT, chat(max_tokens=12))
        assert status == 200
        stream = await open_stream(running, chat(max_tokens=12, stream_options={"include_usage": True}))
        events = [event async for event in stream.events()]
        assert stream.fields["content-type"] == "text/event-stream"
        assert text_of(events) == answer["choices"][0]["message"]["content"]
        assert events[-1] == "[DONE]"
        assert events[-2]["usage"] == answer["usage"]


async def test_a_connection_serves_one_request_after_the_other():
    async with engine() as running:
        first = await Client(running.port).send("GET", "/health")
        assert await first.head() == 200
        await first.body()
        first.writer.write(b"GET /v1/models HTTP/1.1\r\nhost: sim\r\n\r\n")
        assert await first.head() == 200
        assert json.loads(await first.body())["data"][0]["id"] == "m"


async def test_every_inference_route_answers():
    async with engine() as running:
        for path, body in {
            "/v1/completions": {"prompt": "a", "max_tokens": 2},
            "/generate": {"text": ["a", "b"], "sampling_params": {"max_new_tokens": 2}},
            "/v1/embeddings": {"input": "a"},
            "/v1/rerank": {"query": "a", "documents": ["b"]},
            "/rerank": {"query": "a", "documents": ["b"]},
            "/v1/classify": {"input": "a"},
            "/v1/systemone": {"state": "a", "questions": {"q": {"type": "noul", "instructions": "b"}}},
        }.items():
            assert (await ask(running, "POST", path, body))[0] == 200, path


async def test_several_choices_stream_side_by_side():
    async with engine(tokens_per_second=500) as running:
        stream = await open_stream(running, chat(max_tokens=5, n=2))
        events = [event async for event in stream.events() if event != "[DONE]"]
        by_choice = [[e for e in events if e["choices"][0]["index"] == index] for index in (0, 1)]
        plain = (await ask(running, "POST", CHAT, chat(max_tokens=5, n=2)))[1]
        assert [sum("role" in e["choices"][0]["delta"] for e in of_one) for of_one in by_choice] == [1, 1]
        assert [text_of(e) for e in by_choice] == [c["message"]["content"] for c in plain["choices"]]


async def test_tokens_of_a_slow_engine_are_sent_as_they_appear():
    async with engine(tokens_per_second=20) as running:
        stream = await open_stream(running, chat(max_tokens=1000))
        events = stream.events()
        assert (await anext(events))["choices"][0]["delta"]["role"] == "assistant"
        assert text_of([await anext(events), await anext(events)])
        assert running.machine.scheduler.generated_tokens < 1000


async def test_cache_hits_rise_on_a_repeated_prefix():
    async with engine() as running:
        cached = []
        for content in ("x" * 600, "x" * 600, "x" * 600 + "more", "y" * 600):
            usage = (await ask(running, "POST", CHAT, chat(content)))[1]["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
        assert cached[0] == cached[3] == 0
        assert 0 < cached[2] <= cached[1] < usage["prompt_tokens"]
        state = (await ask(running, "GET", "/sim/state"))[1]
        assert state["cached_tokens"] == sum(cached)


async def test_a_full_engine_lets_requests_wait_and_reports_its_load():
    async with engine(tokens_per_second=10, max_running_requests=1) as running:
        first = await open_stream(running, chat(max_tokens=1000))
        second = await open_stream(running, chat(max_tokens=2))
        await until(lambda: running.machine.scheduler.waiting)
        load = (await ask(running, "GET", "/v1/loads?include=core"))[1]["loads"][0]
        assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (1, 1)
        metrics = (await ask(running, "GET", "/metrics"))[1]
        assert 'sglang:num_queue_reqs{model_name="m"} 1\n' in metrics
        first.leave()
        assert [e async for e in second.events()][-1] == "[DONE]"


async def test_a_client_that_leaves_aborts_its_request():
    async with engine(tokens_per_second=10) as running:
        stream = await open_stream(running, chat(max_tokens=1000))
        plain = await Client(running.port).send("POST", CHAT, chat(max_tokens=1000))
        await until(lambda: len(running.machine.scheduler.running) == 2)
        stream.leave()
        plain.leave()
        await until(lambda: running.machine.scheduler.aborted == 2)
        assert running.machine.idle


async def test_what_is_refused_is_said_in_the_engines_own_words():
    async with engine(engine="vllm", api_key="k") as running:
        key = ["authorization: Bearer k"]
        assert (await ask(running, "POST", CHAT, chat()))[0] == 401
        assert (await ask(running, "GET", "/health"))[0] == 200
        status, answer = await ask(running, "POST", CHAT, chat(model="other"), key)
        assert (status, answer["error"]["type"]) == (404, "NotFoundError")
        status, answer = await ask(running, "POST", CHAT, {"messages": 3}, key)
        assert (status, answer["error"]["type"]) == (400, "BadRequestError")
        assert (await ask(running, "GET", CHAT, None, key))[0] == 405
        assert (await ask(running, "GET", "/server_info"))[0] == 404


# --- control


async def test_a_pause_stops_tokens_and_continuing_resumes_them():
    async with engine(tokens_per_second=50) as running:
        stream = await open_stream(running, chat(max_tokens=200))
        events = stream.events()
        seen = [await anext(events) for _ in range(3)]
        assert (await ask(running, "POST", "/pause_generation", {"mode": "in_place"}))[0] == 200
        produced = running.machine.scheduler.generated_tokens
        newcomer = await open_stream(running, chat("other", max_tokens=2))
        await until(lambda: running.machine.scheduler.waiting)
        running.machine.scheduler.tick(asyncio.get_running_loop().time() + 100)
        assert running.machine.scheduler.generated_tokens == produced
        running.machine.scheduler.pace = AT_ONCE
        await ask(running, "POST", "/continue_generation", {})
        seen += [event async for event in events]
        plain = (await ask(running, "POST", CHAT, chat(max_tokens=200)))[1]
        assert text_of(seen) == plain["choices"][0]["message"]["content"]
        assert [e async for e in newcomer.events()][-1] == "[DONE]"


async def test_an_aborting_pause_ends_requests_with_what_they_have():
    async with engine(tokens_per_second=100) as running:
        stream = await open_stream(running, chat(max_tokens=1000))
        events = stream.events()
        await anext(events)
        await ask(running, "POST", "/pause_generation", {})
        rest = [event async for event in events]
        assert rest[-1] == "[DONE]"
        assert rest[-2]["choices"][0]["finish_reason"] == "abort"


async def test_a_bodyless_pause_is_refused():
    async with engine() as running:
        assert (await ask(running, "POST", "/pause_generation"))[0] == 400


async def test_a_refit_waits_for_running_requests_and_shows_its_version():
    async with engine(tokens_per_second=100) as running:
        before = await open_stream(running, {"text": "a", "sampling_params": {"max_new_tokens": 20}}, "/generate")
        refit = asyncio.create_task(
            ask(running, "POST", "/update_weights_from_disk", {"model_path": "/ckpt/2", "weight_version": "2"})
        )
        await until(lambda: running.machine.seen["/update_weights_from_disk"])
        after = asyncio.create_task(
            ask(running, "POST", "/generate", {"text": "a", "sampling_params": {"max_new_tokens": 10}})
        )
        old = [event async for event in before.events()][-2]
        assert (await refit)[1]["success"]
        new = (await after)[1]
        assert (old["meta_info"]["weight_version"], new["meta_info"]["weight_version"]) == ("default", "2")
        assert old["text"][:40] != new["text"][:40]
        assert (await ask(running, "GET", "/server_info"))[1]["weight_version"] == "2"


async def test_a_refit_of_a_paused_engine_changes_the_rest_of_an_answer():
    async with engine(tokens_per_second=50) as running:
        stream = await open_stream(running, chat(max_tokens=200))
        events = stream.events()
        seen = [await anext(events) for _ in range(4)]
        await ask(running, "POST", "/pause_generation", {"mode": "retract"})
        at = running.machine.scheduler.waiting[0].produced * 4
        old = running.machine.scheduler.waiting[0].output.text
        await ask(running, "POST", "/update_weights_from_disk", {"model_path": "/c", "weight_version": "2"})
        running.machine.scheduler.pace = AT_ONCE
        await ask(running, "POST", "/continue_generation", {})
        mixed = text_of(seen + [event async for event in events])
        new = (await ask(running, "POST", CHAT, chat(max_tokens=200)))[1]["choices"][0]["message"]["content"]
        assert mixed == old[:at] + new[at:]


async def test_a_waiting_pause_of_vllm_answers_when_nothing_runs():
    async with engine(engine="vllm", tokens_per_second=100) as running:
        stream = await open_stream(running, chat(max_tokens=20))
        status, _ = await ask(running, "POST", "/pause?mode=wait")
        assert status == 200
        assert running.machine.idle
        assert [e async for e in stream.events()][-2]["choices"][0]["finish_reason"] == "length"
        assert (await ask(running, "GET", "/is_paused"))[1] == {"is_paused": True}
        waiting = asyncio.create_task(ask(running, "POST", CHAT, chat(max_tokens=1)))
        await until(lambda: running.machine.scheduler.waiting)
        await ask(running, "POST", "/resume")
        assert (await waiting)[0] == 200


# --- faults


async def test_an_error_is_answered_as_often_as_it_was_scripted():
    async with engine(faults=(Fault(CHAT, "error", status=503, count=2),)) as running:
        statuses = [(await ask(running, "POST", CHAT, chat()))[0] for _ in range(3)]
        assert statuses == [503, 503, 200]


async def test_faults_are_listed_added_and_cleared_at_run_time():
    async with engine() as running:
        row = {"path": "/health", "kind": "error", "status": 503}
        assert (await ask(running, "POST", "/sim/faults", row))[0] == 200
        assert (await ask(running, "GET", "/health"))[0] == 503
        assert (await ask(running, "GET", "/sim/faults"))[1]["faults"][0]["status"] == 503
        assert (await ask(running, "DELETE", "/sim/faults"))[1] == {"cleared": 1}
        assert (await ask(running, "GET", "/health"))[0] == 200
        assert (await ask(running, "POST", "/sim/faults", {"kind": "explode"}))[0] == 400
        assert (await ask(running, "POST", "/sim/faults", [row, row]))[0] == 200


async def test_a_reset_cuts_the_connection():
    async with engine(faults=(Fault(CHAT, "reset"),)) as running:
        client = await Client(running.port).send("POST", CHAT, chat())
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.head()


async def test_a_late_reset_cuts_a_stream_after_so_many_events():
    async with engine(faults=(Fault(CHAT, "reset", after_events=3),), tokens_per_second=200) as running:
        stream = await open_stream(running, chat())
        seen = []
        with pytest.raises((ValueError, asyncio.IncompleteReadError, ConnectionError)):
            await collect(stream, seen)
        assert len(seen) == 3
        await until(lambda: running.machine.scheduler.aborted == 1)


async def test_a_truncated_stream_ends_without_its_end_mark():
    async with engine(faults=(Fault(CHAT, "truncate", after_events=2),), tokens_per_second=200) as running:
        stream = await open_stream(running, chat())
        assert len([event async for event in stream.events()]) == 2
        await until(lambda: running.machine.scheduler.aborted == 1)


async def test_a_truncated_body_is_no_json():
    async with engine(faults=(Fault(CHAT, "truncate"),)) as running:
        with pytest.raises(json.JSONDecodeError):
            await ask(running, "POST", CHAT, chat())


async def test_garbage_stands_where_an_event_should():
    async with engine(faults=(Fault(CHAT, "garbage", after_events=1),)) as running:
        stream = await open_stream(running, chat())
        data = await stream.body()
        events = data.split(b"\n\n")
        json.loads(events[0].removeprefix(b"data: "))
        with pytest.raises(json.JSONDecodeError):
            json.loads(events[1].removeprefix(b"data: "))
        assert events[-2] == b"data: [DONE]"


async def test_a_slow_body_is_whole_in_the_end():
    async with engine(faults=(Fault(CHAT, "slow_body", ms=1),)) as running:
        plain = (await ask(running, "POST", CHAT, chat(max_tokens=4)))[1]
        stream = await open_stream(running, chat(max_tokens=4))
        assert text_of([e async for e in stream.events()]) == plain["choices"][0]["message"]["content"]


async def test_a_hanging_request_ends_when_its_client_leaves():
    async with engine(faults=(Fault(CHAT, "hang", count=1),)) as running:
        client = await Client(running.port).send("POST", CHAT, chat())
        await until(lambda: running.faults.applied)
        client.leave()
        assert (await ask(running, "POST", CHAT, chat()))[0] == 200


async def test_latency_delays_and_then_serves():
    async with engine(faults=(Fault(CHAT, "latency", ms=1),)) as running:
        assert (await ask(running, "POST", CHAT, chat()))[0] == 200
        assert running.faults.applied == 1


async def test_an_engine_in_a_shared_process_does_not_crash_it():
    async with engine() as running:
        assert (await ask(running, "POST", "/sim/crash"))[0] == 403


async def test_the_state_counts_requests_by_path():
    async with engine() as running:
        await ask(running, "POST", CHAT, chat())
        await ask(running, "POST", CHAT, {})
        state = (await ask(running, "GET", "/sim/state"))[1]
        assert state["seen"] == {CHAT: 2, "/sim/state": 1}
        assert (state["requests"], state["served"]) == (2, 1)


async def test_many_engines_live_in_one_process():
    async with engine() as one, engine(engine="vllm") as other:
        assert one.port != other.port
        await ask(one, "POST", CHAT, chat())
        assert (one.machine.requests, other.machine.requests) == (1, 0)


# --- processes


def free_ports(count):
    """Ports that nobody listens on just now, in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        with suppress(OSError), ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))


@contextmanager
def process(module, *arguments):
    """A command of ours as a process of its own."""
    code = f"import sys; from {module} import main; sys.exit(main(sys.argv[1:]))"
    running = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
        running.wait(DEADLINE_SECS)
        running.stdout.close()


def get(url, data=None):
    with closing(urllib.request.urlopen(url, data, timeout=5)) as answer:
        return json.loads(answer.read())


def eventually(fetch):
    """The first value that `fetch` returns without a refused connection or an error status."""
    for _ in range(400):
        with suppress(OSError):
            return fetch()
        time.sleep(0.05)
    raise AssertionError("no answer in time")


def test_an_engine_process_serves_until_it_is_told_to_stop():
    with process("smg.sim.cli", "--engine", "vllm", "--model", "m") as running:
        url = running.stdout.readline().split()[-1]
        assert get(f"{url}/v1/models")["data"][0]["id"] == "m"
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE_SECS) == 0


def test_an_engine_process_may_crash():
    with process("smg.sim.cli") as running:
        url = running.stdout.readline().split()[-1]
        with pytest.raises(OSError):  # noqa: PT011  whatever a cut connection looks like
            get(f"{url}/sim/crash", b"")
        assert running.wait(DEADLINE_SECS) == 70


def test_a_port_that_is_taken_is_named(capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with process("smg.sim.cli", "--port", str(port)) as running:
            assert running.wait(DEADLINE_SECS) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capfd.readouterr().err


def test_serve_starts_engines_and_gateway_and_leaves_nothing_behind():
    gateway, metrics, *engines = free_ports(4)
    flags = ["--backend", "sim", "--model", "m", "--dp-size", "2"]
    flags += ["--port", str(gateway), "--worker-base-port", str(engines[0])]
    flags += ["--router-prometheus-port", str(metrics), "--router-shutdown-grace-period-secs", "1"]
    with process("smg.app.serve", *flags) as running:
        ready = eventually(lambda: get(f"http://127.0.0.1:{gateway}/readiness"))
        assert ready["status"] == "ready"
        states = [eventually(lambda p=port: get(f"http://127.0.0.1:{p}/sim/state")) for port in engines]
        assert [state["model"] for state in states] == ["m", "m"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE_SECS) == 128 + signal.SIGTERM
    for port in (gateway, *engines):
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(("127.0.0.1", port))
