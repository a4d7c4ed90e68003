"""A server connection, fed by hand: what it makes of bytes however they are split, and when it reads on."""

import asyncio

import pytest

from smg.errors import GatewayError
from smg.net.body import UNREAD_BYTES
from smg.net.http1 import connection as connection_module
from smg.net.http1.codec import MAX_HEAD_BYTES
from smg.net.http1.connection import BACKLOG_BYTES, ServerConnection
from smg.net.http1.server import Limits, Server

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


class Rig:
    """A server without a listener, one connection of it, and what its handler saw."""

    def __init__(self, new_wire, limits=None):
        self.server = Server(self.handle, limits or Limits())
        self.new_wire = new_wire
        self.exchanges = []
        self.finished = []
        self.work = None
        self.connect()

    def connect(self):
        self.wire = self.new_wire()
        self.connection = ServerConnection(self.server)
        self.connection.connection_made(self.wire)

    def handle(self, exchange):
        self.exchanges.append(exchange)
        return self.work(exchange) if self.work else self.echo(exchange)

    async def echo(self, exchange):
        try:
            body = await exchange.read_body()
            exchange.answer(
                200, b"%s %s?%s %s" % (*(t.encode() for t in (exchange.method, exchange.path, exchange.query)), body)
            )
        except GatewayError as error:
            exchange.answer(error.status, error.code.encode())
        finally:
            self.finish(exchange)

    def finish(self, exchange):
        self.finished.append(exchange)
        exchange.finish()

    def feed(self, *pieces):
        for piece in pieces:
            if self.wire.closing:
                return
            self.connection.data_received(piece)

    def lose(self):
        self.connection.connection_lost(None)


def bodies(written):
    """The bodies of a row of sized answers, and their statuses."""
    found = []
    while written:
        head, _, written = written.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[16:]) for line in lines if line.startswith(b"content-length: ")), 0)
        found.append((int(head[9:12]), written[:length]))
        written = written[length:]
    return found


@pytest.fixture
async def rig(new_wire, calm_loop):
    rig = Rig(new_wire)
    yield rig
    rig.server.abort()


# --- requests, however they arrive

