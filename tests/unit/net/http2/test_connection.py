"""The connection without a network: what any bytes do to it."""

import asyncio
import gc
import weakref
from contextlib import suppress

from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from smg.errors import UpstreamError
from smg.net.http2.connection import Connection, StreamLimits

SETTINGS = SettingsFrame(0).serialize()
FIELDS = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"w"), (b":path", b"/")]


class Owner:
    def freed(self, connection):
        pass

    def forget(self, connection):
        pass


class Wire:
    """A transport that keeps nothing."""

    aborted = closed = False

    def write(self, data):
        assert not self.aborted

    def abort(self):
        self.aborted = True

    def close(self):
        self.closed = True

    def get_extra_info(self, name):
        return None

    def get_write_buffer_size(self):
        return 0


ids = st.sampled_from([0, 1, 2, 3, 5, 99])
HEADS = [b"\x88", b"\x88\x5c\x01\x31", b"", b"\xff\xff", b"\x40\x01\x41\x01\x62", b"\x08\x03\x31\x30\x33"]
flags = st.sets(st.sampled_from(["END_STREAM", "END_HEADERS"]))


def frame(kind, stream_id, **members):
    built = kind(0) if stream_id is None else kind(1)
    if stream_id is not None:
        built.stream_id = stream_id
    for name, value in members.items():
        setattr(built, name, value) if name != "flags" else [built.flags.add(flag) for flag in value]
    return built.serialize()


@st.composite
def any_frame(draw):
    kind = draw(st.sampled_from(["data", "head", "reset", "window", "ping", "settings", "goaway", "odd", "noise"]))
    stream_id = draw(ids)
    if kind == "data":
        ends = draw(st.sets(st.just("END_STREAM")))
        return frame(DataFrame, stream_id, data=draw(st.binary(max_size=30)), flags=ends)
    if kind == "head":
        return frame(HeadersFrame, stream_id, data=draw(st.sampled_from(HEADS)), flags=draw(flags))
    if kind == "reset":
        return frame(RstStreamFrame, stream_id, error_code=draw(st.integers(0, 20)))
    if kind == "window":
        return frame(WindowUpdateFrame, stream_id, window_increment=draw(st.sampled_from([1, 100, 2**31 - 1])))
    if kind == "ping":
        return frame(PingFrame, None, opaque_data=b"12345678")
    if kind == "settings":
        value = draw(st.sampled_from([0, 1, 16384, 2**31, 2**32 - 1]))
        return frame(SettingsFrame, None, settings={draw(st.integers(1, 9)): value})
    if kind == "goaway":
        return frame(GoAwayFrame, None, last_stream_id=draw(ids), error_code=draw(st.integers(0, 20)))
    if kind == "odd":
        other = draw(st.sampled_from([ContinuationFrame, PushPromiseFrame, PriorityFrame]))
        return frame(other, stream_id)
    return draw(st.binary(max_size=20))


@given(st.lists(any_frame(), max_size=12), st.integers(1, 200))
def test_whatever_a_worker_sends_every_exchange_comes_to_an_end(frames, size):
    async def converse():
        loop = asyncio.get_running_loop()
        connection, wire = Connection(Owner(), loop, StreamLimits()), Wire()
        connection.connection_made(wire)
        connection.data_received(SETTINGS)
        calls = [asyncio.create_task(connection.send(FIELDS, 0.0, content=b"x" * 10)) for _ in range(3)]
        await asyncio.sleep(0)
        data = b"".join(frames)
        for start in range(0, len(data), size):
            if not wire.aborted:
                connection.data_received(data[start : start + size])
        connection.connection_lost(None)
        for call in calls:
            with suppress(UpstreamError):
                reply = await call
                await reply.read(1 << 20)
        assert not connection._streams
        assert not connection._uploads

    asyncio.run(converse())


async def test_a_failed_exchange_leaves_nothing_for_the_collector():
    connection = Connection(Owner(), asyncio.get_running_loop(), StreamLimits())
    connection.connection_made(Wire())
    connection.data_received(SETTINGS)
    call = asyncio.create_task(connection.send(FIELDS, 0.0))
    await asyncio.sleep(0)
    gc.disable()
    try:
        connection.data_received(frame(RstStreamFrame, 1, error_code=2))
        try:
            await call
        except UpstreamError as error:
            left = weakref.ref(error)
        del call
        await asyncio.sleep(0)  # the loop holds it until this step is over
        assert left() is None
    finally:
        gc.enable()
