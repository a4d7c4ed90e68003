"""The shapes of the inference requests: their members with types, and which of them must be there.

The gateway forwards the body as it came, so a shape lists only what is type-checked, ruled (`rules.py`) or
read for placement; the decoder skips every other member. `None` means absent or an explicit null. `Raw`
members are slices of the body that are not looked into until somebody asks (`prompts.py`).

Types follow OpenAI's reference and, for the extensions, SGLang's; closed sets (roles, formats, modes) are
part of a shape, ranges are rules. Decoding is in `decoding.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from smg.protocol.messages import Message
from smg.protocol.model_member import ModelName

# No engine takes more than a machine word; without a bound a client could send integers of thousands of
# digits.
Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]

ABSENT = Raw()
"""The value of a `Raw` member that the body does not have."""


class AnyObject(Struct, gc=False):
    """An object whose members nobody here reads."""


class StreamOptions(Struct, omit_defaults=True, gc=False):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ToolFunction(Struct, gc=False):
    name: str


class ToolDeclaration(Struct, gc=False):
    """A tool the model may call. Types other than `function` are vendor dialects and may have no function."""

    type: str
    function: ToolFunction | None = None


class NamedChoice(Struct, tag_field="type", tag="function", gc=False):
    """`tool_choice` that forces one function."""

    function: ToolFunction


class AllowedTool(Struct, gc=False):
    """An entry of `allowed_tools`; its members are flat."""

    name: str
    type: str | None = None


class AllowedChoice(Struct, tag_field="type", tag="allowed_tools", gc=False):
    """`tool_choice` that narrows the declared tools down."""

    mode: Literal["auto", "required"]
    tools: list[AllowedTool]


ToolChoice = Literal["none", "auto", "required"] | NamedChoice | AllowedChoice


class JsonSchema(Struct, omit_defaults=True, gc=False):
    """What a `json_schema` format asks for. That the schema is an object is a rule."""

    name: str
    schema: Raw = ABSENT
    strict: bool | None = None


class TextFormat(Struct, tag_field="type", tag="text", gc=False):
    pass


class JsonObjectFormat(Struct, tag_field="type", tag="json_object", gc=False):
    pass


class JsonSchemaFormat(Struct, tag_field="type", tag="json_schema", gc=False):
    json_schema: JsonSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class Thinking(Struct, gc=False):
    """The thinking control shared by the Kimi, MiniMax, z.ai and DeepSeek dialects."""

    type: Literal["enabled", "disabled", "adaptive"] | None = None
    effort: str | None = None
    keep: str | None = None
    clear_thinking: bool | None = None


class Request(Struct, gc=False, kw_only=True):
    """What every request may say about the prompt cache it belongs to. Engines differ on the types."""

    cache_salt: Raw = ABSENT
    extra_key: Raw = ABSENT
    lora_id: Raw = ABSENT


class RealtimeSessionRequest(Request, gc=False, kw_only=True):
    """POST /v1/realtime/sessions and /v1/realtime/transcription_sessions."""

    type: str
    model: ModelName


class ClientSecretRequest(Request, gc=False, kw_only=True):
    """POST /v1/realtime/client_secrets."""

    session: RealtimeSessionRequest


class CallSession(Request, gc=False, kw_only=True):
    """The field `session` in a form of POST /v1/realtime/calls."""

    model: ModelName | None = None


# Members stand in the order in which clients usually send them: the decoder looks for the next name behind
# the last.
class ChatRequest(Request, gc=False, kw_only=True):
    """POST /v1/chat/completions."""

    model: ModelName
    messages: list[Message]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: Int | None = None
    max_tokens: Int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: Int | None = None
    logit_bias: AnyObject | None = None
    tools: list[ToolDeclaration] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    tool_stream: Raw = ABSENT
    response_format: ResponseFormat | None = None
    reasoning_effort: str | int | float | None = None
    thinking: Thinking | None = None
    user: str | None = None
    top_k: Int | None = None
    min_p: float | None = None
    min_tokens: Count | None = None
    repetition_penalty: float | None = None
    regex: str | None = None
    ebnf: str | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    skip_special_tokens: bool | None = None
    continue_final_message: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    chat_template_kwargs: AnyObject | None = None
    lora_path: str | None = None
    sampling_seed: int | None = None
    return_hidden_states: bool | None = None
    rid: str | None = None

    @property
    def token_limit(self) -> int | None:
        """Upper bound on completion tokens: `max_completion_tokens`, else its deprecated spelling."""
        limit = self.max_completion_tokens
        return self.max_tokens if limit is None else limit


class CompletionRequest(Request, gc=False, kw_only=True):
    """POST /v1/completions."""

    model: ModelName
    prompt: str | list[str]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: Int | None = None
    best_of: Int | None = None
    stop: str | list[str] | None = None
    logprobs: Int | None = None
    echo: bool | None = None
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: AnyObject | None = None
    seed: int | None = None
    user: str | None = None
    top_k: Int | None = None
    min_p: float | None = None
    min_tokens: Count | None = None
    repetition_penalty: float | None = None
    regex: str | None = None
    ebnf: str | None = None
    json_schema: str | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    skip_special_tokens: bool | None = None
    lora_path: str | None = None
    sampling_seed: int | None = None
    return_hidden_states: bool | None = None
    rid: str | None = None

    @property
    def token_limit(self) -> int | None:
        """Upper bound on completion tokens."""
        return self.max_tokens


class GenerateRequest(Request, gc=False, kw_only=True):
    """POST /generate, SGLang's native route. Only its envelope is checked; the engine knows the rest."""

    model: ModelName | None = None
    text: str | list[str] | None = None
    input_ids: Raw = ABSENT
    stream: bool | None = None
    rid: str | list[str] | None = None
    lora_path: Raw = ABSENT


class EmbeddingRequest(Request, gc=False, kw_only=True):
    """POST /v1/embeddings. `input` is a text, several, or token ids: the engine's affair."""

    model: ModelName
    input: Raw
    rid: str | list[str] | None = None
    lora_path: Raw = ABSENT


class ClassifyRequest(Request, gc=False, kw_only=True):
    """POST /v1/classify."""

    model: ModelName
    input: Raw
    rid: str | list[str] | None = None
    lora_path: Raw = ABSENT


class ResponsesRequest(Request, gc=False, kw_only=True):
    """POST /v1/responses. Without a model the worker has one of its own."""

    model: ModelName | None = None
    input: Raw
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Count | None = None
    rid: str | None = None


class Utterance(Struct, gc=False):
    """A message of Anthropic's API: a text, or blocks of content."""

    role: str
    content: Raw


class CountTokensRequest(Request, gc=False, kw_only=True):
    """POST /v1/messages/count_tokens."""

    model: ModelName
    messages: list[Utterance]
    system: Raw = ABSENT


class MessagesRequest(CountTokensRequest, gc=False, kw_only=True):
    """POST /v1/messages."""

    max_tokens: Count
    stream: bool | None = None
    rid: str | None = None


class InteractionRequest(Request, gc=False, kw_only=True):
    """POST /v1/interactions: a turn of a model, or of an agent."""

    model: ModelName | None = None
    agent: str | None = None
    input: Raw
    stream: bool | None = None


class RerankRequest(Request, gc=False, kw_only=True):
    """POST /rerank and /v1/rerank. The documents are read because the answer may repeat them."""

    query: str
    documents: list[str | dict[str, Any]]
    model: ModelName | None = None
    top_k: Int | None = None
    top_n: Int | None = None
    return_documents: bool | None = None
    rid: str | list[str] | None = None
    lora_path: Raw = ABSENT
