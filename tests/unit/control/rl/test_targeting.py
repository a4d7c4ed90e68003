from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.control.rl.refusals import Refusal, RepeatedSelector
from smg.control.rl.targeting import engine_path, engine_query, selector_of, selector_text


def code(steps, text):
    with pytest.raises(Refusal) as refused:
        steps(text)
    return refused.value.code


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("flush_cache", "flush_cache"),
        ("/flush_cache", "flush_cache"),
        ("a/b/c/d", "a/b/c/d"),
        ("A-Z_0.9", "A-Z_0.9"),
        (".hidden", ".hidden"),
        ("...", "..."),
        ("a..b", "a..b"),
        ("a%2Fb", "a/b"),
        ("%2Fa", "a"),
        ("fl%75sh", "flush"),
    ],
)
def test_one_to_four_plain_segments_are_a_path(raw, path):
    assert engine_path(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "/",
        "//a",
        "/%2Fa",
        "a/",
        "a//b",
        "a/b/c/d/e",
        "a%2Fb/c/d/e",
        ".",
        "a/./b",
        "..",
        "../a",
        "%2e%2e/a",
        "a/%2E",
        "a;b",
        "a:b",
        "a~b",
        "a+b",
        "a b",
        "a%20b",
        "a%3Fb",
        "a%25b",
        "a%2525",
        "a%",
        "a%0d%0ab",
        "a%00",
        "caf%C3%A9",
        "a%ff",
        "a\n",
        "\u0661",
    ],
)
def test_anything_else_is_none_however_it_is_spelled(raw):
    assert code(engine_path, raw) == "invalid_engine_path"


@given(st.text("aZ0._-/%25eE+; é", max_size=12))
def test_a_path_that_passes_is_the_same_to_everybody(raw):
    try:
        path = engine_path(raw)
    except Refusal:
        return
    assert quote(path) == path == engine_path(path)
    assert 1 <= len(path.split("/")) <= 4
    assert not {"", ".", ".."} & set(path.split("/"))


@pytest.mark.parametrize(
    ("raw", "forwarded"),
    [
        ("", ""),
        ("a=1&b=2", "a=1&b=2"),
        ("selector=x", ""),
        ("selector", ""),
        ("%73elector=x", ""),
        ("z=1&selector=a%3Db&a=2", "z=1&a=2"),
        ("selector=1&keep=1&selector=2", "keep=1"),
        ("selectors=1&Selector=2&xselector=3&+selector=4", "selectors=1&Selector=2&xselector=3&+selector=4"),
        ("p=%2Fa&b=x+y&c=%c3%a9&d=a=b", "p=%2Fa&b=x+y&c=%c3%a9&d=a=b"),
        ("a=&b&=c", "a=&b&=c"),
        ("a&&selector=x&b&", "a&&b&"),
        ("a=selector", "a=selector"),
    ],
)
def test_the_engines_query_is_the_callers_without_selectors(raw, forwarded):
    assert engine_query(raw) == forwarded


@given(st.lists(st.sampled_from(["selector=x", "%53elector", "a=1", "selector", "b", "", "%a=é"]), max_size=6))
def test_what_is_left_of_a_query_keeps_its_order(pairs):
    left = engine_query("&".join(pairs))
    assert left == "&".join([pair for pair in pairs if pair not in {"selector=x", "selector"}])
    assert "selector" not in dict(parse_qsl(left, keep_blank_values=True))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("selector=engine%3Dsglang", "engine=sglang"),
        ("a=1&selector=engine=sglang&b=2", "engine=sglang"),
        ("selector=role+in+%28a%29", "role in (a)"),
        ("%73elector=a%20", "a "),
        ("selector=a%3D%ff", "a=\ufffd"),
    ],
)
def test_the_selector_is_read_as_forms_are(raw, text):
    assert selector_text(raw) == text


@pytest.mark.parametrize("raw", ["", "selector", "selector=", "selector=+%20%09", "Selector=a", "a=selector"])
def test_a_selector_is_required(raw):
    assert code(selector_text, raw) == "selector_required"


@pytest.mark.parametrize("raw", ["selector=a&selector=a", "selector&selector", "selector=a&%73elector=b"])
def test_one_of_several_selectors_is_not_guessed(raw):
    with pytest.raises(RepeatedSelector):
        selector_text(raw)


def test_a_malformed_selector_says_where():
    assert str(selector_of("a=b")) == "a=b"
    with pytest.raises(Refusal) as refused:
        selector_of("é=")
    assert (refused.value.code, refused.value.context) == ("invalid_selector", {"offset": 0})
