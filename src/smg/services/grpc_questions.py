"""Asks an engine over gRPC what it is. Needs the engines' protocols, so it is loaded with the first such engine.

Every call has a deadline and the library's bound on an answer; what an engine does not tell stays unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from smg.engines.grpc_services import SERVICES, GrpcService, read_labels
from smg.engines.labels import Labels
from smg.lazy import resolve

_SECURE = "grpcs"


async def question(
    url: str, runtime: str | None, api_key: str | None, timeout_secs: float
) -> tuple[str | None, Labels | None]:
    """The runtime of the engine at a URL, unless it is known, and its labels; None for what it did not tell."""
    parts = urlsplit(url)
    async with _channel(parts.scheme, parts.netloc) as channel:
        asked = _Asked(channel, api_key, timeout_secs)
        found = runtime or await asked.runtime()
        service = SERVICES.get(found or "")
        if service is None:
            return found, {} if found else None
        model, server = await asyncio.gather(asked.of(service, "GetModelInfo"), asked.of(service, "GetServerInfo"))
        return found, None if model is None and server is None else read_labels(model or {}, server or {})


def _channel(scheme: str, target: str) -> grpc.aio.Channel:
    if scheme == _SECURE:
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials())
    return grpc.aio.insecure_channel(target)


class _Asked:
    """Questions to one engine."""

    def __init__(self, channel: grpc.aio.Channel, api_key: str | None, timeout_secs: float) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key is not None else ()
        self._timeout_secs = timeout_secs

    async def runtime(self) -> str | None:
        """The first engine whose own health check is answered: another one's is unknown to it."""
        answers: Sequence[object] = await asyncio.gather(
            *(self.of(service, "HealthCheck") for service in SERVICES.values())
        )
        return next((name for name, answer in zip(SERVICES, answers, strict=True) if answer is not None), None)

    async def of(self, service: GrpcService, method: str) -> dict[str, Any] | None:
        """The members of an answer, None if there is none. A flag that is off is a member too."""
        descriptor = resolve(f"smg_grpc_proto:{service.module}").DESCRIPTOR
        shape = descriptor.services_by_name[service.name.rpartition(".")[2]].methods_by_name[method]
        call: grpc.aio.UnaryUnaryMultiCallable[Any, Any] = self._channel.unary_unary(
            f"/{service.name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(shape.output_type).FromString,
        )
        try:
            answer = await call(
                GetMessageClass(shape.input_type)(), timeout=self._timeout_secs, metadata=self._metadata
            )
        except grpc.RpcError:
            return None
        flags = {field.name: False for field in shape.output_type.fields if field.type == field.TYPE_BOOL}
        return {**flags, **MessageToDict(answer, preserving_proto_field_name=True)}
