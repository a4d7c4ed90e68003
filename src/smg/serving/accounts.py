"""What inference requests leave in the metrics: counted here, decided elsewhere.

The series of an endpoint and model are looked up once and kept, so that a request costs attribute updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from smg.errors import GatewayError, UpstreamError, UpstreamTimeout
from smg.fleet.registry import Change, Registry
from smg.fleet.worker import Worker, WorkerType
from smg.serving.call import Call
from smg.telemetry.instruments import Counter, Histogram
from smg.telemetry.metrics import Metrics

_ROUTER = "http"
_PAIRS = "pd"
# Series looked up and kept, of each kind. Models are the registry's, yet a bound costs nothing.
_MAX_KEPT = 4096


class CallAccounts:
    """Counts calls, their attempts and their endings.

    `policy_of` names the policy that places a model's calls on workers of a type. A call takes a worker of each of
    `worker_types`: one, or the two of a pair.
    """

    def __init__(
        self,
        metrics: Metrics,
        registry: Registry,
        policy_of: Callable[[str | None, WorkerType], str],
        worker_types: Sequence[WorkerType] = ("regular",),
    ) -> None:
        self._metrics = metrics
        self._registry = registry
        self._policy_of = policy_of
        self._worker_types = tuple(worker_types)
        self._backend = _PAIRS if len(self._worker_types) > 1 else self._worker_types[0]
        self._requests: dict[tuple[str, str, bool], tuple[Counter, Histogram]] = {}
        # Under the key of a call and a worker type there is one policy, until the registry changes.
        self._selections: dict[tuple[str, str, str, str], Counter] = {}
        registry.subscribe(self._follow)
        self._responses: dict[int, Counter] = {}
        self._outcomes: dict[tuple[str, bool], Counter] = {}
        self._body_paths: dict[tuple[str, str], Counter] = {}

    def began(self, call: Call) -> Histogram:
        """A call begins; returns where its duration belongs."""
        key = (call.endpoint.name, call.label, call.stream)  # of one endpoint and its streams there is one mode
        series = self._requests.get(key)
        if series is None:
            series = self._series(call)
            if len(self._requests) < _MAX_KEPT:
                self._requests[key] = series
        series[0].value += 1
        return series[1]

    def placed(self, call: Call, worker: Worker) -> None:
        """A worker was chosen."""
        key = (worker.worker_type, worker.connection_mode, call.label, call.endpoint.policy)
        counter = self._selections.get(key)
        if counter is None:
            policy = call.endpoint.policy or self._policy_of(call.model, worker.worker_type)
            counter = self._metrics.worker_selection.labels(*key[:3], policy)
            if len(self._selections) < _MAX_KEPT:
                self._selections[key] = counter
        counter.value += 1

    def answered(self, status: int) -> None:
        """A worker answered in full."""
        counter = self._responses.get(status)
        if counter is None:
            counter = self._metrics.router_upstream_responses.labels(_ROUTER, str(status), "")
            self._responses[status] = counter
        counter.value += 1

    def outcome(self, worker: Worker, *, good: bool) -> None:
        """The worker's breaker was told. A worker that is gone meanwhile gets no new series."""
        key = (worker.url, good)
        counter = self._outcomes.get(key)
        if counter is None:
            if self._registry.snapshot.by_id.get(worker.id) is not worker:
                return
            counter = self._metrics.worker_cb_outcomes.labels(worker.url, "success" if good else "failure")
            self._outcomes[key] = counter
        counter.value += 1

    def lost(self, call: Call, worker: Worker, error: UpstreamError) -> None:
        """A worker did not answer, or not in full."""
        kind = "timeout" if isinstance(error, UpstreamTimeout) else "backend_error"
        self._metrics.worker_errors.labels(worker.worker_type, worker.connection_mode, kind).inc()
        self._metrics.router_upstream_responses.labels(_ROUTER, str(error.status), error.code).inc()
        self._error(call, kind)

    def unplaced(self, call: Call) -> None:
        """No worker could take the call, for whatever cause."""
        self._error(call, "no_workers")

    def retried(self, call: Call, retry: int, delay_secs: float) -> None:
        """Another attempt follows; the first retry is number 1."""
        for worker_type in self._worker_types:
            self._metrics.worker_retries.labels(worker_type, call.endpoint.name).inc()
        self._metrics.worker_retry_backoff_seconds.labels(str(retry)).observe(delay_secs)

    def exhausted(self, call: Call, attempts: int) -> None:
        """The last allowed attempt failed; a request that had only one has exhausted nothing."""
        if attempts > 1:
            for worker_type in self._worker_types:
                self._metrics.worker_retries_exhausted.labels(worker_type, call.endpoint.name).inc()

    def refused(self, call: Call, error: GatewayError) -> None:
        """The call ended with an error of the gateway's that no worker is to blame for."""
        self._error(call, "internal_error" if error.kind.source == "gateway" else "validation_error")

    def body_path(self, path: str, reason: str) -> None:
        """How the request's body is taken, and why."""
        key = (path, reason)
        counter = self._body_paths.get(key)
        if counter is None:
            counter = self._body_paths[key] = self._metrics.router_request_body_path.labels(path, reason)
        counter.value += 1

    def routing_key_source(self, source: str) -> None:
        """A sticky session was named by a header, or by the body's `rid`."""
        self._metrics.routing_key_source.labels(source).inc()

    def forget_worker(self, url: str) -> None:
        """A worker is gone: its series end."""
        for key in [key for key in self._outcomes if key[0] == url]:
            del self._outcomes[key]

    def _follow(self, change: Change) -> None:
        if change.kind != "status":
            self._selections.clear()

    def _series(self, call: Call) -> tuple[Counter, Histogram]:
        labels = (_ROUTER, self._backend, call.endpoint.mode, call.label, call.endpoint.name)
        streaming = "true" if call.stream else "false"
        return (
            self._metrics.router_requests.labels(*labels, streaming),
            self._metrics.router_request_duration_seconds.labels(*labels),
        )

    def _error(self, call: Call, kind: str) -> None:
        labels = (_ROUTER, self._backend, call.endpoint.mode, call.label, call.endpoint.name)
        self._metrics.router_request_errors.labels(*labels, kind).inc()


class PairAccounts:
    """Counts what only pairs do."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def filled(self, call: Call, prefill: Worker, secs: float) -> None:
        """A prefill engine did its part in this time."""
        self._metrics.pd_prefill_duration_seconds.labels(_PAIRS, call.label, prefill.runtime).observe(secs)

    def began(self, call: Call, prefill: Worker, asked_at: float) -> None:
        """The first piece of decode's stream is here. `asked_at` is when the client's request came."""
        self._metrics.pd_ttft_seconds.labels(_PAIRS, call.label, prefill.runtime).observe(perf_counter() - asked_at)

    def unmet(self) -> None:
        """A rendezvous did not come about."""
        self._metrics.pd_bootstrap_failures.labels().inc()

    def transferred(self, mode: str, *, failed: bool) -> None:
        """A cache is handed on by a kind of connector; or decode is told of none, although it should be."""
        self._metrics.pd_kv_connector_mode.labels(mode).inc()
        if failed:
            self._metrics.pd_kv_transfer_failures.labels().inc()
