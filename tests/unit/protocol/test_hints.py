import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.hints import first_routing_key, routing_key, routing_tokens, session_of


def naive_tokens(value):
    if len(value) > 4096:
        return None
    items = value.decode("latin-1").split(",")
    if len(items) > 512 or not all(re.fullmatch("[0-9]+", item) for item in items):
        return None
    numbers = [int(item) for item in items]
    return None if any(number > 4294967295 for number in numbers) else numbers


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (b"128000,791,4062", [128000, 791, 4062]),
        (b"0", [0]),
        (b"4294967295", [4294967295]),
        (b"007,1", [7, 1]),
        (b",".join([b"1"] * 512), [1] * 512),
    ],
)
def test_well_formed_tokens_are_read(value, tokens):
    assert routing_tokens(value) == tokens


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b",",
        b"1,,2",
        b"1,2,",
        b",1",
        b"1, 2",
        b"+1",
        b"-1",
        b"4294967296",
        b"1.5",
        b"1e3",
        b"0x10",
        b"a",
        b"[1]",
        b"\xfc",
        b"\xd9\xa1",
        b"1_000",
        b",".join([b"1"] * 513),
        b",".join([b"4294967295"] * 400),
        b"9" * 4096,
        b"0" * 4097,
    ],
)
def test_malformed_or_too_many_tokens_count_as_absent(value):
    assert routing_tokens(value) is None


@given(st.text(alphabet="0123456789,,+- .e٣", max_size=40).map(str.encode) | st.binary(max_size=10))
def test_the_token_reader_agrees_with_a_naive_one(value):
    assert routing_tokens(value) == naive_tokens(value)


@given(st.lists(st.integers(0, 2**33), min_size=1, max_size=520))
def test_the_token_reader_agrees_with_a_naive_one_on_long_lists(numbers):
    value = ",".join(map(str, numbers)).encode()
    assert routing_tokens(value) == naive_tokens(value)


@pytest.mark.parametrize("value", [b"k", b"k" * 128, "schlüssel".encode(), b"two words"])
def test_a_key_of_up_to_128_bytes_of_utf_8_is_valid(value):
    assert routing_key(value) == value.decode()


@pytest.mark.parametrize("value", [None, b"", b"k" * 129, "ü".encode() * 65, b"schl\xfcssel"])
def test_any_other_key_counts_as_absent(value):
    assert routing_key(value) is None


def test_an_invalid_key_gives_way_to_the_next_header_of_the_list():
    headers = {b"x-first": b"", b"x-second": b"k" * 129, b"x-third": b"three", b"x-fourth": b"four"}
    names = [b"x-missing", b"x-first", b"x-second", b"x-third", b"x-fourth"]
    assert first_routing_key(headers, names) == "three"
    assert first_routing_key(headers, names[:3]) is None
    assert first_routing_key(headers, []) is None


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("conv", "conv"),
        ("conv_t1", "conv"),
        ("conv_t2_r1", "conv"),
        ("conv_t13_r99", "conv"),
        ("conv_r4", "conv"),
        ("conv_r1_t2", "conv_r1"),
        ("conv_t1_t2", "conv_t1"),
        ("conv_r1_r2", "conv_r1"),
        ("_t1", "_t1"),
        ("_r1", "_r1"),
        ("_t1_r2", "_t1"),
        ("conv_T1", "conv_T1"),
        ("conv_t", "conv_t"),
        ("conv_t1x", "conv_t1x"),
        ("conv_t1\n", "conv_t1\n"),
        ("conv_t٣", "conv_t٣"),
        ("k" * 128, "k" * 128),
    ],
)
def test_a_session_is_its_name_without_turn_and_retry(name, session):
    assert session_of(name) == session


@pytest.mark.parametrize("name", [None, "", "k" * 129, "ü" * 65, 7, ["a"]])
def test_anything_else_names_no_session(name):
    assert session_of(name) is None
