"""A pair of engines without a network: a test says what each of them does, and when."""

import asyncio
import gc
import random
from contextlib import asynccontextmanager

import pytest

from smg.errors import UpstreamError, UpstreamTimeout
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.placement import Placement
from smg.fleet.registry import Registry
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import Worker
from smg.net.http1.codec import ResponseHead
from smg.net.reply import Reply
from smg.protocol.batches import batch_size, choices
from smg.protocol.decoding import decode
from smg.protocol.requests import ChatRequest
from smg.serving.accounts import CallAccounts, PairAccounts
from smg.serving.call import Call, Endpoint
from smg.serving.upstreams.pair import PairUpstream
from smg.serving.verdicts import Verdicts
from smg.telemetry.metrics import Metrics

CHAT = Endpoint("chat", "/v1/chat/completions", ChatRequest)
BODY = b'{"model":"m","messages":[],"temperature":0.950}'
MAX_ANSWER_BYTES = 1000
LOST = UpstreamError("call_upstream_request_error", "the worker closed the connection")
SILENT = UpstreamTimeout("call_upstream_timeout", "the worker did not answer in time")


class Exchange:
    """What a leg may know of the client's request."""

    started_at = 0.0


class Line:
    """One request at an engine, and the connection it came on; the test answers it."""

    def __init__(self, worker, body):
        self.worker = worker
        self.body = body
        self.head = asyncio.get_running_loop().create_future()
        self.reply = None
        self.gone = False
        self.relay_chunk = None

    # --- the engine's side

    def begin(self, status=200, content_type=b"application/json", length=None):
        """Send a head."""
        fields = [(b"content-type", content_type, b"")]
        if length is not None:
            fields.append((b"content-length", b"%d" % length, b""))
        self.reply = Reply(ResponseHead(status, fields, http10=False), self)
        if not self.head.done():
            self.head.set_result(self.reply)
        return self

    def stream(self):
        return self.begin(content_type=b"text/event-stream")

    def piece(self, data=b"data: x\n\n"):
        if not self.gone:
            self.reply.feed(data)
        return self

    def end(self, data=b""):
        if data:
            self.piece(data)
        if not self.gone:
            self.reply.finish()
        return self

    def answer(self, status=200, data=b"{}"):
        return self.begin(status).end(data)

    def fail(self, error=None):
        """Lose the connection, before the head or behind it."""
        if self.reply is None:
            if not self.head.done():
                self.head.set_exception(error or LOST)
            self.gone = True
        elif not self.reply.complete:
            self.gone = True
            self.reply.finish(error or UpstreamError("read_response_body_failed", "the worker broke its answer off"))

    @property
    def over(self):
        """Whether nothing is under way any more: answered in full, or cut."""
        return self.gone or (self.reply is not None and self.reply.complete)

    # --- the connection, for `Reply`

    def hold(self):
        pass

    def unhold(self):
        pass

    def abort(self):
        """The gateway cuts the connection, which the reader hears of a moment later."""
        self.gone = True
        asyncio.get_running_loop().call_soon(
            self.reply.finish, UpstreamError("read_response_body_failed", "the worker broke its answer off")
        )


class Http:
    """Stands in for `HttpUpstream`."""

    def __init__(self):
        self.lines = {}
        self.dropped = []

    async def send_body(self, worker, call, body, exchange):
        line = Line(worker, body)
        self.lines.setdefault(worker.id, []).append(line)
        try:
            return await line.head
        except asyncio.CancelledError:
            if line.reply is None:
                line.gone = True
            else:
                line.reply.close()
            raise

    def drop(self, worker):
        self.dropped.append(worker.id)

    def routed_line(self, worker):
        return worker.url.encode()


