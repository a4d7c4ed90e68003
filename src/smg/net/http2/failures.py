"""How an HTTP/2 exchange fails beyond the ways of HTTP/1.1. Free of h2: whoever catches these need not load it."""

from __future__ import annotations

from smg.errors import UpstreamError
from smg.net.http1.client import LostBeforeAnswer


class NotHttp2(UpstreamError):  # noqa: N818  reads as what happened
    """The worker does not speak HTTP/2. Nothing of the request has been sent."""

    def __init__(self, reason: str) -> None:
        super().__init__("call_upstream_request_error", f"the worker does not speak HTTP/2: {reason}")


class NeverSent(LostBeforeAnswer):
    """The connection went before anything of the request was sent, its body included."""
