"""Frames are read whole, in pieces, and not at all if they break the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim import frames
from support.websocket import close
from support.websocket import frame as made


@given(
    st.lists(st.tuples(st.sampled_from([frames.TEXT, frames.BINARY, frames.PING]), st.binary(max_size=125))),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_messages_are_the_same_under_any_split(messages, cuts):
    wire = b"".join(made(opcode, payload, masked=True) for opcode, payload in messages)
    reader, found, at = frames.FrameReader(), [], 0
    for cut in cuts * (len(wire) + 1):
        if at >= len(wire):
            break
        found += reader.feed(wire[at : at + cut])
        at += cut
    assert found == messages


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, frames.MAX_MESSAGE_BYTES])
def test_every_length_is_read_and_written(size):
    payload = bytes(at % 251 for at in range(size))
    assert frames.FrameReader().feed(made(frames.BINARY, payload, masked=True)) == [(frames.BINARY, payload)]
    assert frames.frame(frames.BINARY, payload) == made(frames.BINARY, payload)


def test_fragments_are_joined_around_control_frames():
    reader = frames.FrameReader()
    wire = made(frames.TEXT, b"he", masked=True, last=False) + made(frames.PING, b"?", masked=True)
    assert reader.feed(wire) == [(frames.PING, b"?")]
    assert reader.feed(made(0, b"llo", masked=True)) == [(frames.TEXT, b"hello")]


FAULTS = {
    "no mask": made(frames.TEXT, b"bare"),
    "nothing to continue": made(0, b"", masked=True),
    "begun twice": made(frames.TEXT, b"", masked=True, last=False) + made(frames.TEXT, b"", masked=True),
    "unknown": made(3, b"", masked=True),
    "unknown control": made(11, b"", masked=True),
    "control in pieces": made(frames.PING, b"", masked=True, last=False),
    "long control": made(frames.PING, bytes(126), masked=True),
    "an extension": bytes([0xC1, 0x80]),
}


@pytest.mark.parametrize("wire", FAULTS.values(), ids=FAULTS)
def test_what_breaks_the_rules_is_told_by_its_code(wire):
    with pytest.raises(frames.FrameError) as broken:
        frames.FrameReader().feed(wire)
    assert broken.value.code == frames.PROTOCOL_ERROR


def test_what_is_too_long_is_refused_by_its_head():
    with pytest.raises(frames.FrameError) as broken:
        frames.FrameReader().feed(bytes([0x82, 0xFF]) + (1 << 40).to_bytes(8, "big") + bytes(4))
    assert broken.value.code == frames.TOO_BIG


def test_fragments_do_not_grow_without_bound():
    reader, piece = frames.FrameReader(), made(0, bytes(1 << 19), masked=True, last=False)
    reader.feed(made(frames.TEXT, bytes(1 << 19), masked=True, last=False) + piece)
    with pytest.raises(frames.FrameError):
        reader.feed(piece)


def test_a_goodbye_has_its_code_and_a_short_reason():
    assert frames.closing(1000, "bye") == made(frames.CLOSE, close(1000, "bye"))
    assert len(frames.closing(1000, "x" * 500)) == 127
