"""Which protocol an engine is spoken to in: HTTP/2 where it works, HTTP/1.1 everywhere else.

A worker's own setting decides without a question. Otherwise, if the gateway is to try, an engine that is up is asked
for its health in both protocols at once. HTTP/2 is kept only for a proper answer; one that is slow to come counts for
nothing once HTTP/1.1 has answered and some grace has passed, since there are servers that wait for ever for the rest
of what they take for a malformed request.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from importlib.util import find_spec

from smg.errors import ConfigError, UpstreamError
from smg.fleet.address import parse_address
from smg.fleet.spec import WorkerSpec
from smg.lazy import resolve
from smg.net.address import address_of
from smg.net.fetch import Fetcher
from smg.net.http1.pool import PoolOptions
from smg.services.inspection import READY_PATH, known_runtime
from smg.services.jobs import JobFailed
from smg.telemetry.logs import get_logger

log = get_logger("smg.services.http2_probe")

NEEDED = "HTTP/2 needs the h2 package: pip install 'smg-gateway[http2]'"
TIMEOUT_SECS = 5.0
GRACE_SECS = 1.0
_MAX_ANSWER_BYTES = 1 << 20
_GOOD = range(HTTPStatus.OK, HTTPStatus.MULTIPLE_CHOICES)


class Http2Probe:
    """Decides between the protocols; `wanted` is the gateway's setting. Raises ConfigError if it cannot be met."""

    def __init__(self, fetcher: Fetcher, *, wanted: bool) -> None:
        if wanted and not _is_installed():
            raise ConfigError([f"--upstream-http2: {NEEDED}"])
        self._fetcher = fetcher
        self._wanted = wanted

    async def choose(self, spec: WorkerSpec) -> bool:
        """Whether to speak HTTP/2 to an engine that is up. Raises JobFailed if a worker asks for it in vain."""
        own = spec.http_pool.http2
        if parse_address(spec.url).connection_mode != "http" or own is False:
            return False
        if own and not _is_installed():
            raise JobFailed(f"http_pool.http2: {NEEDED}")
        if own or not self._wanted or known_runtime(spec) == "external":
            return bool(own)
        works = await self._works(spec.url)
        if not works:
            log.info("worker does not answer HTTP/2: HTTP/1.1 it is", worker=spec.url)
        return works

    async def _works(self, url: str) -> bool:
        second = asyncio.create_task(self._answers_http2(url))
        first = asyncio.create_task(self._answers_http1(url))
        try:
            await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
            if not second.done():
                await asyncio.wait({second}, timeout=GRACE_SECS if first.result() else None)
            return second.done() and second.result()
        finally:
            for task in (first, second):
                task.cancel()
            await asyncio.wait({first, second})

    async def _answers_http1(self, url: str) -> bool:
        try:
            return (await self._fetcher.get(url + READY_PATH, timeout_secs=TIMEOUT_SECS)).status in _GOOD
        except UpstreamError:
            return False

    async def _answers_http2(self, url: str) -> bool:
        address = address_of(url)
        fields = [
            (b":method", b"GET"),
            (b":scheme", b"https" if address.tls else b"http"),
            (b":authority", address.authority),
            (b":path", READY_PATH.encode()),
            (b"accept", b"*/*"),
        ]
        make_pool = resolve("smg.net.http2.pool:Http2Pool")
        pool = make_pool(address, PoolOptions(connect_timeout_secs=TIMEOUT_SECS))
        try:
            async with asyncio.timeout(TIMEOUT_SECS):
                reply = await pool.call(fields, 0.0)
                try:
                    await reply.read(_MAX_ANSWER_BYTES)
                finally:
                    reply.close()
        except (TimeoutError, UpstreamError):
            return False
        finally:
            pool.close()
        return reply.status in _GOOD


def _is_installed() -> bool:
    return find_spec("h2") is not None
