"""The client for coroutines: the same methods as `smg.rl.RL`, to be awaited."""

from __future__ import annotations

from smg.rl.aio.streams import exchange
from smg.rl.base import ClientBase
from smg.rl.http1 import Reply
from smg.rl.replies import read_call, read_fanout, read_worker, read_workers
from smg.rl.requests import Params, Request, call_engine, fan_out, list_workers, show_worker
from smg.rl.results import CallResult, FanoutResult, Worker


class RL(ClientBase):
    """The control plane of one gateway. Every method is one request, which is never repeated.

    Tasks may share a client. It holds no connection and belongs to no event loop, so there is nothing to close.
    """

    async def workers(self) -> list[Worker]:
        """As `smg.rl.RL.workers`."""
        return read_workers(await self._exchange(list_workers()))

    async def worker(self, worker_id: str) -> Worker:
        """As `smg.rl.RL.worker`."""
        return read_worker(await self._exchange(show_worker(worker_id)))

    async def call(
        self,
        worker_id: str,
        path: str,
        body: object = None,
        *,
        method: str = "POST",
        params: Params | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  the twins take the same arguments
    ) -> CallResult:
        """As `smg.rl.RL.call`."""
        return read_call(await self._exchange(call_engine(worker_id, path, body, method, params), timeout))

    async def fanout(
        self,
        path: str,
        body: object = None,
        *,
        selector: str,
        method: str = "POST",
        params: Params | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  the twins take the same arguments
        allow_partial: bool = False,
    ) -> FanoutResult:
        """As `smg.rl.RL.fanout`."""
        reply = await self._exchange(fan_out(path, body, method, params, selector), timeout)
        return read_fanout(reply, allow_partial=allow_partial)

    async def _exchange(self, request: Request, timeout: float | None = None) -> Reply:  # noqa: ASYNC109  as above
        timeout_secs = self._timeout_secs(timeout)
        return await exchange(self._endpoint, self._rendered(request), timeout_secs, bodiless=request.method == "HEAD")
