"""Asks an engine about itself: whether it is up, which engine it is, and what it says of its model.

A gRPC engine is up when its address takes connections, and is asked if its protocols are installed
(`grpc_questions.py`). A ZMQ engine is the one that connects, so there is nothing to wait for, and what is known of it
is what its registration says.

The questions and what answers mean belong to `engines/`; here they are sent, with the worker's key and a
deadline each, and asked again when an engine that has just come up stumbles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.util import find_spec

from smg.engines import engine_of
from smg.engines.detection import detect_runtime
from smg.engines.labels import Labels
from smg.engines.plan import NO_ANSWER, Answer
from smg.engines.providers import provider_of
from smg.errors import UpstreamError
from smg.fleet.address import parse_address
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ConnectionMode
from smg.lazy import resolve
from smg.net.fetch import Fetcher
from smg.services.questions import answer_of, run_plan

# An engine that tells nothing is treated as the one whose routes are asked first, or as the one whose own protocol its
# transport is.
DEFAULT_RUNTIMES: Mapping[ConnectionMode, str] = {"http": "sglang", "grpc": "sglang", "zmq": "vllm"}
READY_PATH = "/health"

_TRIES = 3
_PAUSE_SECS = 0.5


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found out about an engine."""

    runtime: str
    labels: Labels
    http2: bool = False


def known_runtime(spec: WorkerSpec) -> str | None:
    """The runtime that the spec, or the host of its URL, gives away; None if the engine must be asked."""
    if spec.runtime_type != "unspecified":
        return spec.runtime_type
    mode = parse_address(spec.url).connection_mode
    return "external" if mode == "http" and provider_of(spec.url) else None


def inherited_key(spec: WorkerSpec, key: str | None) -> str | None:
    """The gateway's own key, for a worker that brings none; a provider, which is not of the fleet, inherits nothing."""
    return None if known_runtime(spec) == "external" else key


class Inspector:
    """Inspects engines, over HTTP or gRPC; `timeout_secs` is for one call."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        timeout_secs: float = 5.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._fetcher = fetcher
        self._timeout_secs = timeout_secs
        self._sleep = sleep

    async def trouble(self, url: str) -> str | None:
        """Why an engine is not up yet, or None if it is. It is asked without a key."""
        mode = parse_address(url).connection_mode
        if mode == "zmq":
            return None
        try:
            if mode == "grpc":
                await self._fetcher.reach(url, timeout_secs=self._timeout_secs)
                return None
            answer = await self._fetcher.get(url + READY_PATH, timeout_secs=self._timeout_secs)
        except UpstreamError as error:
            return error.message
        return None if HTTPStatus(200) <= answer.status < HTTPStatus(300) else f"status {answer.status}"

    async def inspect(self, spec: WorkerSpec) -> Inspection:
        """Find out runtime and labels. Never fails: what an engine does not tell stays unknown."""
        runtime = known_runtime(spec)
        mode = parse_address(spec.url).connection_mode
        if mode == "grpc" and _has_grpc():
            return await self._over_grpc(spec, runtime)
        if runtime == "external" or mode != "http":
            return Inspection(runtime or DEFAULT_RUNTIMES[mode], {})
        questions = _Questions(self._fetcher, spec, self._timeout_secs)
        for attempt in range(_TRIES):
            if attempt:
                await self._sleep(_PAUSE_SECS)
            questions.failed = False
            found = runtime or await run_plan(detect_runtime(), questions.ask) or DEFAULT_RUNTIMES[mode]
            labels = await run_plan(engine_of(found).read_labels(), questions.ask)
            if not questions.failed:
                break
        return Inspection(found, labels)

    async def _over_grpc(self, spec: WorkerSpec, runtime: str | None) -> Inspection:
        question = resolve("smg.services.grpc_questions:question")
        labels: Labels | None = None
        for attempt in range(_TRIES):
            if attempt:
                await self._sleep(_PAUSE_SECS)
            runtime, labels = await question(spec.url, runtime, spec.api_key, self._timeout_secs)
            if labels is not None:
                break
        return Inspection(runtime or DEFAULT_RUNTIMES["grpc"], labels or {})


def _has_grpc() -> bool:
    """Whether the engines' protocols are installed; without them a worker is what its spec says."""
    return find_spec("grpc") is not None and find_spec("smg_grpc_proto") is not None


@dataclass(slots=True)
class _Questions:
    """One engine's answers. Good ones are kept, so that nothing is asked twice; `failed` notes that one was
    missing.
    """

    fetcher: Fetcher
    spec: WorkerSpec
    timeout_secs: float
    failed: bool = False
    _kept: dict[str, Answer] = field(default_factory=dict)

    async def ask(self, path: str) -> Answer:
        kept = self._kept.get(path)
        if kept is not None:
            return kept
        answer = await self._get(path)
        if answer.ok:
            self._kept[path] = answer
        elif answer.status == 0 or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.failed = True
        return answer

    async def _get(self, path: str) -> Answer:
        try:
            fetched = await self.fetcher.get(
                self.spec.url + path, api_key=self.spec.api_key, timeout_secs=self.timeout_secs
            )
        except UpstreamError:
            return NO_ANSWER
        return answer_of(fetched)
