"""The front of every route: finds it, runs the filters around it, runs it, and keeps its accounts.

Filters are plain functions in one ordered list a route group; each may refuse the exchange by raising. Admission is the
only step that may wait. Whatever ends an exchange, a normal answer, a refusal, a fault of ours or a client that leaves,
ends here: the permit goes back, the access line is written, and the connection takes its next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Protocol

from smg.edge.cors import Cors
from smg.errors import Forbidden, GatewayError, Unauthorized
from smg.net.exchange import Exchange
from smg.net.routes import Group, Route, RouteTable, words_of
from smg.protocol.envelope import envelope_headers
from smg.protocol.failures import FormFailure, RequestFailure
from smg.telemetry.logs import get_logger

log = get_logger("smg.edge")

Filter = Callable[[Exchange], None]

_TEXT = b"text/plain; charset=utf-8"
# What the answers of some codes carry beyond what all errors do.
_MARKS = {"scheduler_preempted": ((b"x-smg-preempted", b"true"),)}


class Gate(Protocol):
    """Admission: a permit from entry to the last byte of the answer."""

    def try_enter(self, exchange: Exchange) -> bool:
        """Whether the exchange has a permit at once; if not, and nothing is raised, `enter` follows."""

    async def enter(self, exchange: Exchange) -> None:
        """Wait for a permit."""

    def leave(self, exchange: Exchange) -> None:
        """Give the permit of an exchange back; called only if it got one."""


class Accounts(Protocol):
    """Who counts and records exchanges."""

    def began(self, exchange: Exchange) -> None: ...

    def ended(self, exchange: Exchange) -> None: ...


class Front:
    """The handler of a listener. Without `cors`, browsers keep web pages of other origins out."""

    def __init__(
        self,
        routes: RouteTable,
        filters: Mapping[Group, Sequence[Filter]],
        always: Sequence[Filter],
        accounts: Accounts,
        gate: Gate | None,
        cors: Cors | None = None,
    ) -> None:
        self._routes = routes
        self._filters = filters
        self._always = always if cors is None else (*always, cors.mark)
        self._accounts = accounts
        self._gate = gate
        self._cors = cors

    def __call__(self, exchange: Exchange) -> Coroutine[None, None, None] | None:
        """Serve an exchange: at once, or by the coroutine returned."""
        route = self._find(exchange)
        exchange.route = route
        for note in self._always:
            note(exchange)
        if route is not None and route.waits:
            return self._run(exchange, route)
        self._accounts.began(exchange)
        try:
            self._run_at_once(exchange, route)
        except Exception as error:  # noqa: BLE001  the last resort of every route
            self._fail(exchange, error)
        self._end(exchange)
        return None

    def _run_at_once(self, exchange: Exchange, route: Route | None) -> None:
        if route is None:
            if self._cors is not None and self._cors.preflight(exchange):
                return
            raise self._unrouted(exchange)
        for check in self._filters[route.group]:
            check(exchange)
        route.handler(exchange)

    async def _run(self, exchange: Exchange, route: Route) -> None:
        self._accounts.began(exchange)
        gate = self._gate if route.group == "serving" else None
        entered = False
        try:
            for check in self._filters[route.group]:
                check(exchange)
            if gate is not None:
                if not gate.try_enter(exchange):
                    await gate.enter(exchange)
                entered = True
            work = route.handler(exchange)
            assert work is not None
            await work
        except asyncio.CancelledError:
            # The client left, the normal end of an exchange that nobody waits for; or we cut it short ourselves.
            if exchange.cut_short is not None and not exchange.status:
                self._fail(exchange, exchange.cut_short)
        except Exception as error:  # noqa: BLE001  the last resort of every route
            self._fail(exchange, error)
        finally:
            if entered and gate is not None:
                gate.leave(exchange)
            self._end(exchange)

    def _find(self, exchange: Exchange) -> Route | None:
        methods, params = self._routes.methods(exchange.path)
        exchange.params = params
        return methods.get(exchange.method)

    def _unrouted(self, exchange: Exchange) -> GatewayError:
        methods, _ = self._routes.methods(exchange.path)
        if methods:
            return GatewayError("method_not_allowed", f"{exchange.method} is not allowed on {exchange.path}")
        return GatewayError("unknown_url", f"there is nothing at {exchange.path}")

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        """The one place that turns an error into an answer."""
        if exchange.status:
            if not isinstance(error, GatewayError):
                log.exception("request failed inside the gateway", path=exchange.path)  # noqa: LOG004  in a handler
            exchange.abort()  # the answer is under way: a cut connection is the only honest end
        elif isinstance(error, FormFailure):
            exchange.answer(400, error.message.encode(), _TEXT)
        elif isinstance(error, RequestFailure):
            exchange.answer(400, words_of(exchange).refused(error, exchange.request_id))
        elif isinstance(error, Unauthorized):
            challenge = (b"www-authenticate", b'Bearer realm="%b"' % error.realm.encode())
            exchange.answer(401, error.message.encode(), _TEXT, headers=(challenge,))
        elif isinstance(error, Forbidden):
            exchange.answer(403, error.message.encode(), _TEXT)
        else:
            if not isinstance(error, GatewayError):
                log.exception("request failed inside the gateway", path=exchange.path)  # noqa: LOG004  in a handler
                error = GatewayError("internal_error", "the gateway failed while it served this request")
            exchange.error_code = error.code
            headers = [*envelope_headers(error), *self._marks(exchange, error)]
            body = words_of(exchange).decided(error, exchange.request_id)
            exchange.answer(error.status, body, headers=headers)

    def _marks(self, exchange: Exchange, error: GatewayError) -> Sequence[tuple[bytes, bytes]]:
        """What the answer of a code carries in addition: a wrong method is told which ones are right."""
        if error.code != "method_not_allowed":
            return _MARKS.get(error.code, ())
        methods, _ = self._routes.methods(exchange.path)
        return ((b"allow", ", ".join(sorted(methods)).encode()),)

    def _end(self, exchange: Exchange) -> None:
        self._accounts.ended(exchange)
        exchange.finish()
