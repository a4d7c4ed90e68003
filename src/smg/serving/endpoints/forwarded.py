"""The inference routes that forward a JSON request to a worker's route of the same path: one row each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from smg.errors import GatewayError, PlacementError, UpstreamError
from smg.net.exchange import Exchange
from smg.net.routes import Route
from smg.protocol.requests import (
    ChatRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingRequest,
    GenerateRequest,
    RerankRequest,
)
from smg.serving.accounts import CallAccounts
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


class ForwardedEndpoint:
    """Serves one row: parse, dispatch, and the accounts of both."""

    def __init__(self, endpoint: Endpoint, parser: Parser, dispatcher: Dispatcher, accounts: CallAccounts) -> None:
        self._endpoint = endpoint
        self._parser = parser
        self._dispatcher = dispatcher
        self._accounts = accounts

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to the last byte of its answer."""
        call = await self._parser.parse(exchange, self._endpoint)
        duration = self._accounts.began(call)
        try:
            await self._dispatcher.run(exchange, call)
        except (PlacementError, UpstreamError):
            raise  # the dispatch loop has counted these
        except GatewayError as error:
            self._accounts.refused(call, error)
            raise
        finally:
            duration.observe(time.perf_counter() - exchange.started_at)


def routes(
    parser: Parser, dispatcher: Dispatcher, accounts: CallAccounts, endpoints: Sequence[Endpoint]
) -> list[Route]:
    """The routes of rows."""
    return [
        Route(
            "POST",
            endpoint.path,
            ForwardedEndpoint(endpoint, parser, dispatcher, accounts).serve,
            "serving",
            endpoint.id_prefix,
        )
        for endpoint in endpoints
    ]
