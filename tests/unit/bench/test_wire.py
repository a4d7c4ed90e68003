import json
import socket

import pytest
from bench import wire
from bench.load_chat import is_complete


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nserver: x", 12),
        (b"HTTP/1.1 200 OK\r\ncontent-length:7", 7),
        (b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:  0\r\nx: y", 0),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", None),
    ],
)
def test_the_length_of_a_body_is_found_in_any_spelling(head: bytes, length: int | None) -> None:
    assert wire.content_length(head) == length


@pytest.mark.parametrize(
    "whole",
    [
        wire.CHAT_ANSWER,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + wire.chunk(b"{}") + wire.LAST_CHUNK,
    ],
)
def test_an_answer_is_complete_with_its_last_byte_and_not_before(whole: bytes) -> None:
    assert [cut for cut in range(len(whole) + 1) if is_complete(whole[:cut])] == [len(whole)]


def test_a_prompt_has_the_size_asked_for_and_differs_by_seed() -> None:
    one, two = (json.loads(wire.chat_body(prompt_bytes=5000, seed=seed)) for seed in (1, 2))
    assert len(one["messages"][-1]["content"]) == 5000
    assert one["messages"] != two["messages"]


def test_every_streamed_event_is_counted_once_and_the_end_marker_never() -> None:
    stream = wire.FIRST_EVENT + wire.NEXT_EVENT * 3 + wire.STREAM_END
    assert stream.count(wire.EVENT_MARK) == 5


@pytest.mark.parametrize("size", [0, 4, 125, 126, 65_535, 65_536])
def test_a_message_is_read_as_it_was_sent(size: int) -> None:
    payload = bytes(at % 251 for at in range(size))
    one, other = socket.socketpair()
    with one, other:
        one.sendall(wire.masked(wire.BINARY, payload))
        assert wire.read_message(other) == payload


def test_the_answer_to_a_handshake_is_that_of_the_standard() -> None:
    grant = wire.realtime_grant(b"GET /v1/realtime HTTP/1.1\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in grant
