"""What asks for a pass: rung as often as anybody likes, it makes a loop run once after a moment of quiet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Bell:
    """Rings that come within `coalesce_secs` of the first count as one, so that a storm of them makes one pass in that
    time, and what flaps for less is not seen at all.
    """

    def __init__(
        self, coalesce_secs: float = 1.0, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._coalesce_secs = coalesce_secs
        self._sleep = sleep
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Ask for a pass."""
        self._rung.set()

    async def wait(self, timeout_secs: float) -> bool:
        """Wait for a ring and the moment behind it; False if none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_secs):
                await self._rung.wait()
        if not self._rung.is_set():
            return False
        await self._sleep(self._coalesce_secs)
        self._rung.clear()
        return True
