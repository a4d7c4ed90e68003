"""The inference routes that forward a JSON request to a worker's route of the same path: one row each."""

from __future__ import annotations

from smg.net.exchange import Exchange
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    CountTokensRequest,
    EmbeddingRequest,
    GenerateRequest,
    InteractionRequest,
    MessagesRequest,
    RerankRequest,
    ResponsesRequest,
)
from smg.serving.call import Endpoint
from smg.serving.dispatch import Dispatcher
from smg.serving.parse import Parser

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("chat", "/v1/chat/completions", ChatRequest, "chatcmpl-", may_stream_body=True),
    Endpoint("completions", "/v1/completions", CompletionRequest, "cmpl-", may_stream_body=True),
    Endpoint("generate", "/generate", GenerateRequest, "gnt-", may_stream_body=True),
    Endpoint("embeddings", "/v1/embeddings", EmbeddingRequest, may_stream_body=True, splits=False),
    Endpoint("classify", "/v1/classify", ClassifyRequest, may_stream_body=True, splits=False),
    Endpoint("rerank", "/v1/rerank", RerankRequest),
    Endpoint("rerank", "/rerank", RerankRequest),
)

# Not every worker speaks these; who does not is in `engines/providers.py`, by the names here.
RESPONSES = Endpoint(
    "responses", "/v1/responses", ResponsesRequest, "resp-", credentials="own", output_limit="max_output_tokens"
)
MESSAGES = Endpoint("messages", "/v1/messages", MessagesRequest, "msg_", credentials="as sent", errors="anthropic")
COUNT_TOKENS = Endpoint(
    "count_tokens", "/v1/messages/count_tokens", CountTokensRequest, credentials="as sent", errors="anthropic"
)
INTERACTIONS = Endpoint("interactions", "/v1/interactions", InteractionRequest, splits=False, credentials="own")
SPOKEN_BY_SOME: tuple[Endpoint, ...] = (RESPONSES, MESSAGES, COUNT_TOKENS, INTERACTIONS)


class ForwardedEndpoint:
    """Serves one row: parse, then dispatch."""

    def __init__(self, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher) -> None:
        self._endpoint = endpoint
        self._parser = parser
        self._dispatcher = dispatcher

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer."""
        await self._dispatcher.run(exchange, await self._parser.parse(exchange, self._endpoint))
