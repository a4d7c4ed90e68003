"""Who may use admin routes where the control plane has credentials of its own: API keys, and tokens of an issuer.

Then no other key opens them, and every use is a `control_plane_audit` event. A token that is wrong is refused as what
it is, and not tried as a key. A token may have to wait for the issuer's keys, so this wraps handlers and is no filter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from smg.auth.keys import bearer_token, is_token
from smg.auth.principals import REALM, ControlKeys, Principal
from smg.errors import Forbidden, Unauthorized
from smg.net.exchange import Exchange
from smg.net.routes import Handler, Route
from smg.telemetry.logs import get_logger

log = get_logger("smg.audit")

_NOBODY = ("unknown", "none", "none")

TokenCheck = Callable[[bytes], Awaitable[Principal]]
"""Tells whom a token is about; raises Unauthorized if it opens nothing."""


class ControlPlane:
    """The door of the admin routes. Without `check_token`, tokens are credentials like any other."""

    def __init__(self, keys: ControlKeys, check_token: TokenCheck | None, *, audit: bool) -> None:
        self._keys = keys
        self._check_token = check_token
        self._audit = audit

    def guarded(self, routes: Iterable[Route]) -> list[Route]:
        """The same routes, those of the admin group behind this door."""
        return [
            route._replace(handler=self._behind(route.handler)) if route.group == "admin" else route for route in routes
        ]

    def knows(self, credential: bytes) -> bool:
        """Whether a credential is one of the control plane's, or may be."""
        return self._keys.find(credential) is not None or (self._check_token is not None and is_token(credential))

    def _behind(self, handler: Handler) -> Handler:
        async def guarded(exchange: Exchange) -> None:
            await self.admit(exchange)
            work = handler(exchange)
            if work is not None:
                await work

        return guarded

    async def admit(self, exchange: Exchange) -> None:
        """Let an administrator pass. Raises Unauthorized and Forbidden; either way the use is recorded."""
        try:
            principal = await self._identify(exchange.headers.get(b"authorization"))
        except Unauthorized:
            self._record(exchange, None, "denied")
            raise
        if not principal.administers:
            self._record(exchange, principal, "denied")
            raise Forbidden("Admin role required for control plane access")
        self._record(exchange, principal, "success")

    async def _identify(self, authorization: bytes | None) -> Principal:
        token = bearer_token(authorization)
        if not token:
            raise Unauthorized("Missing or invalid Authorization header", REALM)
        if self._check_token is not None and is_token(token):
            return await self._check_token(token)
        principal = self._keys.find(token)
        if principal is None:
            raise Unauthorized("Invalid authentication token", REALM)
        return principal

    def _record(self, exchange: Exchange, principal: Principal | None, outcome: str) -> None:
        if not self._audit:
            return
        name, kind, role = _NOBODY if principal is None else (principal.name, principal.method, principal.role)
        log.info(
            "control_plane_audit",
            principal=name,
            auth_method=kind,
            role=role,
            method=exchange.method,
            path=exchange.path,
            resource=exchange.route.path if exchange.route is not None else "",
            outcome=outcome,
            request_id=exchange.request_id,
        )
