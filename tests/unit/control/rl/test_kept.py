import errno
import os
from contextlib import ExitStack, closing

import pytest

from smg.control.rl.kept import Keeper, Kept


async def text(kept):
    return kept if isinstance(kept, bytes) else await kept.read()


@pytest.fixture
async def new_keeper():
    with ExitStack() as stack:
        yield lambda max_memory_bytes: stack.enter_context(closing(Keeper(max_memory_bytes)))


async def test_what_has_room_stays_in_memory_and_the_rest_goes_to_disk(new_keeper):
    keeper = new_keeper(8)
    pieces = [bytes([65 + number]) * 4 for number in range(5)]
    kept = [await keeper.keep(piece) for piece in pieces]
    assert [type(one) for one in kept] == [bytes, bytes, Kept, Kept, Kept]
    assert [len(one) for one in kept] == [4] * 5
    assert [await text(one) for one in reversed(kept)] == pieces[::-1]


async def test_a_piece_may_come_after_another_was_read(new_keeper):
    keeper = new_keeper(0)
    first = await keeper.keep(b"first")
    assert await text(first) == b"first"
    second = await keeper.keep(b"second")
    assert (await text(first), await text(second)) == (b"first", b"second")


async def test_a_full_disk_costs_memory_and_no_answer(new_keeper, monkeypatch):
    keeper = new_keeper(0)
    before = await keeper.keep(b"before")

    def full(*_args):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert await keeper.keep(b"then") == b"then"
    assert await keeper.keep(b"after") == b"after"
    assert await text(before) == b"before"
