"""The fields of request bodies that a simulated engine looks at; all others are accepted and ignored.

Inputs that may be a text, token ids, or a list of either are sorted out by `requests`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Common(msgspec.Struct, kw_only=True):
    model: str = ""
    rid: str | list[str] | None = None
    request_id: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    lora_path: Any = None
    data_parallel_rank: int | None = None
    routed_dp_rank: int | None = None

    @property
    def namespace(self) -> str:
        parts = (self.cache_salt, self.extra_key, self.lora_path)
        return "\n".join([str(part) for part in parts]) if any(parts) else ""

    @property
    def rank(self) -> int:
        return self.routed_dp_rank or self.data_parallel_rank or 0

    @property
    def id(self) -> str:
        rid = self.rid or self.request_id
        return (rid[0] if isinstance(rid, list) else rid) or ""


class Generation(Common, kw_only=True):
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    seed: int | None = None

    @property
    def usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class Message(msgspec.Struct):
    role: str = "user"
    content: Any = None
    tool_calls: msgspec.Raw = msgspec.Raw()


class ChatBody(Generation, kw_only=True):
    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: msgspec.Raw = msgspec.Raw()
    tool_choice: Any = None
    response_format: Any = None


class CompletionBody(Generation, kw_only=True):
    prompt: str | list[Any]
    logprobs: int | None = None


class SamplingParams(msgspec.Struct):
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    stop: str | list[str] | None = None
    ignore_eos: bool = False
    n: int = 1
    sampling_seed: int | None = None


class GenerateBody(Common, kw_only=True):
    text: str | list[str] | None = None
    input_ids: list[Any] | None = None
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool = False
    return_logprob: bool | list[bool] | None = False
    top_logprobs_num: int | list[int] | None = 0


class EmbeddingBody(Common, kw_only=True):
    input: str | list[Any]
    dimensions: int | None = None
    encoding_format: str | None = None


class DecisionsQuestion(msgspec.Struct):
    type: Literal["predicate", "choice", "score"]
    instructions: str
    name: str | None = None
    choices: list[dict[str, Any]] = []
    levels: list[dict[str, Any]] = []


class DecisionsBody(Common, kw_only=True):
    input: str | list[Message]
    questions: list[DecisionsQuestion]


class SystemOneQuestion(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["noul", "choice", "score"]
    instructions: str
    criteria: dict[str, Any] | list[Any] | None = None


class SystemOneBody(Common, kw_only=True):
    state: str | list[Message]
    questions: dict[str, SystemOneQuestion]


class RerankBody(Common, kw_only=True):
    query: str
    documents: list[str]
    top_n: int | None = None
    top_k: int | None = None
    return_documents: bool | None = True
