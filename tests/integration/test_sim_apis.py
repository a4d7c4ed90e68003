"""Simulated engines over real sockets: the APIs beside OpenAI's chat, and realtime sessions."""

import asyncio
import json
import struct
from contextlib import asynccontextmanager

import pytest

from smg.sim.engine import SimEngine
from smg.sim.faults import Fault
from smg.sim.options import SimOptions
from support.client import Client
from support.waiting import until, within
from support.websocket import ACCEPT, CLOSE, PING, PONG, TARGET, TEXT, UPGRADE, close, exactly, frame

CHAT, RESPONSES, MESSAGES, COUNT = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"
HI = [{"role": "user", "content": "hi"}]
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
KEY = "authorization: Bearer key"


@asynccontextmanager
async def engine(**options):
    async with SimEngine(SimOptions(**{"engine": "openai", "model": "m", **options})) as running:
        yield running


async def post(running, path, body, *headers):
    client = await Client.open(running.port)
    await client.send("POST", path, body, headers)
    answer = await client.answer()
    await client.closed()
    return answer


def rows(answer):
    """The data of named events."""
    return [json.loads(event.partition("data: ")[2]) for event in answer.events]


# --- responses and messages


@pytest.mark.parametrize("kind", ["sglang", "vllm", "openai"])
async def test_one_model_says_the_same_in_every_api(kind):
    async with engine(engine=kind, output_tokens=6) as running:
        said = (await post(running, CHAT, {"model": "m", "messages": HI})).json["choices"][0]["message"]["content"]
        response = (await post(running, RESPONSES, {"model": "m", "input": "hi"})).json
        assert response["output"][0]["content"][0]["text"] == said
        assert response["id"].startswith("resp_")
        message = (await post(running, MESSAGES, {"model": "m", "max_tokens": 100, "messages": HI})).json
        assert message["content"][0]["text"] == said
        count = (await post(running, COUNT, {"model": "m", "messages": HI})).json
        assert count == {"input_tokens": message["usage"]["input_tokens"]}


async def test_their_streams_come_token_by_token():
    async with engine(output_tokens=6, tokens_per_second=500) as running:
        streamed = rows(await post(running, RESPONSES, {"model": "m", "input": "hi", "stream": True}))
        assert [row["type"] for row in streamed].count("response.output_text.delta") == 6
        assert streamed[-1]["type"] == "response.completed"
        body = {"model": "m", "max_tokens": 100, "messages": HI, "stream": True}
        streamed = rows(await post(running, MESSAGES, body))
        assert [row["type"] for row in streamed].count("content_block_delta") == 6
        assert streamed[-1]["type"] == "message_stop"


@pytest.mark.parametrize("path", [MESSAGES, COUNT])
async def test_messages_have_errors_of_their_own(path):
    async with engine(engine="vllm") as running:
        wrong = await post(running, path, {"model": "other", "max_tokens": 1, "messages": HI})
        assert (wrong.status, wrong.json["type"], wrong.json["error"]["type"]) == (404, "error", "not_found_error")
        running.faults.add(Fault(kind="error", path=path, status=529))
        failed = await post(running, path, {"model": "m", "max_tokens": 1, "messages": HI})
        assert (failed.status, failed.json["error"]["type"]) == (529, "overloaded_error")


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES, COUNT, "/v1/realtime/client_secrets"])
async def test_they_ask_for_the_key(path):
    async with engine(api_key="key") as running:
        assert (await post(running, path, {})).status == 401
        assert (await post(running, path, {}, KEY)).status == 400


async def test_a_fault_of_a_stream_hits_them_too():
    async with engine() as running:
        running.faults.add(Fault(kind="truncate", path=RESPONSES, after_events=5))
        streamed = rows(await post(running, RESPONSES, {"model": "m", "input": "hi", "stream": True}))
        assert len(streamed) == 5
        await until(lambda: not running.machine.scheduler.live(), "rest")


# --- realtime


