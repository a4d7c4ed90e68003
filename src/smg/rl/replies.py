"""Replies of the control plane, read into results or raised as errors.

A field that this version does not know is ignored, one that it needs is checked: a reply that breaks the contract is an
`unexpected_response` whose payload can be looked at, never a surprise later on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from smg.rl.errors import FanoutError, RlError
from smg.rl.http1 import Reply
from smg.rl.results import CallResult, FanoutFailure, FanoutResult, Worker

_PROTOCOL_VERSION = 1
_FIRST_ERROR_STATUS = 400
_FIRST_OTHER_STATUS = 300

T = TypeVar("T")
Result = TypeVar("Result")


class _BreaksContractError(Exception):
    """A reply without what it should have."""


def read_workers(reply: Reply) -> list[Worker]:
    """All rows of a discovery. Raises RlError."""
    return _read(reply, _workers)


def read_worker(reply: Reply) -> Worker:
    """One row. Raises RlError."""
    return _read(reply, _worker)


def read_call(reply: Reply) -> CallResult:
    """What an engine answered, whatever its status. Raises RlError when it was the gateway that spoke.

    The two are told apart by the body: the envelope of an engine's answer has a latency and no error of its own.
    """
    payload = _decoded(reply)
    if isinstance(payload, dict) and "latency_ms" in payload and "error" not in payload:
        return _checked(reply, payload, _call_result)
    raise _refusal(reply, payload) or _unexpected(reply, payload, "the body is no engine's answer")


def read_fanout(reply: Reply, *, allow_partial: bool) -> FanoutResult:
    """The report of a fan-out. Raises FanoutError when a worker failed, unless that is allowed, and RlError."""
    result = _read(reply, _fanout_result)
    if allow_partial or (not result.failed and result.succeeded == result.total):
        return result
    raise FanoutError(reply.status, _decoded(reply), result)


# --- what is wrong with a reply


def _read(reply: Reply, build: Callable[[Any], Result]) -> Result:
    payload = _decoded(reply)
    if (refusal := _refusal(reply, payload)) is not None:
        raise refusal
    if reply.status >= _FIRST_OTHER_STATUS:
        raise _unexpected(reply, payload, "redirects are not followed")
    return _checked(reply, payload, build)


def _checked(reply: Reply, payload: Any, build: Callable[[Any], Result]) -> Result:
    try:
        return build(payload)
    except _BreaksContractError as error:
        reason = str(error)
    raise _unexpected(reply, payload, reason)


def _decoded(reply: Reply) -> Any:
    """The body as JSON, or else as a text."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return reply.body.decode("utf-8", "replace")


def _refusal(reply: Reply, payload: Any) -> RlError | None:
    """The error that a status of 400 or more stands for."""
    if reply.status < _FIRST_ERROR_STATUS:
        return None
    if not isinstance(payload, dict):
        return RlError(reply.status, "http_error", payload)
    # Routes outside the control plane and limits in front of it put code and message inside `error`.
    error = payload.get("error")
    inner = error if isinstance(error, dict) else {"code": error, "message": payload.get("message")}
    code, message = inner.get("code"), inner.get("message")
    return RlError(
        reply.status,
        code if isinstance(code, str) and code else "http_error",
        payload,
        message if isinstance(message, str) else "",
    )


def _unexpected(reply: Reply, payload: Any, reason: str) -> RlError:
    return RlError(reply.status, "unexpected_response", payload, reason)


# --- results


def _workers(payload: Any) -> list[Worker]:
    listing = _object(payload, "the body")
    version = listing.get("protocol_version", _PROTOCOL_VERSION)
    if version != _PROTOCOL_VERSION:
        raise _BreaksContractError(f"protocol_version is {version!r}, this client speaks {_PROTOCOL_VERSION}")
    return [_worker(row) for row in _field(listing, "workers", list)]


def _worker(payload: Any) -> Worker:
    row = _object(payload, "a worker")
    return Worker(
        id=_field(row, "id", str),
        url=_field(row, "url", str),
        base_url=_field(row, "base_url", str),
        engine=_field(row, "engine", str),
        engine_version=_optional(row, "engine_version", str),
        model_id=_optional(row, "model_id", str),
        worker_type=_field(row, "worker_type", str),
        connection_mode=_field(row, "connection_mode", str),
        tp_size=_optional(row, "tp_size", int),
        dp_size=_optional(row, "dp_size", int),
        pp_size=_optional(row, "pp_size", int),
        dp_ranks=_field(row, "dp_ranks", int),
        role=_optional(row, "role", str),
        health=_field(row, "health", str),
        weight_version=_optional(row, "weight_version", str),
        labels=_field(row, "labels", dict),
        capabilities=_field(row, "capabilities", dict),
    )


def _call_result(payload: Any) -> CallResult:
    row = _object(payload, "an engine's answer")
    return CallResult(
        worker_id=_field(row, "worker_id", str),
        url=_field(row, "url", str),
        status=_field(row, "status", int),
        latency_ms=_field(row, "latency_ms", (int, float)),
        body=row.get("body"),
        _truncated=row.get("body_truncated") is True,
    )


def _fanout_failure(payload: Any) -> FanoutFailure:
    row = _object(payload, "a failure")
    return FanoutFailure(
        worker_id=_field(row, "worker_id", str),
        url=_field(row, "url", str),
        status=_optional(row, "status", int),
        error=_field(row, "error", str),
        message=_field(row, "message", str),
    )


def _fanout_result(payload: Any) -> FanoutResult:
    report = _object(payload, "the body")
    return FanoutResult(
        results={worker_id: _call_result(row) for worker_id, row in _field(report, "results", dict).items()},
        failed=[_fanout_failure(row) for row in _field(report, "failed", list)],
        total=_field(report, "total", int),
        succeeded=_field(report, "succeeded", int),
    )


# --- fields


def _object(value: Any, what: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise _BreaksContractError(f"{what} is no JSON object")


def _field(row: dict[str, Any], name: str, kind: type[T] | tuple[type[T], ...]) -> T:
    """A field that must be there. JSON's booleans are no numbers."""
    value = row.get(name)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise _BreaksContractError(f"{name} is missing or of another type")


def _optional(row: dict[str, Any], name: str, kind: type[T]) -> T | None:
    return None if row.get(name) is None else _field(row, name, kind)
