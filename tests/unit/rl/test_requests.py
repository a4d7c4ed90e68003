import json
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.rl.requests import Request, call_engine, fan_out, list_workers, show_worker

VALUES = st.one_of(st.integers(), st.text(st.characters(codec="utf-8")))


def target(request):
    parts = urlsplit(request.target)
    return parts.path, parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)


def test_discovery_asks_for_all_rows_or_for_one():
    assert list_workers() == Request("GET", "/v1/rl/workers")
    assert show_worker("a-1") == Request("GET", "/v1/rl/workers/a-1")


def test_a_worker_id_cannot_leave_its_segment():
    assert show_worker("a/b?c#d é").target == "/v1/rl/workers/a%2Fb%3Fc%23d%20%C3%A9"


def test_a_call_names_worker_and_path_and_has_no_query_of_its_own():
    assert call_engine("w", "flush_cache", None, "POST", None) == Request("POST", "/v1/rl/workers/w/engine/flush_cache")


@pytest.mark.parametrize("path", ["v1/loads", "/v1/loads", "//v1/loads"])
def test_leading_slashes_of_an_engine_path_do_not_count(path):
    assert fan_out(path, None, "GET", None, "a=b").target == "/v1/rl/engine/v1/loads?selector=a%3Db"


def test_an_engine_path_cannot_become_a_query_or_an_escape():
    assert call_engine("w", "a?b#c%2Fd e", None, "POST", None).target == "/v1/rl/workers/w/engine/a%3Fb%23c%252Fd%20e"


@pytest.mark.parametrize("body", [{}, [], 0, "", False, {"a": [1, "é", None, 0.5]}, "\ud800"])
def test_any_body_but_none_is_sent_as_json(body):
    request = call_engine("w", "op", body, "POST", None)
    assert json.loads(request.body) == body


def test_no_body_is_sent_for_none():
    assert call_engine("w", "op", None, "POST", None).body is None


@pytest.mark.parametrize(
    ("body", "error"), [({"a": float("nan")}, ValueError), (b"{}", TypeError), ({1, 2}, TypeError)]
)
def test_what_json_does_not_have_is_refused(body, error):
    with pytest.raises(error):
        call_engine("w", "op", body, "POST", None)


# --- the query


@given(st.dictionaries(st.text(st.characters(codec="utf-8")).filter(lambda name: name != "selector"), VALUES))
def test_params_come_back_as_they_were_given(params):
    request = call_engine("w", "op", None, "POST", params)
    assert target(request)[1] == [(name, str(value)) for name, value in params.items()] if params else True


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_selector_comes_back_as_it_was_given(selector):
    assert target(fan_out("op", None, "POST", None, selector))[1] == [("selector", selector)]


def test_the_selector_comes_last():
    request = fan_out("op", None, "POST", {"level": 2, "tag": "a b&c"}, 'note="é, +"')
    assert request.target == "/v1/rl/engine/op?level=2&tag=a%20b%26c&selector=note%3D%22%C3%A9%2C%20%2B%22"


def test_values_are_spelled_as_engines_read_them():
    params = {"yes": True, "no": False, "rate": 0.5, "raw": b"\xff", "many": [1, "b"], "none": []}
    assert call_engine("w", "op", None, "GET", params).target.partition("?")[2] == (
        "yes=true&no=false&rate=0.5&raw=%FF&many=1&many=b"
    )


def test_pairs_keep_their_order_and_may_repeat():
    assert call_engine("w", "op", None, "GET", [("b", 1), ("a", 2), ("b", 3)]).target.endswith("?b=1&a=2&b=3")


@pytest.mark.parametrize(("params", "error"), [({"selector": "a=b"}, ValueError), ({"a": None}, TypeError)])
def test_params_that_would_mean_something_else_are_refused(params, error):
    with pytest.raises(error):
        call_engine("w", "op", None, "GET", params)
    with pytest.raises(error):
        fan_out("op", None, "GET", params, "a=b")


@pytest.mark.parametrize("method", ["", "GET /x", "GET\r\nX: y"])
def test_a_method_is_a_word(method):
    with pytest.raises(ValueError, match="method"):
        call_engine("w", "op", None, method, None)
