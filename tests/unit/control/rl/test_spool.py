import errno

import pytest

from smg.control.rl import spool as module
from smg.control.rl.spool import Spool, Spooled


def text(kept):
    return kept if isinstance(kept, bytes) else kept.read()


def test_what_has_room_stays_in_memory_and_the_rest_goes_to_disk():
    pieces = [bytes([65 + number]) * 4 for number in range(5)]
    with Spool(max_memory_bytes=8) as spool:
        kept = [spool.keep(piece) for piece in pieces]
        assert [type(one) for one in kept] == [bytes, bytes, Spooled, Spooled, Spooled]
        assert [len(one) for one in kept] == [4] * 5
        assert [text(one) for one in reversed(kept)] == pieces[::-1]


def test_a_piece_may_come_after_another_was_read():
    with Spool(max_memory_bytes=0) as spool:
        first = spool.keep(b"first")
        assert text(first) == b"first"
        second = spool.keep(b"second")
        assert (text(first), text(second)) == (b"first", b"second")


def test_the_file_ends_with_the_spool():
    with Spool(max_memory_bytes=0) as spool:
        kept = spool.keep(b"x")
    with pytest.raises(ValueError, match="closed"):
        kept.read()


def test_a_full_disk_costs_memory_and_no_answer(monkeypatch):
    def full(**_options):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(module, "TemporaryFile", full)
    with Spool(max_memory_bytes=0) as spool:
        assert spool.keep(b"x") == b"x"
