"""Small calls to engines outside the inference path: probes, metadata, admin routes.

Each call has a connection of its own, so that no amount of inference traffic can delay it, a deadline over the whole of
it, and a bound on the answer. Redirects are answers, never followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from smg.errors import UpstreamError, UpstreamTimeout
from smg.net.address import address_of
from smg.net.capture import Outgoing, http1_head
from smg.net.http1.pool import Pool, PoolOptions, unreachable

Fields = Sequence[tuple[bytes, bytes]]

MAX_ANSWER_BYTES = 1 << 20
_DEFAULT_PORT = 80


@dataclass(frozen=True, slots=True)
class Fetched:
    """An engine's answer. `headers` has lower-case names, the last of repeated ones winning."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Fetcher:
    """Calls engines by URL."""

    async def get(
        self,
        url: str,
        *,
        api_key: str | None = None,
        fields: Fields = (),
        timeout_secs: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Fetched:
        """GET a URL, with `fields` as further headers.

        Raises UpstreamError, or UpstreamTimeout when the whole call takes longer than `timeout_secs`.
        """
        return await self._call("GET", url, None, _bearer(api_key, fields), timeout_secs, max_bytes)

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        api_key: str | None = None,
        timeout_secs: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Fetched:
        """POST JSON bytes to a URL; raises like `get`."""
        return await self._call("POST", url, body, _bearer(api_key), timeout_secs, max_bytes)

    async def reach(self, url: str, *, timeout_secs: float) -> None:
        """Connect to the host and port of a URL, whatever its scheme, and leave. Raises like `get`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORT
        except ValueError as error:
            raise UpstreamError("call_upstream_request_error", "the URL is not valid") from error
        try:
            async with asyncio.timeout(timeout_secs):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
        except TimeoutError:
            raise UpstreamTimeout("call_upstream_timeout", f"no connection within {timeout_secs:g} s") from None
        except (OSError, UnicodeError) as error:
            raise unreachable(error) from error
        transport.abort()

    async def _call(
        self, method: str, url: str, body: bytes | None, fields: Fields, timeout_secs: float, max_bytes: int
    ) -> Fetched:
        try:
            parts = urlsplit(url)
            address = address_of(url)
        except ValueError as error:
            raise UpstreamError("call_upstream_request_error", "the URL is not valid") from error
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = [(b"accept", b"*/*"), *fields]
        if body is not None:
            fields.append((b"content-type", b"application/json"))
        request = Outgoing(method, target, fields, body or b"")
        pool = Pool(address, PoolOptions(connect_timeout_secs=timeout_secs))
        try:
            async with asyncio.timeout(timeout_secs):
                reply = await pool.call(http1_head(address, request), 0.0, content=request.body)
                try:
                    content = await reply.read(max_bytes)
                finally:
                    reply.close()
        except TimeoutError:
            raise UpstreamTimeout("call_upstream_timeout", f"no answer within {timeout_secs:g} s") from None
        except UnicodeError as error:
            raise UpstreamError("call_upstream_request_error", "the URL is not valid") from error
        finally:
            pool.close()
        return Fetched(reply.status, {name: value for name, value, _ in reply.head.fields}, content)


def _bearer(api_key: str | None, fields: Fields = ()) -> Fields:
    return fields if api_key is None else [(b"authorization", f"Bearer {api_key}".encode()), *fields]
