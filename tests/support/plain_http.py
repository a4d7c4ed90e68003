"""Single requests without a loop, for tests that drive processes."""

import json
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import urlsplit

from support.bodies import encoded

_TIMEOUT_SECS = 20.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


def ask(method, url, body=None, headers=None):
    """One request and its whole answer. Raises OSError when nobody listens."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECS)) as connection:
        data = None if body is None else encoded(body)
        named = {"content-type": "application/json"} if body is not None else {}
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, data, {**named, **(headers or {})})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())


def get(url, headers=None):
    return ask("GET", url, None, headers)


def post(url, body, headers=None):
    return ask("POST", url, body, headers)
