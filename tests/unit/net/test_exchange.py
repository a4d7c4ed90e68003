"""What an exchange writes is one well-framed answer, whatever kind of client it is for."""

import pytest

from smg.net.body import RequestBody
from smg.net.exchange import BURST_BYTES, BURST_SECS, Exchange
from smg.net.http1.codec import parse_request_head

DATE = b"date: today\r\n"


class Connection:
    """The connection's side of an exchange, with a transport that only remembers."""

    def __init__(self):
        self.written = b""
        self.transport = self
        self.gone = False
        self.closing = False
        self.writable = True
        self.aborted = False
        self.finished = []
        self.bursts = []
        self.time = 1.0
        self.peer = "192.0.2.7"

    def write(self, data):
        self.written += data

    def now(self):
        return self.time

    def flush_soon(self, exchange):
        self.bursts.append(exchange)

    def date_line(self):
        return DATE

    def abort(self):
        self.aborted = True

    def finish(self, exchange):
        self.finished.append(exchange)

    def hold(self): ...

    def unhold(self): ...

    def invite(self): ...


def begin(line="GET / HTTP/1.1", *lines, length=0):
    connection = Connection()
    head = parse_request_head("\r\n".join([line, "Host: x", *lines]).encode())
    return Exchange(connection, head, RequestBody(connection, length, 1000, 0.0)), connection


def test_a_whole_answer_is_one_write_with_its_length():
    exchange, connection = begin()
    exchange.answer(200, b"{}", headers=[(b"x-a", b"b")])
    assert connection.written == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-a: b\r\ndate: today\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert exchange.status == 200
    assert exchange.answered_at >= exchange.started_at


def test_the_request_id_is_part_of_the_head():
    exchange, connection = begin()
    exchange.request_id = "req-1"
    exchange.answer(200)
    assert b"\r\nx-request-id: req-1\r\n" in connection.written


def test_a_relayed_date_is_not_written_twice():
    exchange, connection = begin()
    exchange.relay(200, b"date: worker's\r\n", b"", dated=True)
    assert DATE not in connection.written


@pytest.mark.parametrize(("status", "line"), [(404, b"404 Not Found"), (599, b"599 Unknown"), (499, b"499 Unknown")])
def test_every_status_has_a_line(status, line):
    exchange, connection = begin()
    exchange.answer(status)
    assert connection.written.startswith(b"HTTP/1.1 " + line + b"\r\n")


@pytest.mark.parametrize("status", [204, 304])
def test_a_bodyless_answer_has_neither_length_nor_body(status):
    exchange, connection = begin()
    exchange.answer(status, b"ignored")
    assert connection.written.endswith(b"\r\ndate: today\r\n\r\n")
    assert b"content-" not in connection.written


@pytest.mark.parametrize("status", [204, 304])
def test_a_bodyless_answer_stays_bodyless_in_pieces(status):
    exchange, connection = begin()
    exchange.start(status)
    exchange.write(b"ignored")
    exchange.end()
    assert connection.written.endswith(b"\r\n\r\n")
    assert connection.written.count(b"\r\n\r\n") == 1
    assert b"chunked" not in connection.written


def test_a_head_request_gets_the_head_alone():
    exchange, connection = begin("HEAD / HTTP/1.1")
    exchange.answer(200, b"12345")
    assert connection.written.endswith(b"\r\ncontent-length: 5\r\n\r\n")
    exchange, connection = begin("HEAD / HTTP/1.1")
    exchange.start(200)
    exchange.write(b"data: 1\n\n")
    exchange.end()
    assert connection.written.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")


def test_an_answer_in_pieces_is_chunked_and_skips_empty_pieces():
    exchange, connection = begin()
    exchange.start(200, b"text/plain")
    connection.written = b""
    for piece in (b"hello", b"", b"x" * 16):
        exchange.write(piece)
    assert exchange.streaming
    exchange.end()
    assert connection.written == b"5\r\nhello\r\n10\r\n" + b"x" * 16 + b"\r\n0\r\n\r\n"
    assert not exchange.streaming


def test_an_old_client_sees_the_end_of_pieces_by_the_end_of_the_connection():
    exchange, connection = begin("GET / HTTP/1.0", "Connection: keep-alive")
    exchange.start(200)
    assert connection.written.endswith(b"connection: close\r\n\r\n")
    assert b"chunked" not in connection.written
    connection.written = b""
    exchange.write(b"hello")
    exchange.end()
    assert connection.written == b"hello"
    assert not exchange.keeps_connection


@pytest.mark.parametrize(
    ("request_lines", "says"),
    [
        (["GET / HTTP/1.1"], None),
        (["GET / HTTP/1.1", "Connection: close"], b"close"),
        (["GET / HTTP/1.0"], b"close"),
        (["GET / HTTP/1.0", "Connection: keep-alive"], b"keep-alive"),
    ],
)
def test_the_answer_says_whether_the_connection_stays(request_lines, says):
    exchange, connection = begin(*request_lines)
    exchange.answer(200)
    assert (b"connection: " in connection.written) == (says is not None)
    if says:
        assert b"\r\nconnection: " + says + b"\r\n" in connection.written
    assert exchange.keeps_connection == (says != b"close")


