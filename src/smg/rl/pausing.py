"""Pausing engines around a block, and what both twins decide about it.

Whatever happens, workers that may have paused are told to continue: a fleet that stays paused by accident costs more
than a superfluous call. The resume goes to whoever matches the selector then, not to a remembered list.
"""

from __future__ import annotations

import socket
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Protocol

from smg.rl.client import RL
from smg.rl.errors import RlError
from smg.rl.results import FanoutResult

PAUSE = "pause_generation"
RESUME = "continue_generation"

_CLIENT_ERRORS = range(400, 500)
_NEVER_SENT = (TypeError, ValueError, ConnectionRefusedError, socket.gaierror)


class Pause(Protocol):
    """What `paused` returns: a context manager whose block runs while engines are paused."""

    def __enter__(self) -> FanoutResult: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def paused(rl: RL, selector: str, *, mode: str | None = None, timeout: float | None = None) -> Pause:
    """Run a block while the SGLang engines that match a selector are paused.

        with paused(rl, "engine=sglang", mode="in_place") as report: ...

    Fans out `pause_generation`, runs the block, and fans out `continue_generation` with the same selector. `mode` is
    SGLang's (abort, retract, in_place; None leaves the choice to it), `timeout` bounds each of the two, in seconds.
    `report` is the FanoutResult of the pause.

    When the pause fails on some workers, the block does not run, the others are resumed, and the FanoutError is raised.
    When the block raises, the workers are resumed and its exception goes on. In both cases a resume that fails too
    becomes that exception's `__context__`. When only the resume fails, its error is raised. A worker that stopped
    matching during the block, say because its health changed under `health=ready`, stays paused.
    """
    if iscoroutinefunction(rl.fanout):
        raise TypeError("this client is for coroutines: so is smg.rl.aio.paused")
    return _Pause(rl, selector, mode, timeout)


class _Pause:
    def __init__(self, rl: RL, selector: str, mode: str | None, timeout: float | None) -> None:
        self._rl = rl
        self._selector = selector
        self._mode = mode
        self._timeout = timeout

    def __enter__(self) -> FanoutResult:
        try:
            return self._fan_out(PAUSE, pause_body(self._mode))
        except BaseException as error:
            if may_have_paused(error):
                self._resume_after(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._fan_out(RESUME, {})
        else:
            self._resume_after(error)

    def _resume_after(self, error: BaseException) -> None:
        """Resume; `error` is on its way out and stays the one that is raised."""
        try:
            self._fan_out(RESUME, {})
        except Exception as failure:  # noqa: BLE001  whatever it is, it must not hide what came first
            attach(failure, error)

    def _fan_out(self, path: str, body: dict[str, str]) -> FanoutResult:
        return self._rl.fanout(path, body, selector=self._selector, timeout=self._timeout)


# --- for both twins


def pause_body(mode: str | None) -> dict[str, str]:
    """The body of a pause. SGLang wants one, even if it is empty."""
    return {} if mode is None else {"mode": mode}


def may_have_paused(error: BaseException) -> bool:
    """Whether a pause that failed may have reached an engine.

    Not if nothing was sent, and not if the gateway found fault with the request: it does so before it calls anyone. An
    interrupted or broken request may have reached some.
    """
    if isinstance(error, RlError):
        return error.status not in _CLIENT_ERRORS
    return not isinstance(error, _NEVER_SENT)


def attach(failure: BaseException, error: BaseException) -> None:
    """Make a failed resume the context of the error that came first.

    It was raised while that error was handled, so Python linked the two the other way round. That link is taken out,
    and what the error came from is kept at the end of the chain.
    """
    last = failure
    while last.__context__ is not None and last.__context__ is not error:
        last = last.__context__
    last.__context__ = error.__context__
    error.__context__ = failure
