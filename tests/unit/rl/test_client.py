"""The public face of both twins: names, signatures, checks of arguments, and the fields of their requests."""

import inspect
import math
import pickle

import pytest

import smg.rl
import smg.rl.aio
from smg.rl import RL, FanoutFailure, FanoutResult, aio, paused
from smg.rl.requests import Request

clients = pytest.mark.parametrize("client", [RL, aio.RL], ids=["blocking", "asyncio"])

SIGNATURES = {
    "__init__": [("base_url", ...), ("api_key", None), ("timeout", 600.0)],
    "workers": [],
    "worker": [("worker_id", ...)],
    "call": [
        *[("worker_id", ...), ("path", ...), ("body", None)],
        *[("*", "method", "POST"), ("*", "params", None), ("*", "timeout", None)],
    ],
    "fanout": [
        *[("path", ...), ("body", None), ("*", "selector", ...), ("*", "method", "POST"), ("*", "params", None)],
        *[("*", "timeout", None), ("*", "allow_partial", False)],
    ],
}


def arguments(function):
    """Names and defaults; keyword-only ones begin with a star."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        star = ["*"] if parameter.kind is inspect.Parameter.KEYWORD_ONLY else []
        found.append((*star, parameter.name, ... if parameter.default is parameter.empty else parameter.default))
    return [item for item in found if item != ("self", ...)]


def test_both_modules_offer_the_same_names():
    names = {"RL", "Worker", "CallResult", "FanoutResult", "FanoutFailure", "RlError", "FanoutError", "paused"}
    assert set(smg.rl.__all__) == set(smg.rl.aio.__all__) == names
    for name in names - {"RL", "paused"}:
        assert getattr(smg.rl, name) is getattr(smg.rl.aio, name)


@clients
@pytest.mark.parametrize("method", SIGNATURES)
def test_methods_take_what_the_contract_says(client, method):
    assert arguments(getattr(client, method)) == SIGNATURES[method]


@pytest.mark.parametrize("function", [paused, aio.paused])
def test_paused_takes_what_the_contract_says(function):
    assert arguments(function) == [("rl", ...), ("selector", ...), ("*", "mode", None), ("*", "timeout", None)]


def test_failures_and_reports_have_the_fields_of_the_contract():
    assert list(FanoutFailure.__dataclass_fields__) == ["worker_id", "url", "status", "error", "message"]
    assert list(FanoutResult.__dataclass_fields__) == ["results", "failed", "total", "succeeded"]


# --- arguments


@clients
@pytest.mark.parametrize("timeout", [0, 0.0, -1, math.nan, -math.inf])
def test_a_timeout_that_is_not_positive_is_refused(client, timeout):
    with pytest.raises(ValueError, match="timeout"):
        client("http://gateway", timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
async def test_so_is_that_of_one_call(timeout):  # noqa: ASYNC109  a value to be refused
    for call in (RL("http://127.0.0.1:9").call, RL("http://127.0.0.1:9").fanout):
        with pytest.raises(ValueError, match="timeout"):
            call("w", "op", timeout=timeout, **({"selector": "a=b"} if call.__name__ == "fanout" else {}))
    with pytest.raises(ValueError, match="timeout"):
        await aio.RL("http://127.0.0.1:9").call("w", "op", timeout=timeout)


@clients
def test_arguments_can_be_looked_at(client):
    rl = client("http://gateway/prefix/")
    assert (rl.base_url, rl.timeout) == ("http://gateway/prefix", 600.0)
    assert client("http://gateway", None, 5).timeout == 5


@clients
def test_the_key_is_not_shown(client):
    rl = client("http://gateway", api_key="secret")
    assert repr(rl) == "RL('http://gateway', timeout=600.0)"


@clients
@pytest.mark.parametrize("key", ["key\n", "a\r\nX: y", "\0"])
def test_a_key_that_would_break_its_header_is_refused_without_being_repeated(client, key):
    with pytest.raises(ValueError, match="api_key") as refusal:
        client("http://gateway", api_key=key)
    assert key not in str(refusal.value)


@clients
def test_clients_survive_pickling(client):
    rl = pickle.loads(pickle.dumps(client("http://gateway", "key", 5)))
    assert rl._rendered(Request("GET", "/x")) == client("http://gateway", "key", 5)._rendered(Request("GET", "/x"))


# --- requests


def fields(client, request, **options):
    head, _, body = client("http://gateway:8/prefix/", **options)._rendered(request).partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    return line, dict(field.split(": ", 1) for field in rest), body


@clients
def test_a_request_says_what_it_wants_and_leaves_the_connection(client):
    line, found, body = fields(client, Request("GET", "/v1/rl/workers"))
    assert line == "GET /prefix/v1/rl/workers HTTP/1.1"
    assert found == {
        "Host": "gateway:8",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"smg-rl/{smg.__version__}",
        "Connection": "close",
    }
    assert body == b""


@clients
def test_a_key_is_a_bearer_token(client):
    assert fields(client, Request("GET", "/"), api_key="kéy")[1]["Authorization"] == "Bearer kéy"
    assert "Authorization" not in fields(client, Request("GET", "/"), api_key="")[1]


@clients
def test_a_body_has_its_type_and_none_has_none(client):
    _, found, body = fields(client, Request("POST", "/", b"{}"))
    assert (found["Content-Type"], found["Content-Length"], body) == ("application/json", "2", b"{}")
    _, found, body = fields(client, Request("POST", "/"))
    assert "Content-Type" not in found
    assert (found["Content-Length"], body) == ("0", b"")
