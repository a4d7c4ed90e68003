"""Sending a call to an HTTP worker: which headers go along, whose credential, and over which connections.

A worker has one link: its connection pool and the request heads prepared for it. Links are made on first use and end
with their worker. One to a worker of HTTP/2 has a second pool, until the worker turns out not to speak it after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from smg.engines.providers import path_at, provider_for
from smg.errors import UpstreamError
from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.lazy import resolve
from smg.net.address import address_of
from smg.net.exchange import Exchange
from smg.net.http1.pool import Pool, PoolOptions
from smg.net.http2.failures import NotHttp2
from smg.net.reply import Reply
from smg.net.sweep import Sweeper, interval_for
from smg.net.upload import SpooledUpload
from smg.protocol.body import edit
from smg.protocol.headers import FORWARDED_REQUEST_HEADERS, FORWARDED_REQUEST_PREFIX, forwarded
from smg.serving.call import Call, Endpoint
from smg.serving.upstreams.provider_headers import Field, ProviderHeaders
from smg.telemetry.logs import get_logger

if TYPE_CHECKING:
    from smg.net.http2.pool import Http2Pool

log = get_logger("smg.serving.upstreams")

# What tells an engine of several data-parallel ranks which of them is meant.
RANK_MEMBER = "data_parallel_rank"
_HTTP2_POOL = "smg.net.http2.pool:Http2Pool"
JSON = b"application/json"
# Below this a copy is cheaper than a second buffer for the kernel.
JOIN_BYTES = 16 * 1024


class AnyPool(Protocol):
    """The connections to one worker, in either protocol."""

    resends: int

    @property
    def busy(self) -> int: ...

    def sweep(self, now: float) -> None: ...

    def close(self) -> None: ...

    def __len__(self) -> int: ...


class Link:
    """The way to one worker."""

    __slots__ = (
        "_authority",
        "_heads",
        "_scheme",
        "_url",
        "authorization",
        "http2",
        "pool",
        "provider",
        "routed_line",
        "timeout_secs",
    )

    def __init__(self, worker: Worker, options: PoolOptions, is_own: Callable[[bytes], bool]) -> None:
        address = address_of(worker.base_url)
        options = _own_options(worker, options)
        self.pool = Pool(address, options)
        # h2 is loaded by the first worker that needs it
        self.http2: Http2Pool | None = resolve(_HTTP2_POOL)(address, options) if worker.http2 else None
        self.timeout_secs = worker.spec.http_pool.timeout_secs if worker.spec is not None else None
        self.routed_line = b"x-smg-routed-worker-id: %b\r\n" % worker.url.encode()
        self.authorization = b"authorization: Bearer %b\r\n" % worker.api_key.encode() if worker.api_key else b""
        self.provider: ProviderHeaders | None = None
        if worker.runtime == "external":
            named = worker.spec.provider if worker.spec is not None else None
            self.provider = ProviderHeaders(provider_for(worker.base_url, named), worker.api_key, is_own)
        self._url = worker.base_url
        self._authority = address.authority
        self._scheme = b"https" if address.tls else b"http"
        self._heads: dict[str, bytes] = {}

    def head(self, path: str) -> bytes:
        """The request line and the headers that are the same for every call to a route."""
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self.head_of(path, JSON)
        return head

    def head_of(self, path: str, content_type: bytes) -> bytes:
        """The same for a body of another type."""
        line, host = self._target(path), self._authority
        return b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: %b\r\n" % (line, host, content_type)

    def get_head(self, target: str) -> bytes:
        """The request line of a GET, and the header that every request has."""
        return b"GET %b HTTP/1.1\r\nhost: %b\r\n" % (self._target(target), self._authority)

    def fields(
        self, endpoint: Endpoint, path: str, exchange: Exchange, length: int, content_type: bytes = JSON
    ) -> list[Field]:
        """The header list of one call in HTTP/2."""
        return [
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":authority", self._authority),
            (b":path", self._target(path)),
            (b"content-type", content_type),
            *self._client_fields(endpoint, exchange.headers),
            (b"content-length", b"%d" % length),
        ]

    def head_lines(self, beginning: bytes, endpoint: Endpoint, exchange: Exchange) -> list[bytes]:
        """The beginning of a head, then the client's headers that go along and one credential."""
        parts = [beginning]
        if self.provider is not None:
            fields = self.provider.fields(exchange.headers, endpoint.credentials)
            return parts + [b"%b: %b\r\n" % field for field in fields]
        authorized = False
        for name, value in exchange.headers.items():
            if name in FORWARDED_REQUEST_HEADERS or name.startswith(FORWARDED_REQUEST_PREFIX):
                parts.append(b"%b: %b\r\n" % (name, value))
                authorized = authorized or name == b"authorization"
        if not authorized:
            parts.append(self.authorization)
        return parts

    def is_authorized(self, endpoint: Endpoint, exchange: Exchange) -> bool:
        """Whether a call will bear a credential."""
        if self.provider is not None:
            return bool(self.provider.credentials(exchange.headers, endpoint.credentials))
        return bool(self.authorization or exchange.headers.get(b"authorization"))

    def _client_fields(self, endpoint: Endpoint, headers: dict[bytes, bytes]) -> list[Field]:
        if self.provider is not None:
            return self.provider.fields(headers, endpoint.credentials)
        fields = [field for field in headers.items() if forwarded(field[0])]
        if self.authorization and b"authorization" not in headers:
            fields.append((b"authorization", self.authorization[len(b"authorization: ") : -2]))
        return fields

    def _target(self, path: str) -> bytes:
        return path_at(self._url, path).encode()

    def pools(self) -> tuple[AnyPool, ...]:
        """All pools of the link."""
        return (self.pool,) if self.http2 is None else (self.pool, self.http2)


