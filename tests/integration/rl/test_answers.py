"""What engines answer, and what they answer instead: everything is bounded, and every wait ends."""

import asyncio

import pytest

from support.raw_engine import (
    answers,
    breaks_its_chunks,
    breaks_off,
    closes,
    hangs,
    resets,
    stalls,
    talks_nonsense,
)
from support.waiting import within

MIB = 1 << 20
TEXT = "content-type: text/plain"


async def called(stage, behaviour, *, method="POST", **settings):
    """What a call to an engine that behaves so comes to."""
    engine = await stage.raw_engine(behaviour)
    trainer = await stage.plane(engine, **settings)
    answer = await trainer.call(engine, "op", method=method)
    assert len(engine.calls) == 1
    return answer


@pytest.mark.parametrize(
    "behaviour", [resets, closes, breaks_off, breaks_its_chunks, talks_nonsense], ids=lambda b: b.__name__
)
async def test_an_engine_that_fails_is_unreachable_and_asked_once(stage, behaviour):
    answer = await called(stage, behaviour)
    assert (answer.status, answer.json["error"]) == (502, "upstream_unreachable")


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 99 Too Low\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad\x00header: x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"x" * 100_000,
    ],
)
async def test_a_head_that_is_none_is_unreachable(stage, head):
    async def behave(call):
        await call.write(head)
        await call.abandoned()

    answer = await called(stage, behave)
    assert (answer.status, answer.json["error"]) == (502, "upstream_unreachable")


async def test_an_engine_that_is_not_there_is_unreachable(stage):
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    await engine.stop()
    answer = await trainer.call(engine, "op")
    assert (answer.status, answer.json["error"]) == (502, "upstream_unreachable")


async def drips(call):
    """Send a head, and then a byte now and then for ever."""
    await call.begin(200, TEXT, "transfer-encoding: chunked")
    try:
        while not call.writer.is_closing():
            await call.chunk(b".")
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    call.finish()


async def never_begins(call):
    """Announce an answer again and again, and never give it."""
    try:
        while not call.writer.is_closing():
            await call.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    call.finish()


@pytest.mark.parametrize("behaviour", [hangs, stalls, drips, never_begins], ids=lambda b: b.__name__)
async def test_one_deadline_is_over_the_whole_call(stage, behaviour):
    answer = await called(stage, behaviour, rl_control_timeout_secs=0.2, request_timeout_secs=100)
    assert (answer.status, answer.json["error"]) == (504, "upstream_timeout")


async def test_the_deadline_of_requests_does_not_apply(stage):
    async def takes_its_time(call):
        await asyncio.sleep(0.6)
        await call.answer()

    answer = await called(stage, takes_its_time, request_timeout_secs=0.2)
    assert answer.json["latency_ms"] >= 500


async def endless(call):
    """Send for ever, as fast as it is read."""
    await call.begin(200, TEXT, "transfer-encoding: chunked")
    try:
        while True:
            await call.chunk(b"z" * 65536)
    except (ConnectionError, AssertionError):
        call.finish()


async def until_close(call):
    """An answer without a length, which ends with the connection."""
    await call.begin(200, TEXT)
    await call.write(b"z" * (MIB + 1))
    call.close()


@pytest.mark.parametrize("behaviour", [endless, until_close], ids=lambda b: b.__name__)
async def test_what_is_beyond_a_mebibyte_is_not_read(stage, behaviour):
    answer = await called(stage, behaviour)
    assert (answer.status, answer.json["body_truncated"]) == (200, True)
    assert answer.json["body"] == "z" * MIB


async def test_reading_stops_at_once(stage):
    """The connection ends although the engine has announced much more, and does not send it yet."""
    engine = await stage.raw_engine()
    trainer = await stage.plane(engine)
    asking = asyncio.ensure_future(trainer.call(engine, "op"))
    call = await engine.call()
    await call.begin(200, TEXT, "content-length: 1000000000")
    await call.write(b"z" * (MIB + 1))
    assert (await within(asking)).json["body_truncated"]
    await call.abandoned()


@pytest.mark.parametrize(("size", "truncated"), [(MIB - 1, None), (MIB, None), (MIB + 1, True)])
async def test_only_more_than_a_mebibyte_is_cut(stage, size, truncated):
    answer = await called(stage, answers(200, b"z" * size, TEXT))
    assert (answer.json["body"], answer.json.get("body_truncated")) == ("z" * min(size, MIB), truncated)


async def test_json_that_is_cut_is_a_string(stage):
    answer = await called(stage, answers(500, b'["' + b"z" * (MIB - 3) + b'"]'))
    assert (answer.status, answer.json["body"][-1], answer.json["body_truncated"]) == (500, '"', True)


async def test_a_character_that_is_split_does_not_spoil_the_rest(stage):
    data = ("z" * (MIB - 2) + "😀").encode()
    answer = await called(stage, answers(200, data, TEXT))
    assert answer.json["body"] == "z" * (MIB - 2) + "\ufffd"


async def test_a_redirect_is_an_answer(stage):
    answer = await called(stage, answers(307, b"", "location: http://127.0.0.1:9/op"))
    assert (answer.status, answer.json["status"], answer.json["body"]) == (307, 307, "")


@pytest.mark.parametrize("status", [200, 204, 304, 429, 503, 599, 999])
async def test_the_status_is_the_engines(stage, status):
    async def behave(call):
        await call.begin(status, "content-length: 0")
        call.finish(keeps_connection=True)

    assert (await called(stage, behave)).status == status


async def test_the_answer_to_a_head_has_no_body_whatever_it_announces(stage):
    async def announces(call):
        assert call.method == "HEAD"
        await call.begin(200, "content-length: 1000", TEXT)
        await call.abandoned()

    answer = await called(stage, announces, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
