from itertools import pairwise

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from smg.net.http2.frames import MAX_FRAME_BYTES, FrameError, Goaway, Splitter

SETTINGS = SettingsFrame(0).serialize()

goaways = st.builds(
    lambda last, code, data: GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=data),
    st.integers(0, 2**31 - 1),
    st.integers(0, 13),
    st.binary(max_size=20),
)
frames = st.lists(st.one_of(st.builds(DataFrame, st.just(1), st.binary(max_size=50)), goaways), max_size=8)


def joined(parts):
    """Parts with neighbouring bytes put together."""
    result = []
    for part in parts:
        if isinstance(part, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += part
        else:
            result.append(part)
    return result


def in_pieces(data, cuts):
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@given(frames, st.lists(st.integers(0, 10_000), max_size=12))
def test_goaway_is_cut_out_however_the_bytes_arrive(sent, cuts):
    expected = [SETTINGS]
    for frame in sent:
        is_goaway = isinstance(frame, GoAwayFrame)
        expected.append(Goaway(frame.last_stream_id) if is_goaway else frame.serialize())
    splitter = Splitter()
    data = SETTINGS + b"".join([frame.serialize() for frame in sent])
    parts = [part for piece in in_pieces(data, cuts) for part in splitter.feed(piece)]
    assert joined(parts) == joined(expected)


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=5))
def test_whatever_comes_is_passed_on_whole_or_refused(data, cuts):
    splitter = Splitter()
    try:
        passed = b"".join(
            [b"" if isinstance(p, Goaway) else p for d in in_pieces(data, cuts) for p in splitter.feed(d)]
        )
    except FrameError:
        return
    assert len(passed) <= len(data)


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 400 Bad Request\r\n", b"HTT", b"\x00\x00\x00\x06", b"\x16\x03\x03\x00\x7a"]
)
def test_a_peer_that_does_not_begin_with_settings_is_foreign(start):
    with pytest.raises(FrameError) as caught:
        Splitter().feed(start)
    assert caught.value.foreign


def test_a_frame_that_is_too_long_is_refused_with_its_head():
    splitter = Splitter()
    splitter.feed(SETTINGS)
    head = (MAX_FRAME_BYTES + 1).to_bytes(3) + b"\x00\x00\x00\x00\x00\x01"
    with pytest.raises(FrameError) as caught:
        splitter.feed(head)
    assert not caught.value.foreign


def test_a_goaway_without_a_last_stream_is_refused():
    splitter = Splitter()
    splitter.feed(SETTINGS)
    with pytest.raises(FrameError):
        splitter.feed(b"\x00\x00\x00\x07\x00\x00\x00\x00\x00")


def test_frames_that_carry_nothing_are_counted():
    splitter = Splitter()
    splitter.feed(SETTINGS + PingFrame(0).serialize() + DataFrame(1).serialize() + DataFrame(1, b"x").serialize())
    assert splitter.idle_talk == 3
    splitter.feed(DataFrame(1, flags=["END_STREAM"]).serialize())
    assert splitter.idle_talk == 3
