"""Background loops under one roof: each has a name, is restarted after a crash, and is gone after `stop`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from smg.telemetry.logs import get_logger

log = get_logger("smg.services.supervisor")

Loop = Callable[[], Coroutine[Any, Any, None]]

FIRST_BACKOFF_SECS = 0.1
MAX_BACKOFF_SECS = 30.0


class Supervisor:
    """Keeps loops running. A loop that returns is finished; one that raises starts again after a while.

    The pause doubles with every crash up to `MAX_BACKOFF_SECS`, and starts small again after the loop has run
    that long.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, loop: Loop) -> None:
        """Run a loop from now on. Raises ValueError if one of that name is running."""
        if name in self._tasks:
            raise ValueError(f"a loop named {name} is running")
        task = asyncio.get_running_loop().create_task(self._keep(name, loop), name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the loops that run, or wait to be restarted."""
        return tuple(self._tasks)

    async def stop(self) -> None:
        """Cancel every loop and wait until all have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, loop: Loop) -> None:
        clock = asyncio.get_running_loop().time
        backoff_secs = FIRST_BACKOFF_SECS
        while True:
            started = clock()
            try:
                await loop()
            except Exception as error:
                log.exception("background loop crashed", loop=name, error=error)
            else:
                return
            if clock() - started >= MAX_BACKOFF_SECS:
                backoff_secs = FIRST_BACKOFF_SECS
            await self._sleep(backoff_secs)
            backoff_secs = min(2 * backoff_secs, MAX_BACKOFF_SECS)
