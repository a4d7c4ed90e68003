import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.sse import KEEP_ALIVE, TAIL_BYTES, at_boundary, broken_stream


def naive_boundary(stream: bytes) -> bool:
    """A stream is between events if its last line end closes an empty line."""
    ends = list(re.finditer(rb"\r\n|\r|\n", stream))
    if not ends or ends[-1].end() != len(stream):
        return not stream
    return len(ends) > 1 and ends[-2].end() == ends[-1].start()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_blank_line_ends_an_event_in_every_spelling(end):
    assert at_boundary(b"data: x" + end + end)
    assert not at_boundary(b"data: x" + end)
    assert not at_boundary(b"data: x")


def test_a_stream_that_has_not_begun_is_at_a_boundary():
    assert at_boundary(b"")


@given(st.lists(st.sampled_from([b"data: x", b": c", b"\n", b"\r", b"\r\n", b"\n\n"]), min_size=1, max_size=12))
def test_the_boundary_agrees_with_a_reader_of_lines(pieces):
    stream = b"data: x" + b"".join(pieces)
    assert at_boundary(stream) == naive_boundary(stream)


@given(st.lists(st.sampled_from([b"", b"d", b"data", b"\n", b"\r", b"\r\n", b"\n\n\r"]), max_size=12))
def test_the_tail_tells_the_boundary_under_any_split(chunks):
    tail = sent = b""
    for chunk in chunks:
        tail, sent = (tail + chunk)[-TAIL_BYTES:], sent + chunk
        assert at_boundary(tail) == at_boundary(sent)


def events(stream):
    return [event for event in re.split(rb"\n\n|\r\n\r\n", stream) if event.strip()]


@pytest.mark.parametrize("sent", [b"", b'data: {"n":1}\n\n', b'data: {"n":1}\r\n\r\n'])
def test_after_whole_events_the_error_follows_at_once(sent):
    added = broken_stream('the worker "left"', sent[-3:])
    assert added.startswith(b"data: {")
    *_, error, done = events(sent + added)
    assert done == b"data: [DONE]"
    assert json.loads(error[6:]) == {"error": {"message": 'the worker "left"', "type": "stream_error"}}


@pytest.mark.parametrize("half", [b'data: {"half', b'data: {"n":1}\n', b'data: {"n":1}\r'])
def test_a_half_sent_event_is_closed_before_the_error(half):
    stream = b'data: {"n":1}\n\n' + half
    stream += broken_stream("gone", stream[-3:])
    first, second, error, done = events(stream)
    assert (first, second.strip()) == (b'data: {"n":1}', half.strip())
    assert json.loads(error.removeprefix(b"data: "))["error"]["message"] == "gone"
    assert done == b"data: [DONE]"


def test_the_error_may_be_of_another_kind():
    assert b'"type":"internal_error"' in broken_stream("x", b"", kind="internal_error")


def test_a_keep_alive_is_a_comment_that_leaves_the_stream_at_a_boundary():
    assert KEEP_ALIVE.startswith(b":")
    assert at_boundary(KEEP_ALIVE)
