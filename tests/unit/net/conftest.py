"""Stand-ins for the wire that the tests of connections share."""

import asyncio
import gc

import pytest


class Wire:
    """A transport without a network: keeps what is written, and how reading and writing are told to go."""

    def __init__(self):
        self.written = bytearray()
        self.unsent_bytes = 0
        self.reading = True
        self.closing = False
        self.aborted = False
        self.ended = False

    def write(self, data):
        assert not self.ended, "written after the end"
        if not self.closing:
            self.written += data

    def write_eof(self):
        self.ended = True

    def can_write_eof(self):
        return True

    def close(self):
        self.closing = True

    def abort(self):
        self.closing = self.aborted = True

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def get_extra_info(self, name):
        return ("192.0.2.7", 4000) if name == "peername" else None

    def take(self):
        """What was written since the last time."""
        taken = bytes(self.written)
        self.written.clear()
        return taken


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def new_wire():
    return Wire


@pytest.fixture
async def calm_loop():
    """The running loop; the test fails when anything reaches the loop's exception handler."""
    loop = asyncio.get_running_loop()
    unexpected = []
    loop.set_exception_handler(lambda _, context: unexpected.append(context))
    gc.freeze()  # so that the collection below looks at nothing but what the test made
    yield loop
    gc.collect()
    gc.unfreeze()
    await asyncio.sleep(0)
    assert unexpected == []


async def turn(times=5):
    """Let everything that is ready run."""
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.fixture(name="turn")
def turn_fixture():
    return turn
