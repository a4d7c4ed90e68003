"""The client for threads."""

from __future__ import annotations

from smg.rl.base import ClientBase
from smg.rl.http1 import Reply
from smg.rl.replies import read_call, read_fanout, read_worker, read_workers
from smg.rl.requests import Params, Request, call_engine, fan_out, list_workers, show_worker
from smg.rl.results import CallResult, FanoutResult, Worker
from smg.rl.sockets import exchange


class RL(ClientBase):
    """The control plane of one gateway. Every method is one request, which is never repeated.

    All raise RlError for an answer that is no result, and OSError when no complete answer came; TimeoutError is one.
    """

    def workers(self) -> list[Worker]:
        """All engines the gateway knows, sorted by base URL."""
        return read_workers(self._exchange(list_workers()))

    def worker(self, worker_id: str) -> Worker:
        """One engine; any of its ranks' ids will do. RlError has the code `worker_not_found` for an unknown id."""
        return read_worker(self._exchange(show_worker(worker_id)))

    def call(
        self,
        worker_id: str,
        path: str,
        body: object = None,
        *,
        method: str = "POST",
        params: Params | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """Send one engine a request of its own kind, and return its answer whatever the status.

        `body` is sent as JSON and None sends none; SGLang's pause_generation and continue_generation want at least
        `{}`. `params` is the engine's query: values by name, or pairs; a list repeats its name, booleans are spelled as
        JSON spells them. `timeout` replaces the client's, in seconds. Raises RlError when the gateway could not get an
        answer (worker_not_found, unsupported_connection_mode, upstream_unreachable, upstream_timeout,
        invalid_engine_path) or refused the key; ValueError and TypeError for what cannot be sent.
        """
        return read_call(self._exchange(call_engine(worker_id, path, body, method, params), timeout))

    def fanout(
        self,
        path: str,
        body: object = None,
        *,
        selector: str,
        method: str = "POST",
        params: Params | None = None,
        timeout: float | None = None,
        allow_partial: bool = False,
    ) -> FanoutResult:
        """Send every worker that matches `selector` the same request, and return the report of all of them.

        Raises FanoutError, which has the report, when a worker failed, unless `allow_partial`; RlError when the fan-out
        was refused (selector_required, invalid_selector, no_workers_match, invalid_engine_path). `body`, `params` and
        `timeout` are as for `call`; if the timeout ends the request, the gateway cancels the calls still in flight.
        """
        reply = self._exchange(fan_out(path, body, method, params, selector), timeout)
        return read_fanout(reply, allow_partial=allow_partial)

    def _exchange(self, request: Request, timeout: float | None = None) -> Reply:
        timeout_secs = self._timeout_secs(timeout)
        return exchange(self._endpoint, self._rendered(request), timeout_secs, bodiless=request.method == "HEAD")
