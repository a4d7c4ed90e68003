"""The table of the serving routes: what each takes, and what it answers besides what its worker says."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from smg.protocol.decisions import DecisionsRequest
from smg.protocol.decisions_limits import MAX_IMAGES
from smg.protocol.openapi.document import AnthropicError
from smg.protocol.openapi.operation import (
    ANY_TEXT,
    ANYTHING,
    EVENTS,
    FORM,
    JSON,
    TEXT,
    Answer,
    Body,
    Content,
    Operation,
    Parameter,
)
from smg.protocol.openapi.shapes import Schema
from smg.protocol.realtime import SDP, SDP_TYPE, SESSION
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    ClientSecretRequest,
    CompletionRequest,
    CountTokensRequest,
    EmbeddingRequest,
    GenerateRequest,
    InteractionRequest,
    MessagesRequest,
    RealtimeSessionRequest,
    Request,
    RerankRequest,
    ResponsesRequest,
)
from smg.protocol.rules import NOT_BLANK
from smg.protocol.transcriptions import FILE, GRANULARITIES
from smg.protocol.websocket import VERSION as WEBSOCKET_VERSION


class RefusalDetail(msgspec.Struct):
    message: str
    type: Literal["invalid_request_error"]
    code: Literal["json_parse_error"] | int


class Refused(msgspec.Struct):
    """A body that is not the request of its route, or that breaks a rule. There is no code header."""

    error: RefusalDetail


WORKERS_OWN: Final[Schema] = {"title": "The worker's"}

_EVENTS: Final[Schema] = {"title": "Events", "description": "Each has a JSON object in `data`, but for the last."}
_NAMED_EVENTS: Final[Schema] = {"title": "Events", "description": "Each has a name, and a JSON object in `data`."}

_RELAYED: Final[Content] = {JSON: WORKERS_OWN, ANYTHING: WORKERS_OWN}
_ROUTED: Final = {"X-SMG-Routed-Worker-Id": "The registered URL of the worker that answered."}
_DEFAULT: Final = Answer("default", "What the worker answers is relayed, whatever its status.", {}, _ROUTED)
_ANSWERED: Final = Answer(200, "The worker's answer.", {JSON: WORKERS_OWN}, _ROUTED)
_STREAMED: Final = Answer(
    200,
    "With `stream: true` it is an event stream that ends with `data: [DONE]`; one that breaks has an error first.",
    {EVENTS: _EVENTS},
)
_STREAMED_BY_NAME: Final = Answer(
    200,
    "With `stream: true` it is an event stream, as the API has it; one that breaks ends with an error.",
    {EVENTS: _NAMED_EVENTS},
)
_REFUSED: Final = Answer(400, "The body is not the request of this route, or breaks a rule.", {JSON: Refused})
# In the words of Anthropic's API they have the shape of all its errors.
_REFUSED_PLAINLY: Final = Answer(400, _REFUSED.description, {JSON: AnthropicError})
_REFUSED_IN_TEXT: Final = Answer(400, "The request is not what this route takes.", {TEXT: ANY_TEXT})

_SENT: Final = (
    "call_upstream_connection_failed",
    "call_upstream_request_error",
    "call_upstream_timeout",
    "read_response_body_failed",
    "upstream_response_too_large",
)
_PLACED: Final = ("model_not_found", "no_available_workers", "worker_overload_protection_shed", *_SENT)
_PAIRED: Final = (
    "no_compatible_pd_pair",
    "prefill_request_failed",
    "prefill_bad_request",
    "prefill_internal_error",
    "prefill_unavailable",
    "prefill_upstream_error",
    "decode_request_failed",
)
_SPOKEN: Final = (
    "model_not_found",
    "service_unavailable",
    "worker_overload_protection_shed",
    "realtime_request_failed",
    "call_upstream_timeout",
    "read_response_body_failed",
    "upstream_response_too_large",
)
_OFFERED: Final = (
    "missing_model",
    "invalid_content_type",
    "invalid_multipart",
    "malformed_multipart",
    "missing_sdp",
    "invalid_sdp",
    "invalid_session_json",
)

_HINTS: Final = (
    Parameter("X-Request-ID", "header", "The request's id, if it has 1 to 128 visible characters."),
    Parameter(
        "X-SMG-Routing-Key", "header", "Requests with one key go to one worker, as far as the policy reads keys."
    ),
    Parameter(
        "X-SMG-Routing-Tokens",
        "header",
        "The first token ids of the prompt, decimal, with commas between them. What is malformed counts as absent.",
    ),
    Parameter(
        "X-SMG-Target-Worker",
        "header",
        "Which of the model's workers to take, counted from 0; read by the policy `consistent_hashing` alone.",
    ),
    Parameter(
        "X-SMG-Priority",
        "header",
        "`system`, `interactive`, `default` or `bulk`, for the priority scheduler; anything else is `default`.",
    ),
    Parameter("X-SMG-Tenant-ID", "header", "The tenant, as a trusted proxy names it; see `--trust-tenant-header`."),
    Parameter("traceparent", "header", "The caller's trace, handed on to the worker."),
    Parameter("tracestate", "header", "The caller's trace, handed on to the worker."),
)


_CALLERS_KEY: Final = "A caller's own key, for an external provider whose API takes it here."
_OWN_KEY: Final = Parameter("x-api-key", "header", _CALLERS_KEY)
_OWN_GOOGLE_KEY: Final = Parameter("x-goog-api-key", "header", _CALLERS_KEY)
_OF_ANTHROPIC: Final = (
    _OWN_KEY,
    Parameter("anthropic-version", "header", "The version of the API, handed on to the worker."),
    Parameter("anthropic-beta", "header", "Features to try, handed on to the worker."),
)
_UNREAD: Final = (
    "A body that is large, or any where nothing is tried again, may pass through unread; then the worker alone "
    "judges it."
)


def _json(
    name: str,
    summary: str,
    kind: type[Request],
    codes: tuple[str, ...],
    *,
    streams: bool = False,
    says: str = "",
    tag: str = "Inference",
) -> Operation:
    """A route that takes JSON and hands it on."""
    answers = (_ANSWERED, *((_STREAMED,) if streams else ()), _REFUSED, _DEFAULT)
    return Operation(name, summary, tag, answers, codes, _HINTS, Body({JSON: kind}), says, relayed=_RELAYED)


def _spoken_by_some(
    name: str,
    summary: str,
    kind: type[Request],
    codes: tuple[str, ...],
    parameters: tuple[Parameter, ...],
    refused: Answer = _REFUSED,
    streamed: tuple[Answer, ...] = (_STREAMED_BY_NAME,),
) -> Operation:
    """A route of an API that not every worker has."""
    answers = (_ANSWERED, *streamed, refused, _DEFAULT)
    body = Body({JSON: kind})
    says = "Members that are not listed here reach the worker as they are."
    return Operation(name, summary, "Inference", answers, codes, (*parameters, *_HINTS), body, says, relayed=_RELAYED)


# --- forms

# A name stands in a header of its part, where a backslash escapes.
_NAMES: Final[Schema] = {"pattern": r"^[^\x00-\x1f\x7f\\]*$"}
_TRANSCRIPTION: Final[Schema] = {
    "type": "object",
    "required": [FILE, "model"],
    "additionalProperties": True,
    "propertyNames": _NAMES,
    "properties": {
        FILE: {"type": "string", "contentMediaType": "application/octet-stream", "minLength": 1},
        "model": {"type": "string", "pattern": NOT_BLANK},
        "language": {"type": "string"},
        "prompt": {"type": "string"},
        "response_format": {"type": "string"},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
        GRANULARITIES: {"type": "array", "items": {"type": "string"}},
        "stream": {"type": "string", "enum": ["true", "false", "1", "0"]},
    },
}
_SDP_TEXT: Final[Schema] = {"type": "string", "pattern": "^v=0\r?\n"}


_CALL: Final[Schema] = {
    "type": "object",
    "required": [SDP, SESSION],
    "additionalProperties": True,
    "propertyNames": _NAMES,
    "properties": {
        SDP: _SDP_TEXT,
        SESSION: {
            "type": "object",
            "required": ["model"],
            "additionalProperties": True,
            "properties": {"model": {"type": "string", "minLength": 1}},
        },
    },
}


# --- realtime

_REALTIME: Final = "Realtime"
_NO_CREDENTIAL: Final = Answer(
    401,
    "Neither the caller nor the worker has a credential.",
    {TEXT: ANY_TEXT},
    {"WWW-Authenticate": "The scheme and the realm of the credential that is missing."},
)
_MODEL: Final = "The model of the session, or an alias of one."
_HANDSHAKE: Final = (
    Parameter("model", "query", _MODEL, {"type": "string", "minLength": 1}, required=True),
    Parameter("Upgrade", "header", "`websocket`.", {"type": "string", "const": "websocket"}, required=True),
    Parameter(
        "Connection", "header", "Names the header `Upgrade`.", {"type": "string", "const": "Upgrade"}, required=True
    ),
    Parameter(
        "Sec-WebSocket-Version",
        "header",
        "The version of WebSocket.",
        {"type": "string", "const": WEBSOCKET_VERSION.decode()},
        required=True,
    ),
    Parameter(
        "Sec-WebSocket-Key",
        "header",
        "16 random bytes in base64.",
        {"type": "string", "pattern": "^[A-Za-z0-9+/]{21}[AQgw]==$"},
        required=True,
    ),
    Parameter("Sec-WebSocket-Protocol", "header", "The subprotocols that the client speaks."),
    Parameter("Sec-WebSocket-Extensions", "header", "The extensions that the client offers."),
)
_SWITCHED: Final = Answer(
    101,
    "The connection goes on as the WebSocket that the worker agreed to.",
    {},
    {
        "Upgrade": "`websocket`.",
        "Connection": "`Upgrade`.",
        "Sec-WebSocket-Accept": "The answer to the key.",
        "Sec-WebSocket-Protocol": "The subprotocol that the worker chose, if it chose one.",
        "Sec-WebSocket-Extensions": "The extensions that the worker chose, if it chose any.",
    },
)
_NO_UPGRADE: Final = Answer(
    426,
    "The request opens no WebSocket, or one of another version than 13.",
    {TEXT: ANY_TEXT},
    {"Upgrade": "`websocket`.", "Sec-WebSocket-Version": "The version that is spoken here."},
)
_CREATES: Final = "A session is created once: there is one attempt."


def _creating(name: str, summary: str, kind: type[Request]) -> Operation:
    answers = (_ANSWERED, _REFUSED, _NO_CREDENTIAL, _DEFAULT)
    return Operation(name, summary, _REALTIME, answers, _SPOKEN, _HINTS, Body({JSON: kind}), _CREATES, relayed=_RELAYED)


OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("POST", "/v1/chat/completions"): _json(
        "createChatCompletion",
        "Answer a conversation",
        ChatRequest,
        (*_PLACED, *_PAIRED),
        streams=True,
        says="The contract of the model's family applies besides: further refusals, defaults and rewrites. Members and "
        f"content parts that the gateway does not know reach the worker as they are. {_UNREAD}",
    ),
    ("POST", "/v1/completions"): _json(
        "createCompletion",
        "Complete a text",
        CompletionRequest,
        (*_PLACED, *_PAIRED),
        streams=True,
        says=_UNREAD,
    ),
    ("POST", "/generate"): _json(
        "generate",
        "Generate by SGLang's own route",
        GenerateRequest,
        (*_PLACED, *_PAIRED),
        streams=True,
        says=f"The worker knows the members that are not listed here. {_UNREAD}",
    ),
    ("POST", "/v1/responses"): _spoken_by_some(
        "createResponse",
        "Answer by OpenAI's Responses API",
        ResponsesRequest,
        (*_PLACED, *_PAIRED, "responses_not_supported"),
        (_OWN_KEY, _OWN_GOOGLE_KEY),
    ),
    ("POST", "/v1/messages"): _spoken_by_some(
        "createMessage",
        "Answer by Anthropic's Messages API",
        MessagesRequest,
        (*_PLACED, *_PAIRED, "messages_not_supported"),
        _OF_ANTHROPIC,
        _REFUSED_PLAINLY,
    ),
    ("POST", "/v1/messages/count_tokens"): _spoken_by_some(
        "countTokens",
        "Count the tokens of a prompt by Anthropic's Messages API",
        CountTokensRequest,
        (*_PLACED, "count_tokens_not_supported"),
        _OF_ANTHROPIC,
        _REFUSED_PLAINLY,
        (),
    ),
    ("POST", "/v1/interactions"): _spoken_by_some(
        "createInteraction",
        "Take a turn by Google's Interactions API",
        InteractionRequest,
        (*_PLACED, "interactions_not_supported"),
        (_OWN_KEY, _OWN_GOOGLE_KEY),
    ),
    ("POST", "/v1/embeddings"): _json(
        "createEmbedding",
        "Embed texts",
        EmbeddingRequest,
        (*_PLACED, "embeddings_not_supported"),
        says=_UNREAD,
    ),
    ("POST", "/v1/classify"): _json(
        "classify", "Classify texts", ClassifyRequest, (*_PLACED, "classify_not_supported"), says=_UNREAD
    ),
    ("POST", "/v1/rerank"): _json("rerank", "Rank documents by a query", RerankRequest, (*_PLACED, *_PAIRED)),
    ("POST", "/rerank"): _json("rerankUnversioned", "The same", RerankRequest, (*_PLACED, *_PAIRED)),
    ("POST", "/v1/decisions"): _json(
        "createDecision",
        "Answer questions about evidence with probabilities",
        DecisionsRequest,
        (*_PLACED, "unsupported_decisions_request", "decisions_not_supported", "invalid_decisions_response"),
        says=f"Images are inline and at most {MAX_IMAGES}. Members that are not listed here are extensions of a "
        "worker; one that cannot honour them refuses the request.",
    ),
    ("POST", "/v1/audio/transcriptions"): Operation(
        "createTranscription",
        "Transcribe a recording",
        "Inference",
        (
            _ANSWERED,
            Answer(200, "With `stream` it is an event stream.", {EVENTS: _EVENTS}),
            _REFUSED_IN_TEXT,
            _DEFAULT,
        ),
        (*_PLACED, "audio_transcriptions_not_supported", "dp_aware_not_supported"),
        _HINTS,
        Body(
            {FORM: _TRANSCRIPTION}, description="Parts of other names are skipped; of a name there is one part at most."
        ),
        relayed=_RELAYED,
    ),
    ("GET", "/v1/realtime"): Operation(
        "openRealtimeSession",
        "Speak with a realtime worker over a WebSocket",
        _REALTIME,
        (_SWITCHED, _NO_UPGRADE, _REFUSED_IN_TEXT, _NO_CREDENTIAL, _DEFAULT),
        _SPOKEN,
        (*_HANDSHAKE, *_HINTS),
        description="The worker is asked first: what it refuses is the answer. Frames pass as they are, both ways.",
        relayed=_RELAYED,
    ),
    ("POST", "/v1/realtime/calls"): Operation(
        "createRealtimeCall",
        "Offer a WebRTC call to a realtime worker",
        _REALTIME,
        (_ANSWERED, _NO_CREDENTIAL, _DEFAULT),
        (*_SPOKEN, *_OFFERED),
        (Parameter("model", "query", f"{_MODEL} Needed with `application/sdp`."), *_HINTS),
        Body({SDP_TYPE.decode(): _SDP_TEXT, FORM: _CALL}),
        "Only the offer and the answer pass through the gateway; media do not.",
        relayed=_RELAYED,
    ),
    ("POST", "/v1/realtime/sessions"): _creating(
        "createRealtimeSession", "Create a realtime session", RealtimeSessionRequest
    ),
    ("POST", "/v1/realtime/client_secrets"): _creating(
        "createRealtimeClientSecret", "Create a secret that opens one realtime session", ClientSecretRequest
    ),
    ("POST", "/v1/realtime/transcription_sessions"): _creating(
        "createRealtimeTranscriptionSession", "Create a session that transcribes", RealtimeSessionRequest
    ),
}
"""Descriptions by method and path."""
