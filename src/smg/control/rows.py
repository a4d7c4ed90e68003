"""A worker as the worker API shows it. Options that are not set are left out; a key is never shown."""

from __future__ import annotations

from typing import Any

import msgspec

from smg.control.loads import engine_load
from smg.fleet.address import parse_address
from smg.fleet.pairing import kind_of
from smg.fleet.pairs import LEGS
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard, Status, Worker
from smg.services.jobs import Job

Row = dict[str, Any]

# Attempts to connect while a worker starts; a fixed figure that older clients expect to see.
_MAX_CONNECTION_ATTEMPTS = 20


def worker_row(worker: Worker, job: Job | None = None) -> Row:
    """The row of a registered worker. `load` is what this gateway has in flight there."""
    return _without_absent(
        id=worker.id,
        model_id=worker.model_id,
        url=worker.url,
        models=[card_row(card) for card in worker.models] or None,
        worker_type=worker.worker_type,
        connection_mode=worker.connection_mode,
        runtime_type=worker.runtime,
        labels=worker.labels,
        priority=worker.priority,
        cost=worker.cost,
        bootstrap_port=worker.bootstrap_port,
        dp_base_url=None if worker.dp_rank is None else worker.base_url,
        dp_rank=worker.dp_rank,
        dp_size=worker.dp_size,
        **_settings(worker.spec),
        max_connection_attempts=_MAX_CONNECTION_ATTEMPTS,
        is_healthy=worker.status is Status.READY,
        status=worker.status.value,
        load=worker.load,
        engine_load=engine_load(worker.report),
        http2=worker.http2,
        pd_pairing=str(kind_of(worker)) if worker.worker_type in LEGS else None,
        job_status=job_row(job),
    )


def pending_row(worker_id: str, spec: WorkerSpec, job: Job | None) -> Row:
    """The row of a worker that is still being registered: what was asked for, nothing discovered."""
    return _without_absent(
        id=worker_id,
        url=spec.url,
        models=[card_row(card) for card in spec.models] or None,
        worker_type=spec.worker_type,
        connection_mode=parse_address(spec.url).connection_mode,
        runtime_type=spec.runtime_type,
        labels=spec.labels,
        priority=spec.priority,
        cost=spec.cost,
        bootstrap_port=spec.bootstrap_port,
        **_settings(spec),
        max_connection_attempts=_MAX_CONNECTION_ATTEMPTS,
        is_healthy=False,
        status=Status.PENDING.value,
        load=0,
        http2=False,
        job_status=job_row(job),
    )


def card_row(card: ModelCard) -> Row:
    """A model card."""
    return _without_absent(
        id=card.id,
        aliases=list(card.aliases) or None,
        model_type=list(card.model_type),
        display_name=card.display_name,
        context_length=card.context_length,
        tokenizer_path=card.tokenizer_path,
        chat_template=card.chat_template,
        tool_parser=card.tool_parser,
        reasoning_parser=card.reasoning_parser,
        hf_model_type=card.hf_model_type,
        architectures=list(card.architectures) or None,
    )


def job_row(job: Job | None) -> Row | None:
    """A job's record; `timestamp` is in Unix seconds."""
    if job is None:
        return None
    return {
        "job_type": job.job_type,
        "worker_url": job.worker_url,
        "status": job.status,
        "message": job.message,
        "timestamp": int(job.timestamp),
    }


def _settings(spec: WorkerSpec | None) -> Row:
    """The settings that a spec fills in, most of them blocks."""
    if spec is None:
        return {}
    settings = {
        "health": spec.health,
        "overload": spec.overload,
        "http_pool": spec.http_pool,
        "resilience": spec.resilience,
        "kv_connector": spec.kv_connector,
        "kv_engine_id": spec.kv_engine_id,
        "kv_role": spec.kv_role,
    }
    return {name: msgspec.to_builtins(value) or None for name, value in settings.items()}


def _without_absent(**members: Any) -> Row:
    return {name: value for name, value in members.items() if value is not None}