class Pair:
    """A prefill and a decode worker behind a `PairUpstream`."""

    def __init__(self, runtime="sglang", *, prefill=None, decode=None):
        self.http = Http()
        self.metrics = Metrics()
        self.registry = Registry()
        self.prefill = self._worker("prefill", runtime, **prefill or {})
        self.decode = self._worker("decode", runtime, **decode or {})
        calls = CallAccounts(self.metrics, self.registry, lambda _model, _type: "random", ("prefill", "decode"))
        ids = iter(range(1000))
        self.upstream = PairUpstream(
            self.http,
            Verdicts(calls, lambda: 0.0),
            PairAccounts(self.metrics),
            is_gone=lambda worker: worker.id not in self.registry.snapshot.by_id,
            max_answer_bytes=MAX_ANSWER_BYTES,
            rng=random.Random(1),
            new_id=lambda: f"id{next(ids)}",
        )
        self.call = None
        self.sending = None

    def _worker(self, leg, runtime, *, url=None, bootstrap_port=None, **fields):
        url = url or f"http://{leg}.example:8000"
        spec = WorkerSpec(
            url=url,
            bootstrap_port=bootstrap_port,
            kv_connector=fields.pop("kv_connector", None),
            kv_engine_id=fields.pop("kv_engine_id", None),
        )
        worker = Worker(
            leg,
            url,
            url,
            Breaker(BreakerOptions()),
            worker_type=leg,
            runtime=runtime,
            bootstrap_port=bootstrap_port,
            spec=spec,
            **fields,
        )
        self.registry.add(worker)
        return worker

    # --- what a test does

    def send(self, body=BODY, endpoint=CHAT, *, stream=False):
        """Begin to send a call."""
        call = self.call = Call(endpoint, body, "m", "m", stream=stream)
        request = decode(endpoint.kind, body)
        call.batch_size, call.choices = batch_size(request), choices(request)
        placement = Placement(self.decode, self.prefill)
        self.sending = asyncio.ensure_future(self.upstream.send(placement, call, Exchange()))
        return self.sending

    def line(self, leg, at=-1):
        """The latest request at an engine."""
        return self.http.lines[leg][at]

    async def lines(self, *legs):
        """The requests at engines, once they are there."""
        await turn()
        return [self.line(leg) for leg in legs]

    def leave(self):
        """The client leaves."""
        self.sending.cancel()

    async def error(self):
        """How sending failed."""
        with pytest.raises(UpstreamError) as caught:
            await self.sending
        return caught.value

    # --- what a test sees

    @property
    def loads(self):
        return [self.prefill.load, self.decode.load]

    @property
    def failures(self):
        return [self.prefill.breaker.failures, self.decode.breaker.failures]

    def outcomes(self, worker):
        """What the breaker of a worker heard."""
        found = dict(self.metrics.worker_cb_outcomes.recorded())
        return [found[key].value if (key := (worker.url, name)) in found else 0 for name in ("success", "failure")]

    def counted(self, family):
        return {labels: child.value for labels, child in family.recorded()}

    def sampled(self, family):
        return {labels: sum(child.counts) for labels, child in family.recorded()}

    @property
    def at_rest(self):
        lines = [line for lines in self.http.lines.values() for line in lines]
        return self.prefill.load == 0 and all(line.over for line in lines) and not self.upstream._legs._tasks


async def turn(times=8):
    """Let everything that is ready run."""
    for _ in range(times):
        await asyncio.sleep(0)


@asynccontextmanager
async def calm():
    """Fail on whatever reaches the loop's exception handler, and on tasks that are left."""
    loop = asyncio.get_running_loop()
    unexpected = []
    loop.set_exception_handler(lambda _, context: unexpected.append(context))
    before = asyncio.all_tasks()
    yield
    await turn()
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}
    gc.collect(1)
    await asyncio.sleep(0)
    assert unexpected == []


@pytest.fixture(name="turn", scope="session")
def _turn():
    return turn


@pytest.fixture(name="calm", scope="session")
def _calm():
    return calm


@pytest.fixture(scope="session")
def pair_kind():
    return Pair


@pytest.fixture
async def new_pair(calm):
    """Makes pairs; at the end of the test everything is at rest, and nothing went wrong unseen."""
    made = []

    def make(runtime="sglang", **options):
        made.append(Pair(runtime, **options))
        return made[-1]

    async with calm():
        yield make
        for pair in made:
            await turn()
            assert pair.at_rest
