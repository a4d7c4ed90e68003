"""A simulated engine on the network: its listener, its routes, its faults. Many may live in one process.

`/sim/...` belongs to the simulation and to no dialect: `GET /sim/state`, `GET`, `POST` and `DELETE /sim/faults`,
`POST /sim/crash`. Faults never touch these routes, and they need no key.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from types import TracebackType
from typing import Self

import msgspec

from smg.errors import GatewayError
from smg.net.exchange import Exchange
from smg.net.http1.server import Limits, Server, serve
from smg.sim import messages, realtime
from smg.sim.dialect import TRANSCRIPTIONS, Answer, Control, Route, SimError, as_json
from smg.sim.dialects import DIALECTS
from smg.sim.fault_carrier import FaultCarrier
from smg.sim.faults import Fault, FaultTable, parse_fault
from smg.sim.inference import Inference
from smg.sim.machine import Machine
from smg.sim.options import SimOptions
from smg.sim.pacer import Pacer
from smg.sim.reply import Reply

CRASH_EXIT_CODE = 70

# Engines send no keep-alive comments of their own, and wait long for slow clients.
_LIMITS = Limits(header_read_timeout_secs=0, idle_timeout_secs=0, upload_stall_timeout_secs=0, sse_keepalive_secs=0)


class SimEngine:
    """One engine: `async with SimEngine(SimOptions(...)) as engine: engine.url`.

    `machine` and `faults` may be read and changed directly by a program in the same process; `settle` after a change
    that lets work go on.
    """

    def __init__(self, options: SimOptions) -> None:
        self.options = options
        self.machine = Machine(options)
        self.faults = FaultTable(options.faults, random.Random(options.seed).random)
        self._dialect = DIALECTS[options.engine]
        self._paths = {*self._dialect.inference, *(path for _, path in self._dialect.control)}
        self._paths |= {self._dialect.realtime} - {""}
        self._key = f"Bearer {options.api_key}".encode() if options.api_key else b""
        self._server: Server | None = None
        self._pacer: Pacer | None = None
        self._inference: Inference | None = None

    # --- life

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        self._pacer = Pacer(self.machine, asyncio.get_running_loop())
        self._inference = Inference(self.machine, self._dialect, self._pacer)
        self._server = await serve(self._serve, self.options.host, self.options.port, _LIMITS)

    async def stop(self) -> None:
        """Cut all connections and stop listening."""
        if self._server is None or self._pacer is None:
            return
        self._pacer.stop()
        self._server.stop_listening()
        self._server.abort()
        while self._server.busy:  # noqa: ASYNC110  cut connections end within a turn or two of the loop
            await asyncio.sleep(0)
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port listened on."""
        assert self._server is not None
        return self._server.port

    @property
    def url(self) -> str:
        """The engine's base URL."""
        return f"http://{self.options.host}:{self.port}"

    def settle(self) -> None:
        """Take note of a change made to `machine` from outside."""
        assert self._pacer is not None
        self._pacer.settle()

    # --- requests

    async def _serve(self, exchange: Exchange) -> None:
        path = exchange.path
        self.machine.seen[path] += 1
        try:
            if path.startswith("/sim/"):
                await self._sim_route(exchange)
            elif self.faults and (fault := self.faults.take(path)) is not None:
                await self._serve_faulty(exchange, fault)
            else:
                await self._route(exchange, exchange)
        except GatewayError as error:
            if not exchange.status:
                exchange.answer(400, self._error(path, SimError(400, str(error))))
        finally:
            exchange.finish()

    async def _route(self, exchange: Exchange, reply: Reply, fault: Fault | None = None) -> None:
        """Answer as the dialect does. Of a session, its responses bear the `fault`; of others the reply does."""
        path = exchange.path
        try:
            if self._key and exchange.headers.get(b"authorization") != self._key and self._dialect.needs_key(path):
                reply.answer(401, self._dialect.unauthorized)
                return
            kind = self._dialect.inference.get(path)
            if kind is not None and exchange.method == "POST":
                assert self._inference is not None
                body = await exchange.read_body()
                if kind == TRANSCRIPTIONS:
                    await self._inference.transcribe(exchange.headers.get(b"content-type"), body, reply)
                else:
                    await self._inference.serve(kind, body, reply)
                return
            if path == self._dialect.realtime and exchange.method == "GET":
                assert self._inference is not None
                await realtime.serve(exchange, self._inference, fault)
                return
            route = self._dialect.control.get((exchange.method, path))
            if route is not None:
                await self._control(route, exchange, reply)
            elif path in self._paths:
                reply.answer(405, self._dialect.wrong_method)
            else:
                reply.answer(404, self._dialect.not_found)
        except SimError as error:
            reply.answer(error.status, self._error(path, error))

    def _error(self, path: str, error: SimError) -> bytes:
        """An error as the engine tells it on a path."""
        spoken = self._dialect.inference.get(path)
        return (messages.error_body if spoken in (messages.MESSAGES, messages.COUNT) else self._dialect.error)(error)

    async def _control(self, route: Route, exchange: Exchange, reply: Reply) -> None:
        assert self._pacer is not None
        pacer, scheduler = self._pacer, self.machine.scheduler
        body = await exchange.read_body()
        call = Control(self.machine, exchange.query, body, pacer.now(), time.time())
        holds = False
        try:
            if route.prepare is not None and route.prepare(call):
                pacer.settle()
                if route.holds:
                    scheduler.hold()
                    holds = True
                await pacer.until_calm()
            answer = route.run(call)
        finally:
            if holds:
                scheduler.release(pacer.now())
            pacer.settle()
        reply.answer(answer.status, answer.body, answer.content_type)

    # --- faults

    async def _serve_faulty(self, exchange: Exchange, fault: Fault) -> None:
        if fault.shapes_answer and exchange.path == self._dialect.realtime:
            await self._route(exchange, exchange, fault)
        elif fault.shapes_answer:
            await self._carry_faulty(exchange, fault)
        elif fault.kind == "latency":
            await asyncio.sleep(fault.ms / 1000)
            await self._route(exchange, exchange)
        elif fault.kind == "error":
            await exchange.read_body()
            exchange.answer(fault.status, self._error(exchange.path, SimError(fault.status, "simulated fault")))
        elif fault.kind == "reset":
            exchange.abort()
        else:
            await asyncio.get_running_loop().create_future()

    async def _carry_faulty(self, exchange: Exchange, fault: Fault) -> None:
        carrier = FaultCarrier(fault, exchange)
        task = carrier.work = asyncio.ensure_future(self._route(exchange, carrier))
        try:
            await task
        except asyncio.CancelledError:
            if not carrier.cut:
                raise
        await carrier.settle()

    # --- the simulation's own routes

    async def _sim_route(self, exchange: Exchange) -> None:
        assert self._pacer is not None
        body = await exchange.read_body()
        match exchange.method, exchange.path:
            case "GET", "/sim/state":
                state = self.machine.state(self._pacer.now()) | {"faults_applied": self.faults.applied}
                answer = as_json(state)
            case "GET", "/sim/faults":
                answer = as_json({"faults": self.faults.rows()})
            case "POST", "/sim/faults":
                answer = self._add_faults(body)
            case "DELETE", "/sim/faults":
                answer = as_json({"cleared": self.faults.clear()})
            case "POST", "/sim/crash" if self.options.may_crash:
                os._exit(CRASH_EXIT_CODE)
            case "POST", "/sim/crash":
                answer = as_json({"error": "this engine shares its process and may not crash it"}, 403)
            case _:
                answer = as_json({"error": "unknown simulation route"}, 404)
        exchange.answer(answer.status, answer.body, answer.content_type)

    def _add_faults(self, body: bytes) -> Answer:
        """Add one rule or a list of rules; none is added when one is wrong."""
        try:
            given = msgspec.json.decode(body)
            faults = [parse_fault(row) for row in (given if isinstance(given, list) else [given])]
        except (ValueError, msgspec.DecodeError) as error:
            return as_json({"error": str(error)}, 400)
        for fault in faults:
            self.faults.add(fault)
        return as_json({"faults": self.faults.rows()})
