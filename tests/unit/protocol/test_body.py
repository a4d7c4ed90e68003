import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.body import REMOVED, edit, members

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def as_slices(body):
    return {name: bytes(value) for name, value in members(body).items()}


def test_a_body_without_edits_is_the_same_object():
    body = b' {"a": 1} '
    assert edit(body, {}) is body


def test_what_is_not_edited_keeps_its_spelling_and_its_place():
    body = b'{"top_p":0.950, "x" : [1e5,  {"a":1.0}],"model":"alias","n":9007199254740993, "u":"\\u00e9\xc3\xa9"}'
    edited = edit(body, {"model": b'"canonical"'})
    assert edited == (
        b'{"top_p":0.950,"x":[1e5,  {"a":1.0}],"model":"canonical","n":9007199254740993,"u":"\\u00e9\xc3\xa9"}'
    )


def test_a_new_member_comes_last_and_a_removed_one_goes():
    assert edit(b'{"a":1,"b":2}', {"a": REMOVED, "c": b"3", "gone": REMOVED}) == b'{"b":2,"c":3}'
    assert edit(b"{}", {"a": b"[1.0]"}) == b'{"a":[1.0]}'
    assert edit(b'{"a":1}', {"a": REMOVED}) == b"{}"


def test_a_repeated_member_collapses_to_its_last_value():
    assert edit(b'{"m":1,"a":2,"m":3}', {"a": b"4"}) == b'{"m":3,"a":4}'
    assert edit(b'{"m":1,"\\u006d":2}', {"m": b"5"}) == b'{"m":5}'


def test_nested_members_of_the_same_name_are_left_alone():
    body = b'{"x":{"model":"a"},"model":"a","y":"\\"model\\":\\"a\\""}'
    assert edit(body, {"model": b'"b"'}) == b'{"x":{"model":"a"},"model":"b","y":"\\"model\\":\\"a\\""}'


def test_an_edit_can_be_made_of_edits():
    body = b'{"stream_options":{"x":1.50},"n":1}'
    inner = edit(bytes(members(body)["stream_options"]), {"include_usage": b"true"})
    assert edit(body, {"stream_options": inner}) == b'{"stream_options":{"x":1.50,"include_usage":true},"n":1}'


@pytest.mark.parametrize("body", [b"[]", b"1", b"", b'{"a":}'])
def test_what_is_no_object_cannot_be_edited(body):
    with pytest.raises(ValueError, match=r".+"):
        edit(body, {"a": b"1"})


@given(
    st.dictionaries(st.text(), JSON, max_size=6),
    st.dictionaries(st.text(), JSON | st.just(REMOVED), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_an_edit_changes_its_members_and_no_byte_of_any_other_value(document, changes, escaped, indent):
    body = json.dumps(document, ensure_ascii=escaped, indent=indent).encode()
    edits = {name: v if v is REMOVED else json.dumps(v).encode() for name, v in changes.items()}
    expected = {**as_slices(body), **{name: v for name, v in edits.items() if v is not REMOVED}}
    for name in (name for name, v in edits.items() if v is REMOVED):
        expected.pop(name, None)
    edited = edit(body, edits)
    assert as_slices(edited) == expected
    kept = [name for name in document if name in expected]
    assert list(members(edited))[: len(kept)] == kept
    json.loads(edited)


LARGE = b'{"model": "m", "padding": "' + b"p" * 20_000 + b'", "n" : 1.50 } \n'


def test_new_members_of_a_large_body_are_put_behind_it_and_nothing_else_changes():
    edited = edit(LARGE, {"a": b"1", "b": b'"x"'})
    assert edited == LARGE.rstrip()[:-1] + b',"a":1,"b":"x"} \n'
    assert json.loads(edited) == {**json.loads(LARGE), "a": 1, "b": "x"}


@pytest.mark.parametrize("edits", [{"n": b"2"}, {"n": REMOVED}, {"a": b"1", "model": b'"other"'}])
def test_a_member_that_a_large_body_has_is_never_there_twice(edits):
    pairs = json.loads(edit(LARGE, edits), object_pairs_hook=list)
    assert len({name for name, _ in pairs}) == len(pairs)
    given = {name: json.loads(value) for name, value in edits.items() if value is not REMOVED}
    expected = {**json.loads(LARGE), **given}
    for name in [name for name, value in edits.items() if value is REMOVED]:
        del expected[name]
    assert dict(pairs) == expected


def test_an_empty_object_of_much_white_space_gets_its_first_member():
    assert json.loads(edit(b"{" + b" " * 20_000 + b"}", {"a": b"1"})) == {"a": 1}