class Session:
    """A client's end of a session."""

    def __init__(self, client, head):
        self.client = client
        self.head = head

    async def say(self, **event):
        await self.client.write(frame(TEXT, json.dumps(event).encode(), masked=True))

    async def frame(self):
        first, size = await exactly(self.client, 2)
        if size == 126:
            (size,) = struct.unpack("!H", await exactly(self.client, 2))
        return first & 0x0F, await exactly(self.client, size)

    async def hear(self):
        opcode, payload = await self.frame()
        assert opcode == TEXT
        return json.loads(payload)

    async def until(self, kind):
        """All events up to one of a type."""
        heard = []
        while not heard or heard[-1]["type"] != kind:
            heard.append(await self.hear())
        return heard


@asynccontextmanager
async def session(running, *headers, early=b""):
    client = await Client.open(running.port)
    try:
        await client.send("GET", TARGET, None, [*UPGRADE, *headers])
        if early:
            await client.write(early)
        yield Session(client, (await within(client.reader.readuntil(b"\r\n\r\n"))).decode())
    finally:
        await client.closed()


async def test_a_session_speaks_the_chat_s_words():
    async with engine(engine="vllm", output_tokens=6, tokens_per_second=500) as running:
        said = (await post(running, CHAT, {"model": "m", "messages": HI})).json["choices"][0]["message"]["content"]
        async with session(running, "sec-websocket-protocol: realtime, x") as talk:
            assert talk.head.startswith("HTTP/1.1 101 ")
            assert ACCEPT in talk.head
            assert "sec-websocket-protocol: realtime\r\n" in talk.head
            assert (await talk.hear())["type"] == "session.created"
            await talk.say(type="conversation.item.create", item=HELLO)
            await talk.say(type="response.create")
            heard = await talk.until("response.done")
            assert "".join(event["delta"] for event in heard if event["type"].endswith(".delta")) == said
            await talk.client.write(frame(CLOSE, close(1000), masked=True))
            assert await talk.frame() == (CLOSE, close(1000))
            assert await talk.client.rest() == b""
        assert running.machine.seen[TARGET.partition("?")[0]] == 1


async def test_what_is_said_with_the_handshake_is_heard():
    async with engine() as running, session(running, early=frame(PING, b"?", masked=True)) as talk:
        assert (await talk.hear())["type"] == "session.created"
        assert await talk.frame() == (PONG, b"?")


async def test_a_response_can_be_cancelled_at_any_time():
    async with engine(ttft_ms=3_600_000) as running, session(running) as talk:
        for _ in range(2):
            both = b"".join(
                frame(TEXT, b'{"type":"response.%b"}' % kind, masked=True) for kind in (b"create", b"cancel")
            )
            await talk.client.write(both)
            heard = await talk.until("response.done")
            assert heard[-1]["response"]["status"] == "cancelled"
            await talk.say(type="response.create")
            await until(running.machine.scheduler.live, "a response")
            await talk.say(type="response.create")
            assert "active response" in (await talk.until("error"))[-1]["error"]["message"]
            await talk.say(type="response.cancel")
            assert (await talk.until("response.done"))[-1]["response"]["status"] == "cancelled"
        await talk.say(type="response.cancel")
        assert (await talk.hear())["type"] == "error"
        assert not running.machine.scheduler.live()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_leaves_ends_its_response(reset):
    async with engine(ttft_ms=3_600_000) as running, session(running) as talk:
        await talk.say(type="response.create")
        await until(running.machine.scheduler.live, "a response")
        talk.client.reset() if reset else talk.client.close()
        await until(lambda: not running.machine.scheduler.live(), "rest")


async def test_an_engine_that_ends_cuts_its_sessions():
    async with engine(ttft_ms=3_600_000) as running, session(running) as talk:
        await talk.say(type="response.create")
        await until(running.machine.scheduler.live, "a response")
        await running.stop()
        await within(talk.client.reader.read())


