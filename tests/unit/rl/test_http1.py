from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.rl.http1 import MAX_CHUNK_LINE_BYTES, MAX_HEAD_BYTES, ReplyReader, render

SIZED = b"HTTP/1.1 207 Multi-Status\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\nhello world"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b'5;name="x"\r\nhello\r\n006\r\n world\r\n0\r\nX-After: 1\r\n\r\n'
)
TO_THE_END = b"HTTP/1.0 200\r\n\r\nhello world"
AFTER_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + SIZED
EMPTY = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
BODILESS = b"HTTP/1.1 204 No Content\r\n\r\n"
LENGTH_TWICE = b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length:2\r\n\r\nok"

WHOLE = {
    "sized": (SIZED, 207, b"hello world"),
    "chunked": (CHUNKED, 200, b"hello world"),
    "after interim replies": (AFTER_INTERIM, 207, b"hello world"),
    "empty": (EMPTY, 404, b""),
    "without a body": (BODILESS, 204, b""),
    "the same length twice": (LENGTH_TWICE, 200, b"ok"),
}
whole = pytest.mark.parametrize(("data", "status", "body"), WHOLE.values(), ids=list(WHOLE))


def read(*pieces, **options):
    reader = ReplyReader(**options)
    for piece in pieces:
        reader.feed(piece)
    return reader


# --- replies


@whole
def test_a_reply_is_read_whole(data, status, body):
    reply = read(data).reply
    assert (reply.status, bytes(reply.body)) == (status, body)


@whole
def test_a_reply_is_read_byte_by_byte_and_complete_with_the_last_one(data, status, body):
    reader = ReplyReader()
    for index in range(len(data)):
        assert reader.reply is None
        reader.feed(data[index : index + 1])
    assert (reader.reply.status, bytes(reader.reply.body)) == (status, body)


@whole
def test_what_follows_a_reply_is_not_part_of_it(data, status, body):
    reader = read(data + b"HTTP/1.1 500 Other\r\n\r\n", b"more")
    assert (reader.reply.status, bytes(reader.reply.body)) == (status, body)
    reader.finish()


@whole
def test_a_reply_that_is_cut_anywhere_is_an_error(data, status, body):
    for cut in range(len(data)):
        reader = read(data[:cut])
        with pytest.raises(ConnectionError, match="before the reply was complete"):
            reader.finish()


def test_a_reply_without_a_length_lasts_until_the_end_of_the_connection():
    reader = read(TO_THE_END[:-5], TO_THE_END[-5:])
    assert reader.reply is None
    reader.finish()
    assert (reader.reply.status, bytes(reader.reply.body)) == (200, b"hello world")


def test_the_reply_to_a_head_request_has_no_body_whatever_it_announces():
    for announced in (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"X: y"):
        reply = read(b"HTTP/1.1 200 OK\r\n" + announced + b"\r\n\r\n", bodiless=True).reply
        assert bytes(reply.body) == b""


@given(st.binary(max_size=200), st.lists(st.integers(0, 300)), st.lists(st.integers(1, 40), min_size=1))
def test_any_split_of_any_chunks_joins_to_the_body(body, cuts, sizes):
    chunks, rest = [], body
    for size in sizes * (len(body) + 1):
        if not rest:
            break
        chunks.append(b"%X\r\n%b\r\n" % (len(rest[:size]), rest[:size]))
        rest = rest[size:]
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = read(*(data[start:end] for start, end in pairwise(bounds)))
    assert bytes(reader.reply.body) == body


# --- what is no reply

MALFORMED = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version": b"HTTP/2 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "a field without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a folded field": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "a bare line feed": b"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\r\nok",
    "a null": b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "a signed size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    "a size with a prefix": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
    "a chunk longer than its size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD_BYTES,
    "an endless line of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;"
    + b"x" * MAX_CHUNK_LINE_BYTES,
    "an endless trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"b" * MAX_HEAD_BYTES,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_reply_is_a_connection_error(data):
    with pytest.raises(ConnectionError, match="reply"):
        read(data)


# --- requests


def test_a_request_has_its_fields_in_order_and_the_length_of_its_body():
    assert render("POST", "/a?b=c", [("Host", "h"), ("X", "y")], b"{}") == (
        b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_a_post_without_a_body_says_so_and_a_get_says_nothing():
    assert b"\r\nContent-Length: 0\r\n\r\n" in render("POST", "/", [], None)
    assert render("GET", "/", [("Host", "h")], None) == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    assert b"Content-Length: 2" in render("GET", "/", [], b"{}")