def _own_options(worker: Worker, options: PoolOptions) -> PoolOptions:
    """The gateway's options with the worker's own laid over them."""
    if worker.spec is None:
        return options
    own = worker.spec.http_pool
    given = {
        "idle_timeout_secs": own.pool_idle_timeout_secs,
        "connect_timeout_secs": own.connect_timeout_secs,
        "max_idle": own.pool_max_idle_per_host,
    }
    return replace(options, **{name: value for name, value in given.items() if value is not None})


class HttpUpstream:
    """All links to HTTP workers. `request_timeout_secs` covers one whole exchange with a worker, stream included.

    `is_own` tells the gateway's own credentials, which no external provider gets.
    """

    def __init__(
        self, options: PoolOptions, request_timeout_secs: float, is_own: Callable[[bytes], bool] = lambda _key: False
    ) -> None:
        self._options = options
        self._request_timeout_secs = request_timeout_secs
        self._is_own = is_own
        self._links: dict[str, Link] = {}
        self._retired: list[AnyPool] = []
        self._past_resends = 0
        self._loop = asyncio.get_running_loop()
        self._sweeper = Sweeper(self._loop, interval_for(request_timeout_secs, options.idle_timeout_secs))
        self._sweeper.add(self)

    def link(self, worker: Worker) -> Link:
        """The worker's link."""
        link = self._links.get(worker.id)
        if link is None:
            link = self._links[worker.id] = Link(worker, self._options, self._is_own)
        return link

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker."""
        return self.link(worker).routed_line

    def drop(self, worker: Worker) -> None:
        """The worker is gone: its idle connections end now, the others with their exchange."""
        link = self._links.pop(worker.id, None)
        if link is not None:
            for pool in link.pools():
                self._retire(pool)

    def _retire(self, pool: AnyPool) -> None:
        pool.close()
        self._retired.append(pool)

    def sweep(self, now: float) -> None:
        """Keep the deadlines of every exchange under way."""
        for link in self._links.values():
            for pool in link.pools():
                pool.sweep(now)
        for pool in tuple(self._retired):
            pool.sweep(now)
            if not len(pool):
                self._retired.remove(pool)
                self._past_resends += pool.resends

    def close(self) -> None:
        """The gateway ends."""
        self._sweeper.stop()
        for link in self._links.values():
            for pool in link.pools():
                pool.close()

    @property
    def pools(self) -> list[AnyPool]:
        """The pools of all links, and those of former ones that still have connections."""
        return [*(pool for link in self._links.values() for pool in link.pools()), *self._retired]

    @property
    def resends(self) -> int:
        """Requests sent once more because a pooled connection died, over all workers there are and were."""
        return self._past_resends + sum([pool.resends for pool in self.pools])

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call and wait for the head of its answer. Raises UpstreamError, or what broke the client's body."""
        worker = placement.worker
        body = call.body
        if body is not None and worker.dp_rank is not None:
            body = edit(body, {RANK_MEMBER: b"%d" % worker.dp_rank})
        return await self.send_body(worker, call, body, exchange)

    async def send_body(
        self,
        worker: Worker,
        call: Call,
        body: bytes | None,
        exchange: Exchange,
        path: str | None = None,
        content_type: bytes = JSON,
    ) -> Reply:
        """Send these bytes as the call's body, or with None the client's body as it comes; to the call's path, unless
        the engine has another one for it.
        """
        link = self.link(worker)
        deadline = self._loop.time() + (link.timeout_secs or self._request_timeout_secs)
        if link.http2 is not None:
            try:
                fields = link.fields(
                    call.endpoint,
                    path or call.endpoint.path,
                    exchange,
                    (exchange.body.length or 0) if body is None else len(body),
                    content_type,
                )
                if body is None:
                    return await link.http2.call(fields, deadline, exchange.body)
                return await link.http2.call(fields, deadline, content=body)
            except NotHttp2 as error:
                self._fall_back(worker, link, error)
        path = path or call.endpoint.path
        head = link.head(path) if content_type is JSON else link.head_of(path, content_type)
        parts = link.head_lines(head, call.endpoint, exchange)
        if body is None:
            parts.append(b"content-length: %d\r\n\r\n" % (exchange.body.length or 0))
            return await link.pool.call(b"".join(parts), deadline, exchange.body)
        parts.append(b"content-length: %d\r\n\r\n" % len(body))
        if len(body) > JOIN_BYTES:
            return await link.pool.call(b"".join(parts), deadline, content=body)
        parts.append(body)
        return await link.pool.call(b"".join(parts), deadline)

    async def send_upload(self, worker: Worker, call: Call, upload: SpooledUpload, exchange: Exchange) -> Reply:
        """Send a body that was kept, piece by piece; otherwise as `send_body` does."""
        link = self.link(worker)
        deadline = self._loop.time() + (link.timeout_secs or self._request_timeout_secs)
        path, length = call.endpoint.path, upload.length
        if link.http2 is not None:
            fields = link.fields(call.endpoint, path, exchange, length, upload.content_type)
            try:
                return await link.http2.call(fields, deadline, upload)
            except NotHttp2 as error:
                self._fall_back(worker, link, error)
        parts = link.head_lines(link.head_of(path, upload.content_type), call.endpoint, exchange)
        parts.append(b"content-length: %d\r\n\r\n" % length)
        return await link.pool.call(b"".join(parts), deadline, upload)

    def _fall_back(self, worker: Worker, link: Link, error: UpstreamError) -> None:
        """The worker does not speak HTTP/2 any more: from now on it is sent HTTP/1.1."""
        if link.http2 is None:
            return  # another call found out first
        log.warning("worker is spoken to in HTTP/1.1 from now on", worker=worker.url, reason=error.message)
        worker.http2 = False
        pool, link.http2 = link.http2, None
        self._retire(pool)
