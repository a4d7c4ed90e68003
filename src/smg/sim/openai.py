"""The dialect of any other OpenAI-compatible server: the public API and a health route, no control plane."""

from __future__ import annotations

import msgspec

from smg.sim.dialect import TRANSCRIPTIONS, Dialect, Route, SimError, healthy, models, quoted, rerank
from smg.sim.realtime_routes import ROUTES as REALTIME_ROUTES


def _error(error: SimError) -> bytes:
    kind = "invalid_request_error" if error.status < 500 else "server_error"  # noqa: PLR2004  HTTP's own boundary
    code = "model_not_found" if error.status == 404 else None  # noqa: PLR2004  HTTP's own number
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": error.param, "code": code}})


def _fingerprint(version: str) -> bytes:
    return b',"system_fingerprint":%b' % quoted(f"fp_{version}")


OPENAI = Dialect(
    owned_by="openai",
    inference={
        "/v1/chat/completions": "chat",
        "/v1/completions": "completions",
        "/v1/embeddings": "embeddings",
        "/v1/rerank": "rerank",
        "/rerank": "rerank",
        "/v1/classify": "classify",
        "/v1/decisions": "decisions",
        "/v1/audio/transcriptions": TRANSCRIPTIONS,
        "/v1/responses": "responses",
        "/v1/messages": "messages",
        "/v1/messages/count_tokens": "count_tokens",
    },
    control={
        ("GET", "/health"): Route(healthy),
        ("GET", "/v1/models"): models("openai"),
        **REALTIME_ROUTES,
    },
    error=_error,
    unauthorized=(
        b'{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,'
        b'"code":"invalid_api_key"}}'
    ),
    needs_key=lambda path: path.startswith("/v1"),
    checks_model=True,
    answer_extra=_fingerprint,
    chunk_extra=_fingerprint,
    choice_extra=lambda sequence: b"",  # noqa: ARG005  nothing beyond the public API
    rerank=rerank,
    realtime="/v1/realtime",
    not_found=b'{"error":{"message":"Invalid URL","type":"invalid_request_error","param":null,"code":null}}',
    wrong_method=b'{"error":{"message":"Not allowed","type":"invalid_request_error","param":null,"code":null}}',
)
