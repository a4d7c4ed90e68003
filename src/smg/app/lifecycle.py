"""How a gateway ends: in an order that costs no client its answer.

    signal          readiness says `draining`, so that load balancers look elsewhere; requests are still served
    settle window   min(grace / 2, 5 s): the listener stays, for those who have not heard yet
    stop listening  idle connections end; what is in flight goes on
    grace period    whatever is left is cut, and the process exits with 0

A second signal ends at once.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol

from smg.telemetry.logs import get_logger

log = get_logger("smg.app")

LONGEST_SETTLE_SECS = 5.0
_POLL_SECS = 0.05
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Gateway(Protocol):
    """A running gateway."""

    def begin_draining(self) -> None: ...

    def stop_listening(self) -> None: ...

    @property
    def in_flight(self) -> int: ...

    async def close(self) -> None: ...


async def serve_until_signalled(gateway: Gateway, grace_secs: float) -> int:
    """Serve until SIGTERM or SIGINT, drain, and return the exit code."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.put_nowait, number)
    try:
        await signals.get()
        drain = asyncio.create_task(_drain(gateway, grace_secs))
        impatient = asyncio.create_task(signals.get())
        await asyncio.wait({drain, impatient}, return_when=asyncio.FIRST_COMPLETED)
        if not drain.done():
            log.warning("second signal: ending now", in_flight=gateway.in_flight)
        for task in (drain, impatient):
            task.cancel()
        await asyncio.gather(drain, impatient, return_exceptions=True)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        await gateway.close()
    return 0


async def _drain(gateway: Gateway, grace_secs: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_secs
    gateway.begin_draining()
    log.info("draining", in_flight=gateway.in_flight, grace_secs=grace_secs)
    await asyncio.sleep(min(grace_secs / 2, LONGEST_SETTLE_SECS))
    gateway.stop_listening()
    while gateway.in_flight and loop.time() < deadline:  # noqa: ASYNC110  counts have no event to wait for
        await asyncio.sleep(_POLL_SECS)
    if gateway.in_flight:
        log.warning("grace period over: cutting what is left", in_flight=gateway.in_flight)