def test_an_answer_before_the_whole_body_ends_the_connection_even_if_the_body_then_completes():
    exchange, connection = begin("POST / HTTP/1.1", length=5)
    exchange.answer(413)
    assert b"connection: close\r\n" in connection.written
    exchange.body.feed(b"hello", 0.0)
    exchange.body.finish()
    assert not exchange.keeps_connection


def test_the_last_exchange_of_a_connection_says_so():
    for end in (
        lambda exchange, _: exchange.end_connection(),
        lambda _, connection: setattr(connection, "closing", True),
    ):
        exchange, connection = begin()
        end(exchange, connection)
        exchange.answer(200)
        assert b"connection: close\r\n" in connection.written


def test_nothing_is_written_to_a_client_that_left():
    exchange, connection = begin()
    connection.gone = True
    exchange.start(200)
    exchange.write(b"a")
    exchange.end()
    exchange.answer(500)
    assert connection.written == b""


def test_comments_are_due_between_events_of_a_silent_stream_only():
    exchange, connection = begin()
    assert not exchange.comments_due(100.0, 5.0)
    connection.time = 10.0
    exchange.start(200)
    assert exchange.comments_due(15.0, 5.0)
    assert not exchange.comments_due(14.9, 5.0)
    assert not exchange.comments_due(1000.0, 0.0)
    for piece, between in [
        (b"data: 1\n", False),
        (b"\n", True),
        (b"d", False),
        (b"ata\r\n\r\n", True),
        (b": x", False),
    ]:
        exchange.write(piece)
        assert exchange.comments_due(15.0, 5.0) is between, piece
    connection.time = 12.0
    exchange.write(b"\n\n")
    assert not exchange.comments_due(15.0, 5.0)
    exchange.end()
    assert not exchange.comments_due(100.0, 5.0)


def test_only_event_streams_get_comments():
    exchange, _ = begin()
    exchange.start(200, b"text/plain")
    assert not exchange.comments_due(100.0, 5.0)


def test_who_listens_late_is_told_that_the_client_is_behind():
    exchange, connection = begin()
    told = []
    exchange.on_writable = told.append
    assert told == []
    connection.writable = False
    exchange.on_writable = told.append
    assert told == [False]
    exchange.finish()
    assert exchange.on_writable is None
    assert connection.finished == [exchange]


def test_an_exchange_knows_its_peer_and_can_cut_the_connection():
    exchange, connection = begin()
    assert exchange.peer == "192.0.2.7"
    exchange.abort()
    assert connection.aborted


def test_pieces_close_together_share_a_write():
    exchange, connection = begin()
    exchange.start(200)
    connection.written = b""
    exchange.write(b"first")
    assert connection.written == b"5\r\nfirst\r\n"
    exchange.write(b"second")
    exchange.write_chunk(b"8\r\ndata: 3\n\r\n", 8)
    assert connection.written == b"5\r\nfirst\r\n"
    assert connection.bursts == [exchange]
    exchange.flush()
    assert connection.written == b"5\r\nfirst\r\n6\r\nsecond\r\n8\r\ndata: 3\n\r\n"


def test_a_piece_after_a_pause_is_written_at_once():
    exchange, connection = begin()
    exchange.start(200)
    connection.written = b""
    for _ in range(3):
        connection.time += BURST_SECS
        exchange.write(b"x")
    assert connection.written == b"1\r\nx\r\n" * 3
    assert connection.bursts == []


def test_a_piece_soon_after_a_burst_begins_another():
    exchange, connection = begin()
    exchange.start(200)
    exchange.write(b"a")
    exchange.write(b"b")
    connection.time += BURST_SECS
    exchange.flush()
    connection.written = b""
    connection.time += BURST_SECS / 2
    exchange.write(b"c")
    assert connection.written == b""
    assert connection.bursts == [exchange, exchange]


def test_the_end_of_an_answer_takes_the_burst_along_in_order():
    exchange, connection = begin()
    exchange.start(200)
    connection.written = b""
    exchange.write(b"a")
    exchange.write(b"b")
    exchange.end()
    assert connection.written == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    exchange.flush()
    assert connection.written.endswith(b"0\r\n\r\n")


def test_a_large_burst_does_not_wait():
    exchange, connection = begin()
    exchange.start(200)
    exchange.write(b"a")
    connection.written = b""
    exchange.write(b"x" * BURST_BYTES)
    assert len(connection.written) > BURST_BYTES


def test_a_relayed_chunk_keeps_the_tail_and_the_count_of_the_body():
    exchange, _ = begin()
    exchange.start(200)
    exchange.write_chunk(b"b\r\ndata: 12\n\n\n\r\n", 11)
    assert exchange.tail == b"\n\n\n"
    assert exchange.bytes_out == 11
