"""Which headers cross the gateway, and which belong to one hop or to the gateway. Names are in lower case.

To a worker go only the listed client headers: a list of what may pass cannot forget a secret. From a worker
everything passes but what belongs to its connection and what the gateway says itself.
"""

from __future__ import annotations

FORWARDED_REQUEST_HEADERS = frozenset(
    {
        b"authorization",
        b"anthropic-version",
        b"anthropic-beta",
        b"x-request-id",
        b"x-correlation-id",
        b"traceparent",
        b"tracestate",
        b"x-smg-routing-key",
    }
)
FORWARDED_REQUEST_PREFIX = b"x-request-id-"

# RFC 9110 section 7.6.1, and two that older software still sends.
HOP_BY_HOP_HEADERS = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
    }
)

# A worker that sends one of these would speak for the gateway, whose own settings say which web pages may call it.
GATEWAY_OWNED_RESPONSE_HEADERS = frozenset(
    {
        b"x-request-id",
        b"x-smg-error-code",
        b"x-smg-preempted",
        b"x-smg-routed-worker-id",
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"access-control-allow-private-network",
        b"access-control-expose-headers",
        b"access-control-max-age",
    }
)

DROPPED_RESPONSE_HEADERS = HOP_BY_HOP_HEADERS | GATEWAY_OWNED_RESPONSE_HEADERS | {b"host"}
"""Every response header of a worker that never reaches the client."""


def forwarded(name: bytes) -> bool:
    """Whether a client's header goes to an HTTP worker. `name` is in lower case."""
    return name in FORWARDED_REQUEST_HEADERS or name.startswith(FORWARDED_REQUEST_PREFIX)


def connection_nominated(value: bytes) -> frozenset[bytes]:
    """The header names, in lower case, that a `Connection` value declares to belong to its hop only."""
    return frozenset(name for item in value.lower().split(b",") if (name := item.strip(b" \t")))


def is_json(content_type: bytes | None) -> bool:
    """Whether a `Content-Type` announces JSON; its parameters and its case do not matter."""
    if content_type == b"application/json":
        return True
    if not content_type:
        return False
    return content_type.partition(b";")[0].strip(b" \t").lower() == b"application/json"