@pytest.mark.parametrize("said", [b"not json", b"[]", b'{"type":"nonsense","event_id":"e"}'])
async def test_what_is_no_event_is_an_error_and_the_session_goes_on(said):
    async with engine() as running, session(running) as talk:
        await talk.hear()
        await talk.client.write(frame(TEXT, said, masked=True))
        assert (await talk.hear())["type"] == "error"
        await talk.say(type="input_audio_buffer.clear")
        assert (await talk.hear())["type"] == "input_audio_buffer.cleared"


async def test_what_breaks_the_protocol_ends_the_session_with_its_code():
    async with engine() as running, session(running) as talk:
        await talk.hear()
        await talk.client.write(frame(TEXT, b"without a mask"))
        opcode, payload = await talk.frame()
        assert (opcode, payload[:2]) == (CLOSE, close(1002))
        assert await talk.client.rest() == b""


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        (TARGET, (), 426),
        ("/v1/realtime", UPGRADE, 400),
        ("/v1/realtime?model=a&model=b", UPGRADE, 400),
        ("/v1/realtime?model=other", UPGRADE, 404),
    ],
)
async def test_what_opens_no_session_is_refused(target, headers, status):
    async with engine() as running:
        client = await Client.open(running.port)
        await client.send("GET", target, None, headers)
        assert (await client.answer()).status == status
        await client.closed()


async def test_sessions_ask_for_the_key_and_sglang_has_none():
    async with engine(api_key="key") as running:
        async with session(running) as talk:
            assert talk.head.startswith("HTTP/1.1 401 ")
        async with session(running, KEY) as talk:
            assert talk.head.startswith("HTTP/1.1 101 ")
    async with engine(engine="sglang") as running, session(running) as talk:
        assert talk.head.startswith("HTTP/1.1 404 ")


PATH = TARGET.partition("?")[0]


LONG = {"tokens_per_second": 1000, "output_tokens": 100_000}


@pytest.mark.parametrize("pace", [{}, LONG], ids=["at once", "long"])
@pytest.mark.parametrize("kind", ["truncate", "reset"])
async def test_a_fault_ends_a_response_in_the_middle(kind, pace):
    async with engine(**pace) as running:
        running.faults.add(Fault(kind=kind, path=PATH, after_events=4))
        async with session(running) as talk:
            await talk.hear()
            await talk.say(type="response.create")
            rest = await talk.client.rest()
            assert rest.count(b'"type":"response.') == 4
            assert b"response.done" not in rest
            assert rest.endswith(frame(CLOSE, close(1011))) is (kind == "truncate")
        await until(lambda: not running.machine.scheduler.live(), "rest")


async def test_a_fault_garbles_an_event_and_another_slows_them():
    async with engine(output_tokens=2) as running:
        running.faults.add(Fault(kind="garbage", path=PATH, after_events=1, count=1))
        running.faults.add(Fault(kind="slow_body", path=PATH, ms=1, count=1))
        async with session(running) as talk:
            await talk.hear()
            await talk.say(type="response.create")
            assert (await talk.hear())["type"] == "response.created"
            assert (await talk.frame())[1].startswith(b"data: ")
            assert (await talk.until("response.done"))[-1]["response"]["status"] == "completed"
        async with session(running) as talk:
            await talk.say(type="response.create")
            assert (await talk.until("response.done"))[-1]["response"]["status"] == "completed"


async def test_a_fault_can_refuse_a_session():
    async with engine() as running:
        running.faults.add(Fault(kind="error", path=PATH, status=503))
        async with session(running) as talk:
            assert talk.head.startswith("HTTP/1.1 503 ")


async def test_a_client_that_does_not_listen_is_not_heard():
    async with engine(output_tokens=1) as running, session(running) as talk:
        flood = frame(PING, bytes(125), masked=True) * 1000
        sent = asyncio.create_task(_flood(talk.client, flood))
        await until(lambda: talk.client.writer.transport.get_write_buffer_size() > 1 << 20, "back-pressure")
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
        talk.client.reset()


async def _flood(client, data):
    while True:
        client.writer.write(data)
        await asyncio.sleep(0)