REQUESTS = {
    "no body": (GET, (200, b"GET /a? ")),
    "query": (b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", (200, b"GET /a?b=c ")),
    "sized": (b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", (200, b"PUT /a? hello")),
    "empty": (b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", (200, b"PUT /a? ")),
    "chunked": (
        b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\nA: b\r\n\r\n",
        (200, b"PUT /a? hello"),
    ),
    "blank line before": (b"\r\n" + GET, (200, b"GET /a? ")),
    "blank lines before": (b"\r\n\r\n\r\n" + GET, (200, b"GET /a? ")),
    "body like a request": (
        b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(GET), GET),
        (200, b"PUT /a? " + GET),
    ),
}


@pytest.mark.parametrize(("raw", "answer"), REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("trailing", [b"", GET])
async def test_a_request_is_the_same_whole_and_byte_by_byte(rig, turn, raw, answer, trailing):
    expected = [answer] + [(200, b"GET /a? ")] * bool(trailing)
    raw += trailing
    rig.feed(raw)
    await turn()
    assert bodies(rig.wire.take()) == expected
    rig.feed(*(raw[n : n + 1] for n in range(len(raw))))
    await turn()
    assert bodies(rig.wire.take()) == expected
    for n in range(len(raw)):
        rig.feed(raw[n : n + 1])
        await turn(2)
    await turn()
    assert bodies(rig.wire.take()) == expected
    assert not rig.wire.closing
    assert len(rig.finished) == len(rig.exchanges) == 3 * len(expected)


BROKEN = {
    "garbage": (b"hello\r\n\r\n", 400),
    "version": (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505),
    "no host": (b"GET / HTTP/1.1\r\nA: b\r\n\r\n", 400),
    "coding": (b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "bare line feed in the middle": (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    "folded": (b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", 400),
    "long target": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
}


@pytest.mark.parametrize(("raw", "status"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_head_is_refused_once_and_nothing_after_it_is_read(rig, turn, raw, status):
    for pieces in ([raw + GET], [raw[n : n + 1] for n in range(len(raw))] + [GET], [GET + raw + GET]):
        rig.connect()
        rig.exchanges.clear()
        rig.feed(*pieces)
        await turn()
        served = bodies(rig.wire.take())
        assert [s for s, _ in served] == [200] * len(rig.exchanges) + [status]
        assert len(rig.exchanges) == (pieces[0].startswith(GET))
        assert rig.wire.ended


async def test_a_head_is_bounded_whole_or_in_pieces(rig, turn):
    start = b"GET / HTTP/1.1\r\nHost: x\r\n"
    start += b"A: " + b"a" * (MAX_HEAD_BYTES - len(start) - 3 - 4)
    assert len(start) == MAX_HEAD_BYTES - 4
    rig.feed(start, b"\r\n\r\n")
    await turn()
    assert [s for s, _ in bodies(rig.wire.take())] == [200]
    for pieces in (
        [start + b"a\r\n\r\n"],
        [start, b"a" * 10],
        [start, b"a\r", b"\n\r\n"],
        [b"x" * (MAX_HEAD_BYTES + 1)],
    ):
        rig.connect()
        rig.feed(*pieces)
        await turn()
        assert [s for s, _ in bodies(rig.wire.take())] == [431]
        assert rig.wire.ended


@pytest.mark.parametrize("tail", [b"zz\r\n", b"5\r\nhello!\r\n", b"5\r\nhello0\r\n"])
@pytest.mark.parametrize("split", [True, False])
async def test_a_chunked_body_that_breaks_its_framing_fails_and_nothing_after_it_is_read(rig, turn, tail, split):
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    rig.feed(*([head, tail, GET] if split else [head + tail + GET]))
    await turn()
    rig.feed(GET)
    assert bodies(rig.wire.take()) == [(400, b"request_body_aborted")]
    assert len(rig.exchanges) == 1
    assert rig.wire.ended


async def test_a_chunked_body_beyond_the_limit_is_refused_though_it_came_with_its_head(new_wire, calm_loop, turn):
    rig = Rig(new_wire, Limits(max_body_bytes=10))
    for size, status in ((10, 200), (11, 413)):
        rig.feed(
            b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
            % (size, b"x" * size)
        )
        await turn()
        assert [s for s, _ in bodies(rig.wire.take())] == [status]
    rig.server.abort()


# --- one exchange at a time


async def test_pipelined_requests_are_served_in_order_each_after_the_other(rig, turn):
    gates = [asyncio.Event() for _ in range(3)]

    async def work(exchange):
        await gates[len(rig.exchanges) - 1].wait()
        exchange.answer(200, exchange.path.encode())
        rig.finish(exchange)

    rig.work = work
    rig.feed(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(3)))
    for n in range(3):
        await turn()
        assert len(rig.exchanges) == n + 1
        gates[n].set()
    await turn()
    assert [body for _, body in bodies(rig.wire.take())] == [b"/0", b"/1", b"/2"]


async def test_a_handler_that_never_waits_serves_a_whole_pipeline_at_once(rig):
    def work(exchange):
        exchange.answer(200, exchange.path.encode())
        rig.finish(exchange)

    rig.work = work
    rig.feed(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(100)))
    assert [body for _, body in bodies(rig.wire.take())] == [b"/%d" % n for n in range(100)]


async def test_finishing_twice_does_not_take_a_request_away(rig, turn):
    rig.feed(GET)
    await turn()
    (first,) = rig.exchanges
    rig.work = lambda exchange: None
    rig.feed(GET)
    first.finish()
    assert rig.connection.busy
    assert rig.connection._exchange is rig.exchanges[1]
    rig.finish(rig.exchanges[1])


async def test_an_exchange_without_an_answer_cuts_the_connection(rig):
    rig.work = rig.finish
    rig.feed(GET + GET)
    assert rig.wire.aborted
    assert len(rig.exchanges) == 1


async def test_a_stream_without_its_end_cuts_the_connection(rig):
    def work(exchange):
        exchange.start(200)
        exchange.write(b"data: 1\n\n")
        rig.finish(exchange)

    rig.work = work
    rig.feed(GET)
    assert rig.wire.aborted


async def test_nothing_more_is_served_on_a_connection_that_was_cut(rig):
    def work(exchange):
        exchange.answer(200)
        exchange.abort()
        rig.finish(exchange)

    rig.work = work
    rig.feed(GET + GET)
    assert len(rig.exchanges) == 1
    assert not rig.wire.ended


# --- the client that leaves


async def test_leaving_cancels_the_work_once_and_finishes_once(rig, turn):
    cancelled = []

    async def work(exchange):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(exchange)
            raise
        finally:
            rig.finish(exchange)

    rig.work = work
    for started in (True, False):
        rig.connect()
        rig.feed(GET)
        if started:
            await turn()
        assert rig.connection.eof_received() is False
        rig.lose()
        await turn()
        assert len(cancelled) == len(rig.finished) == (1 if started else 2)


async def test_leaving_before_the_first_step_lets_the_first_step_run(rig, turn):
    steps = []

    async def work(exchange):
        steps.append("began")
        try:
            await asyncio.sleep(0)
            steps.append("went on")
        finally:
            rig.finish(exchange)

    rig.work = work
    rig.feed(GET)
    rig.lose()
    await turn()
    assert steps == ["began"]
    assert len(rig.finished) == 1


async def test_leaving_does_not_touch_the_next_request_of_somebody_else(rig, turn):
    rig.feed(GET)
    await turn()
    rig.lose()
    rig.connect()
    rig.feed(GET)
    await turn()
    assert bodies(rig.wire.take()) == [(200, b"GET /a? ")]


async def test_a_half_closed_client_hears_why_its_upload_failed(rig, turn):
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
    await turn()
    assert rig.connection.eof_received() is True
    await turn()
    assert bodies(rig.wire.take()) == [(400, b"request_body_aborted")]
    assert rig.wire.closing
    assert not rig.wire.aborted


async def test_a_half_closed_client_hears_it_before_the_first_step_too(rig, turn):
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
    assert rig.connection.eof_received() is True
    await turn()
    assert bodies(rig.wire.take()) == [(400, b"request_body_aborted")]


async def test_an_upload_that_ends_while_its_request_waits_for_something_else_ends_the_wait(rig, turn):
    rig.work = lambda exchange: wait_for_good(rig, exchange)
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
    await turn()
    rig.connection.eof_received()
    rig.connection.sweep(rig.server.loop.time())
    await turn()
    assert len(rig.finished) == 1
    assert rig.wire.aborted


async def test_leaving_during_an_early_answer_ends_it(rig, turn):
    async def work(exchange):
        exchange.start(200)
        await wait_for_good(rig, exchange)

    rig.work = work
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
    await turn()
    rig.connection.eof_received()
    await turn()
    assert len(rig.finished) == 1


async def wait_for_good(rig, exchange):
    try:
        await asyncio.Event().wait()
    finally:
        rig.finish(exchange)


# --- bounds


async def test_a_flood_behind_a_waiting_request_is_bounded_and_taken_up_again(rig, turn):
    gate = asyncio.Event()

    async def work(exchange):
        await gate.wait()
        exchange.answer(200)
        rig.finish(exchange)

    rig.work = work
    flood = GET * (BACKLOG_BYTES // len(GET) + 2)
    rig.feed(GET)
    rig.feed(flood[:-1])
    assert not rig.wire.reading
    gate.set()
    for _ in range(20):
        # Whatever is served meanwhile, no more is read than there is room for.
        await turn(1)
        assert rig.wire.reading == (len(rig.connection._backlog) <= BACKLOG_BYTES)
    assert rig.wire.reading
    await turn(len(flood))
    rig.feed(flood[-1:])
    await turn()
    assert len(rig.finished) == len(rig.exchanges) == 1 + flood.count(b"GET")


async def test_a_flood_that_comes_with_the_first_request_is_held_at_once(rig, turn):
    rig.work = lambda exchange: wait_for_good(rig, exchange)
    rig.feed(GET * (BACKLOG_BYTES // len(GET) + 2))
    assert not rig.wire.reading
    rig.lose()
    await turn()


async def test_a_client_that_takes_no_answers_gets_no_more(rig):
    def work(exchange):
        exchange.answer(200)
        if len(rig.exchanges) == 3:
            rig.connection.pause_writing()
        rig.finish(exchange)

    rig.work = work
    rig.feed(GET * 10)
    assert len(rig.exchanges) == 3
    assert not rig.wire.reading
    rig.connection.resume_writing()
    assert len(rig.exchanges) == 10
    assert rig.wire.reading


async def test_a_client_that_takes_no_answers_is_not_read_from_while_it_has_more(rig):
    rig.work = lambda exchange: (exchange.answer(200), rig.finish(exchange))[1]
    rig.connection.pause_writing()
    rig.feed(GET[:5])
    assert not rig.wire.reading
    rig.connection.resume_writing()
    assert rig.wire.reading
    rig.feed(GET[5:])
    assert len(rig.exchanges) == 1


async def test_an_upload_nobody_reads_is_held_back_and_let_go_by_its_reader(rig, turn):
    read = asyncio.Event()

    async def work(exchange):
        await read.wait()
        await rig.echo(exchange)

    rig.work = work
    size = 3 * UNREAD_BYTES
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size, b"x" * (UNREAD_BYTES + 1))
    assert not rig.wire.reading
    await turn()
    read.set()
    await turn()
    assert rig.wire.reading
    rig.feed(b"x" * (size - UNREAD_BYTES - 1))
    await turn()
    assert [s for s, _ in bodies(rig.wire.take())] == [200]
    assert rig.wire.reading


async def test_reading_goes_on_after_an_exchange_that_left_its_body_held(rig, turn):
    async def work(exchange):
        await asyncio.sleep(0)
        exchange.answer(200)
        rig.finish(exchange)

    rig.work = work
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (2 * UNREAD_BYTES), b"x" * (UNREAD_BYTES + 1))
    assert not rig.wire.reading
    await turn()
    assert rig.wire.reading
    assert rig.wire.ended


async def test_held_connections_leave_nothing_behind(rig, turn):
    rig.work = lambda exchange: wait_for_good(rig, exchange)
    rig.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (UNREAD_BYTES + 1))
    rig.connection.hold()
    rig.connection.hold()
    rig.feed(b"x" * (UNREAD_BYTES + 1), GET * 5000)
    assert len(rig.server.held._sweeper) == len(rig.server.held._members) == 1
    rig.lose()
    await turn()
    assert len(rig.server.held._sweeper) == len(rig.server.held._members) == 0
    assert len(rig.server.connections) == 0


# --- deadlines, on a clock of our own


@pytest.fixture
async def timed(new_wire, calm_loop):
    rig = Rig(
        new_wire,
        Limits(header_read_timeout_secs=3, idle_timeout_secs=10, upload_stall_timeout_secs=5, sse_keepalive_secs=2),
    )
    rig.time = 100.0
    rig.server.loop = Clocked(calm_loop, rig)
    rig.connect()
    yield rig
    rig.server.abort()


class Clocked:
    """The loop, with the test's time."""

    def __init__(self, loop, rig):
        self._loop = loop
        self._rig = rig

    def time(self):
        return self._rig.time

    def __getattr__(self, name):
        return getattr(self._loop, name)


def after(rig, secs):
    rig.time += secs
    rig.connection.sweep(rig.time)


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"\r\n"])
async def test_a_head_has_to_be_whole_in_time_even_if_it_moves(timed, start):
    timed.feed(*[start] * bool(start))
    after(timed, 2.5)
    assert not timed.wire.closing
    timed.feed(*[b"GET"] * (not start.strip()))
    after(timed, 2.5)
    if start.strip():
        assert timed.wire.closing
    else:
        assert not timed.wire.closing
        after(timed, 1)
        assert timed.wire.closing
    assert timed.wire.take() == b""


async def test_an_idle_connection_is_closed_in_time(timed, turn):
    timed.feed(GET)
    await turn()
    after(timed, 9)
    timed.feed(GET)
    await turn()
    after(timed, 9)
    assert not timed.wire.closing
    after(timed, 2)
    assert timed.wire.closing
    assert not timed.wire.aborted


async def test_a_second_head_has_its_own_deadline(timed, turn):
    timed.feed(GET + b"GET")
    await turn()
    after(timed, 4)
    assert timed.wire.closing


async def test_a_working_connection_is_not_idle(timed, turn):
    timed.work = lambda exchange: wait_for_good(timed, exchange)
    timed.feed(GET)
    await turn()
    after(timed, 1000)
    assert not timed.wire.closing
    timed.lose()
    await turn()


async def test_a_client_may_read_its_answer_slowly_but_not_stop(timed, turn):
    timed.feed(GET)
    await turn()
    for unsent_bytes in (900, 700, 500):
        timed.wire.unsent_bytes = unsent_bytes
        after(timed, 9)
        after(timed, 9)
        assert not timed.wire.closing
    after(timed, 2)
    assert timed.wire.aborted


async def test_an_answer_that_ends_its_connection_is_not_cut_short(timed, turn):
    timed.feed(b"GET / HTTP/1.0\r\n\r\n")
    await turn()
    assert timed.wire.ended
    timed.wire.unsent_bytes = 900
    for _ in range(4):
        after(timed, connection_module.LINGER_SECS)
    assert not timed.wire.aborted
    timed.wire.unsent_bytes = 0
    after(timed, connection_module.LINGER_SECS - 0.5)
    assert not timed.wire.aborted
    after(timed, 1)
    assert timed.wire.aborted


async def test_a_lingering_client_may_send_only_so_much(timed, turn, monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_BYTES", 100)
    timed.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nConnection: close\r\n\r\n")
    timed.exchanges[0].body.fail(GatewayError("request_body_too_large", "too large"))
    await turn()
    assert timed.wire.ended
    timed.feed(b"x" * 100)
    assert not timed.wire.aborted
    timed.feed(b"x")
    assert timed.wire.aborted


async def test_an_upload_that_stalls_is_given_up_and_one_that_moves_is_not(timed, turn):
    timed.feed(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    await turn()
    for _ in range(3):
        after(timed, 4)
        timed.feed(b"x")
    await turn()
    assert timed.wire.take() == b""
    after(timed, 6)
    await turn()
    assert bodies(timed.wire.take()) == [(408, b"request_body_stalled")]


async def test_no_upload_stalls_while_nobody_asks_for_it(timed, turn):
    read = asyncio.Event()

    async def work(exchange):
        await read.wait()
        await timed.echo(exchange)

    timed.work = work
    timed.feed(b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    await turn()
    after(timed, 100)
    await turn()
    assert timed.wire.take() == b""
    read.set()
    await turn()
    assert timed.wire.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    timed.exchanges[0].body.last_piece_at = timed.time  # the body's reader asks the real loop
    after(timed, 4)
    timed.feed(b"ab")
    await turn()
    assert bodies(timed.wire.take()) == [(200, b"PUT /a? ab")]


async def test_a_silent_stream_gets_comments_unless_its_client_is_behind(timed, turn):
    async def work(exchange):
        exchange.start(200)
        await wait_for_good(timed, exchange)

    timed.work = work
    timed.feed(GET)
    await turn()
    timed.wire.take()
    after(timed, 1)
    assert timed.wire.take() == b""
    after(timed, 1)
    assert timed.wire.take() == b"8\r\n: ping\n\n\r\n"
    after(timed, 1)
    assert timed.wire.take() == b""
    timed.exchanges[0].write(b"data: ")
    timed.wire.take()
    after(timed, 5)
    assert timed.wire.take() == b""
    timed.exchanges[0].write(b"1\n\n")
    timed.connection.pause_writing()
    timed.wire.take()
    after(timed, 5)
    assert timed.wire.take() == b""
    timed.connection.resume_writing()
    after(timed, 1)
    assert timed.wire.take() == b"8\r\n: ping\n\n\r\n"
    timed.lose()
    await turn()


# --- being invited, writing, stopping


async def test_a_client_is_invited_when_its_body_is_asked_for_and_not_before(rig, turn):
    ask = asyncio.Event()

    async def work(exchange):
        await ask.wait()
        await rig.echo(exchange)

    rig.work = work
    rig.feed(b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    await turn()
    assert rig.wire.take() == b""
    ask.set()
    await turn()
    assert rig.wire.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    rig.feed(b"ab")
    await turn()
    assert bodies(rig.wire.take()) == [(200, b"PUT /a? ab")]


async def test_a_client_that_sends_at_once_or_is_refused_is_not_invited(rig, turn):
    head = b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    rig.feed(head + b"a")
    await turn()
    rig.feed(b"b")
    await turn()
    assert bodies(rig.wire.take()) == [(200, b"PUT /a? ab")]
    rig.work = lambda exchange: (exchange.answer(413), rig.finish(exchange))[1]
    rig.feed(head)
    written = rig.wire.take()
    assert bodies(written) == [(413, b"")]
    assert b"connection: close" in written


async def test_draining_waits_until_the_client_has_read_or_left(rig, turn):
    async def work(exchange):
        try:
            await exchange.drain()
            exchange.answer(200)
        finally:
            rig.finish(exchange)

    rig.work = work
    for number, release in enumerate([rig.connection.resume_writing, rig.lose]):
        rig.feed(GET)
        rig.connection.pause_writing()
        await turn()
        assert len(rig.finished) == number
        release()
        await turn()
        assert len(rig.finished) == number + 1


async def test_who_writes_hears_of_the_clients_pace(rig):
    told = []
    rig.work = lambda exchange: setattr(exchange, "on_writable", told.append)
    rig.feed(GET)
    rig.connection.pause_writing()
    rig.connection.resume_writing()
    assert told == [False, True]
    rig.finish(rig.exchanges[0])


async def test_stopping_closes_idle_connections_and_lets_busy_ones_finish(rig, turn):
    idle = rig.connection
    idle_wire = rig.wire
    rig.connect()
    release = asyncio.Event()

    async def work(exchange):
        await release.wait()
        await rig.echo(exchange)

    rig.work = work
    rig.feed(b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
    await turn()
    assert rig.server.busy == 1
    rig.server.stop_listening()
    assert idle_wire.closing
    assert not rig.wire.closing
    rig.feed(b"ab" + GET)
    release.set()
    await turn()
    written = rig.wire.take()
    assert bodies(written) == [(200, b"PUT /a? ab")]
    assert b"connection: close\r\n" in written
    assert rig.wire.ended
    assert rig.server.busy == 0
    idle.connection_lost(None)
    rig.connect()
    assert rig.wire.closing


async def test_stopping_leaves_an_answer_time_to_arrive(rig, turn):
    rig.feed(b"GET / HTTP/1.0\r\n\r\n")
    await turn()
    rig.server.stop_listening()
    assert rig.wire.ended
    assert not rig.wire.closing


async def test_aborting_cuts_everything(rig):
    rig.work = lambda exchange: None
    rig.feed(GET)
    rig.server.abort()
    assert rig.wire.aborted
    rig.finish(rig.exchanges[0])


async def test_the_date_is_made_once_a_second(rig, monkeypatch):
    now = [1.9]
    monkeypatch.setattr("smg.net.http1.server.time.time", lambda: now[0])
    assert rig.connection.date_line() == b"date: Thu, 01 Jan 1970 00:00:01 GMT\r\n"
    assert rig.connection.date_line() is rig.connection.date_line()
    now[0] = 86400.5
    assert rig.connection.date_line() == b"date: Fri, 02 Jan 1970 00:00:00 GMT\r\n"
