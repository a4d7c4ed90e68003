import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.settings import Settings
from smg.protocol.request_ids import RequestIds

DEFAULT_NAMES = Settings().request_id_headers
FRESH = re.compile(r"chatcmpl-[A-Za-z0-9]{24}")


def ids_of(headers, names=None):
    return RequestIds(names or DEFAULT_NAMES).of(headers, "chatcmpl-")


def test_the_first_present_header_of_the_list_is_the_id():
    names = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"]
    for first in range(4):
        headers = {name.encode(): f"id-{name}".encode() for name in reversed(names[first:])}
        assert ids_of(headers) == f"id-{names[first]}"


def test_a_list_of_ones_own_replaces_the_default():
    headers = {b"x-request-id": b"no", b"x-my-id": b"yes"}
    assert ids_of(headers, ["X-My-ID"]) == "yes"
    assert FRESH.fullmatch(ids_of({b"x-request-id": b"no"}, ["X-My-ID"]))


@pytest.mark.parametrize("value", [b"", b"x" * 129, b"two words", b"tab\tbed", b"caf\xe9", b"a\x7f", b"a\x00"])
def test_an_unusable_id_is_replaced_even_if_another_header_has_a_good_one(value):
    assert FRESH.fullmatch(ids_of({b"x-request-id": value, b"request-id": b"good"}))


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128))
def test_visible_ascii_of_up_to_128_characters_is_kept(value):
    assert ids_of({b"x-request-id": value.encode()}) == value


def test_fresh_ids_have_their_prefix_and_never_repeat():
    ids = RequestIds(DEFAULT_NAMES)
    made = [ids.of({}, "chatcmpl-") for _ in range(1000)]
    assert all(FRESH.fullmatch(one) for one in made)
    assert len(set(made)) == len(made)
    assert ids.of({}, "msg_").startswith("msg_")


def test_randomness_is_drawn_for_many_ids_at_once_and_used_once():
    drawn = []

    def random_bytes(count):
        drawn.append(count)
        return bytes((len(drawn) + i) % 256 for i in range(count))

    ids = RequestIds(DEFAULT_NAMES, random_bytes)
    made = {ids.of({}, "") for _ in range(64)}
    assert len(drawn) == 1
    ids.of({}, "")
    assert len(drawn) == 2
    assert all(len(one) == 24 for one in made)
