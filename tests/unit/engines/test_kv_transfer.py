import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from smg.engines.kv_transfer import PASSTHROUGH, PrefillEngine, connector_of, prefill_edits, returned_params
from smg.protocol.body import edit, members

ENGINE = PrefillEngine("10.0.0.1", 9001, "engine")


def copy(original, tag=None):
    """The prefill engine's copy of a request."""
    body = json.dumps(original).encode()
    return json.loads(edit(body, prefill_edits(members(body), tag)))


# --- the prefill engine's copy


def test_the_copy_asks_for_one_token_at_once():
    original = {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "min_tokens": 3,
        "n": 1,
        "vendor": {"a": 1},
    }
    assert copy(original) == {"model": "m", "stream": False, "max_tokens": 1, "n": 1, "vendor": {"a": 1}}


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_output_tokens", "max_tokens"])
def test_the_limit_stands_where_the_request_has_it(name):
    assert copy({name: 50}) == {name: 1, "stream": False}
    assert copy({name: None}) == {name: 1, "stream": False}


@pytest.mark.parametrize("n", [None, 1, 3])
def test_the_copy_has_one_choice(n):
    assert copy({"n": n}) == {"n": 1, "stream": False, "max_tokens": 1}


def test_a_request_without_a_limit_gets_one():
    assert copy({}) == {"max_tokens": 1, "stream": False}


def test_every_limit_that_is_there_is_lowered():
    assert copy({"max_tokens": 9, "max_completion_tokens": 8}) == {
        "max_tokens": 1,
        "max_completion_tokens": 1,
        "stream": False,
    }


def test_a_tag_replaces_what_the_caller_said_of_transfers():
    assert copy({"kv_transfer_params": {"x": 1}}, {"y": 2})["kv_transfer_params"] == {"y": 2}
    assert copy({"kv_transfer_params": {"x": 1}})["kv_transfer_params"] == {"x": 1}


limits = st.sampled_from(["max_completion_tokens", "max_output_tokens", "max_tokens"])
finite = st.floats(allow_nan=False, allow_infinity=False)
others = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=5)


@given(st.dictionaries(limits, st.integers(2, 99)), st.dictionaries(others, finite))
def test_what_is_no_limit_keeps_its_spelling(limited, rest):
    body = json.dumps(rest | limited).encode()
    copied = members(edit(body, prefill_edits(members(body), None)))
    for name in rest.keys() - {"stream", "n"}:
        assert bytes(copied[name]) == bytes(members(body)[name])
    assert all(bytes(copied[name]) == b"1" for name in limited)


# --- connectors


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("NixlConnector", "nixl"),
        ("nixl", "nixl"),
        ("MooncakeConnector", "mooncake"),
        ("LMCacheConnectorV1", "passthrough"),
        ("", "passthrough"),
        (None, "passthrough"),
    ],
)
def test_a_connector_is_known_by_its_name_in_any_spelling(name, mode):
    assert connector_of(name).mode == mode


def test_nixl_is_told_that_its_cache_will_be_fetched_and_decode_gets_what_it_returns():
    nixl = connector_of("nixl")
    assert nixl.tag("t") == {"do_remote_decode": True, "do_remote_prefill": False}
    returned = Raw(b'{"blocks": [1,2.50]}')
    assert nixl.hand_on("t", ENGINE, returned) is returned
    assert nixl.hand_on("t", ENGINE, None) is None
    assert nixl.promises


def test_mooncake_s_decode_is_told_where_to_fetch_whatever_prefill_returns():
    mooncake = connector_of("mooncake")
    assert mooncake.tag("t") == {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "t"}
    expected = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": "t",
        "remote_engine_id": "engine",
        "remote_bootstrap_addr": "http://10.0.0.1:9001",
    }
    for returned in (None, Raw(b'{"x":1}')):
        assert json.loads(mooncake.hand_on("t", ENGINE, returned)) == expected


def test_mooncake_has_a_port_of_its_own_and_needs_the_engine_s_id():
    mooncake = connector_of("mooncake")
    params = json.loads(mooncake.hand_on("t", PrefillEngine("[::1]", None, "e"), None))
    assert params["remote_bootstrap_addr"] == "http://[::1]:8998"
    assert mooncake.hand_on("t", PrefillEngine("h"), None) is None
    assert mooncake.promises


def test_an_unknown_connector_passes_on_what_comes_and_promises_nothing():
    assert PASSTHROUGH.tag("t") is None
    returned = Raw(b"[1]")
    assert PASSTHROUGH.hand_on("t", ENGINE, returned) is returned
    assert PASSTHROUGH.hand_on("t", ENGINE, None) is None
    assert not PASSTHROUGH.promises


# --- what prefill returned


@pytest.mark.parametrize(
    ("answer", "params"),
    [
        (b'{"kv_transfer_params": {"a": 1.50}}', b'{"a": 1.50}'),
        (b'{"kv_transfer_params": null}', None),
        (b'{"choices": []}', None),
        (b'["no object"]', None),
        (b"no JSON", None),
        (b"", None),
    ],
)
def test_parameters_are_taken_as_they_are_spelled(answer, params):
    found = returned_params(answer)
    assert (None if found is None else bytes(found)) == params
