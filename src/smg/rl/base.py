"""What both twins share: the arguments of a client, checked, and the requests they turn into bytes."""

from __future__ import annotations

import smg
from smg.rl.endpoint import parse_base_url
from smg.rl.http1 import render
from smg.rl.requests import Request

DEFAULT_TIMEOUT_SECS = 600.0
_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F


class ClientBase:
    """A client holds no connection and nothing that changes: threads and tasks may share it, and it can be pickled."""

    def __init__(self, base_url: str, api_key: str | None = None, timeout: float = DEFAULT_TIMEOUT_SECS) -> None:
        """Set up a client; nothing is sent yet.

        `base_url` is the gateway's, with or without a trailing slash or a path in front of its routes. `api_key` is
        sent as a bearer token. `timeout` bounds each request as a whole, in seconds, from connecting to the last byte:
        keep it longer than the slowest fan-out. Raises ValueError when one of them cannot be used.
        """
        self._endpoint = parse_base_url(base_url)
        self._api_key = _checked_key(api_key) if api_key else None
        self.base_url = base_url.rstrip("/")
        self.timeout = _checked_timeout(timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r}, timeout={self.timeout!r})"

    def _timeout_secs(self, timeout: float | None) -> float:
        """The bound of one request: its own, or the client's."""
        return self.timeout if timeout is None else _checked_timeout(timeout)

    def _rendered(self, request: Request) -> bytes:
        fields = [
            ("Host", self._endpoint.authority),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", f"smg-rl/{smg.__version__}"),
            ("Connection", "close"),
        ]
        if self._api_key is not None:
            fields.append(("Authorization", f"Bearer {self._api_key}"))
        if request.body is not None:
            fields.append(("Content-Type", "application/json"))
        return render(request.method, self._endpoint.prefix + request.target, fields, request.body)


def _checked_timeout(timeout: float) -> float:
    if timeout > 0:  # false for a NaN too
        return timeout
    raise ValueError("timeout must be greater than 0")


def _checked_key(api_key: str) -> str:
    """A key read from a file often ends in a newline, which would end the header."""
    if any(ord(letter) < _FIRST_PRINTABLE or ord(letter) == _DELETE for letter in api_key):
        raise ValueError("api_key must not hold control characters or line ends")
    return api_key
