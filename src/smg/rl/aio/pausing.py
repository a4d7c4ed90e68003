"""Pausing engines around a block of a coroutine. What is decided about it is shared with the other twin."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from smg.rl.aio.client import RL
from smg.rl.client import RL as BlockingRL  # noqa: N811  the twins have the same name
from smg.rl.pausing import PAUSE, RESUME, attach, may_have_paused, pause_body
from smg.rl.results import FanoutResult


class Pause(Protocol):
    """What `paused` returns: an asynchronous context manager whose block runs while engines are paused."""

    async def __aenter__(self) -> FanoutResult: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def paused(rl: RL, selector: str, *, mode: str | None = None, timeout: float | None = None) -> Pause:
    """`smg.rl.paused` for `async with`, with the same arguments and the same promises.

    A block or a pause that is cancelled is followed by the resume as well, for which the cancelled task stays until the
    resume is over or `timeout` has passed. A second cancellation ends that too and may leave engines paused.
    """
    if _blocks(rl):
        raise TypeError("this client blocks: use smg.rl.paused, or the client of smg.rl.aio")
    return _Pause(rl, selector, mode, timeout)


def _blocks(client: object) -> bool:
    return isinstance(client, BlockingRL)


class _Pause:
    def __init__(self, rl: RL, selector: str, mode: str | None, timeout: float | None) -> None:
        self._rl = rl
        self._selector = selector
        self._mode = mode
        self._timeout = timeout

    async def __aenter__(self) -> FanoutResult:
        try:
            return await self._fan_out(PAUSE, pause_body(self._mode))
        except BaseException as error:
            if may_have_paused(error):
                await self._resume_after(error)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._fan_out(RESUME, {})
        else:
            await self._resume_after(error)

    async def _resume_after(self, error: BaseException) -> None:
        """Resume; `error` is on its way out and stays the one that is raised."""
        try:
            await self._fan_out(RESUME, {})
        except Exception as failure:  # noqa: BLE001  whatever it is, it must not hide what came first
            attach(failure, error)

    async def _fan_out(self, path: str, body: dict[str, str]) -> FanoutResult:
        return await self._rl.fanout(path, body, selector=self._selector, timeout=self._timeout)
