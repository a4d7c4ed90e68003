"""Pages of allowed origins may see answers and ask before they send; nobody else is told anything."""

import pytest

from smg.edge.cors import Cors

APP = b"https://app.example"
ORIGINS = ("https://app.example", "http://localhost:3000")
VARY = b"vary: origin\r\n"


class FakeExchange:
    def __init__(self, origin=None, method="POST", asks=None):
        self.method = method
        self.headers = {} if origin is None else {b"origin": origin}
        if asks is not None:
            self.headers[b"access-control-request-method"] = asks
        self.marks = b""
        self.status = None

    def answer(self, status, body=b"", content_type=b"application/json", headers=()):
        self.status = status
        self.sent = dict(headers)
        self.body = body


def marks(origins, origin):
    exchange = FakeExchange(origin)
    Cors(origins).mark(exchange)
    assert exchange.marks == b"" or exchange.marks.endswith(b"\r\n")
    return exchange.marks


def allowed(marked):
    """The origin that an answer is for."""
    lines = dict(line.split(b": ") for line in marked.split(b"\r\n") if line)
    return lines.get(b"access-control-allow-origin")


@pytest.mark.parametrize("origin", [APP, b"http://localhost:3000", b"HTTPS://App.Example"])
def test_an_allowed_origin_is_named_as_it_came(origin):
    found = marks(ORIGINS, origin)
    assert allowed(found) == origin
    assert found.count(VARY) == 1
    assert b"x-smg-error-code" in found


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"",
        b"null",
        b"*",
        b"https://app.example.evil.example",
        b"https://evil-app.example",
        b"http://app.example",
        b"https://app.example:8443",
        b"https://app.example/",
        b"https://app.example ",
        b"https://app.example, https://app.example",
        b"http://localhost",
        b"\xff",
    ],
)
def test_any_other_origin_only_varies_the_answer(origin):
    assert marks(ORIGINS, origin) == VARY


@pytest.mark.parametrize("origins", [("*",), ("*", *ORIGINS)])
def test_any_origin_is_a_star_and_varies_nothing(origins):
    for origin in (APP, b"null", b"http://evil.example"):
        found = marks(origins, origin)
        assert allowed(found) == b"*"
        assert VARY not in found
    assert marks(origins, None) == b""


@pytest.mark.parametrize("origins", [ORIGINS, ("*",)])
def test_cookies_are_never_asked_for(origins):
    cors = Cors(origins)
    exchange = FakeExchange(APP, "OPTIONS", b"POST")
    cors.mark(exchange)
    assert cors.preflight(exchange)
    assert b"credentials" not in exchange.marks
    assert not [name for name in exchange.sent if b"credentials" in name]


@pytest.mark.parametrize(("origins", "origin"), [(ORIGINS, APP), (("*",), b"http://anywhere.example")])
def test_a_browser_that_asks_for_an_allowed_page_is_told_what_it_may_send(origins, origin):
    exchange = FakeExchange(origin, "OPTIONS", b"POST")
    assert Cors(origins).preflight(exchange)
    assert (exchange.status, exchange.body) == (204, b"")
    assert b"authorization" in exchange.sent[b"access-control-allow-headers"].split(b", ")
    assert b"POST" in exchange.sent[b"access-control-allow-methods"].split(b", ")
    assert exchange.sent[b"access-control-max-age"] == b"3600"
    assert b"access-control-allow-origin" not in exchange.sent  # that is among the marks


@pytest.mark.parametrize(
    "exchange",
    [
        FakeExchange(b"https://evil.example", "OPTIONS", b"POST"),
        FakeExchange(None, "OPTIONS", b"POST"),
        FakeExchange(APP, "OPTIONS"),
        FakeExchange(APP, "GET", b"POST"),
    ],
    ids=["another origin", "no origin", "no method", "no question"],
)
def test_what_is_no_such_question_is_left_to_others(exchange):
    assert not Cors(ORIGINS).preflight(exchange)
    assert exchange.status is None
