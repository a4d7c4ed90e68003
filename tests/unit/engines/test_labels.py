import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.engines.labels import describe_model, label_text, pick, same


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", None),
        ("null", None),
        (None, None),
        (0, None),
        (0.0, None),
        (8, "8"),
        (-1, "-1"),
        (8.0, "8"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        ([], None),
        (["A", "é"], '["A","é"]'),
        ({"a": 1}, None),
        ({}, None),
    ],
)
def test_a_value_becomes_text_or_nothing(value, text):
    assert label_text(value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_label_is_never_empty(value):
    text = label_text(value)
    assert text is None or (isinstance(text, str) and text)


def test_fields_are_picked_by_name_and_the_first_of_two_sources_wins():
    members = {"model_id": "a", "model": "b", "tp_size": 2, "dp_size": 0, "noise": 1}
    fields = (("model_id", "model_id"), ("model", "model_id"), *same("tp_size", "dp_size"))
    assert pick(members, fields) == {"model_id": "a", "tp_size": "2"}
    assert pick({"model": "b"}, fields) == {"model_id": "b"}


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"served_model_name": "a", "model_id": "b", "model_path": "c"}, "a"),
        ({"model_id": "b", "model_path": "c"}, "b"),
        ({"model_path": "c"}, "c"),
        ({"served_model_name": "", "model_path": "c"}, "c"),
        ({"version": "1"}, None),
    ],
)
def test_the_model_is_named_by_the_surest_label(labels, name):
    assert describe_model(labels).id == name


@pytest.mark.parametrize(
    ("labels", "length"),
    [
        ({"context_length": "1", "max_model_len": "2"}, 1),
        ({"max_model_len": "2", "max_total_tokens": "3"}, 2),
        ({"max_seq_len": "4"}, 4),
        ({"context_length": "many", "max_seq_len": "4"}, 4),
        ({"context_length": "9" * 5000}, None),
        ({}, None),
    ],
)
def test_the_context_length_comes_from_the_first_label_that_has_one(labels, length):
    assert describe_model(labels).context_length == length


GENERATION = ("chat", "completions", "responses", "tools")


@pytest.mark.parametrize(
    ("labels", "kinds"),
    [
        ({}, GENERATION),
        ({"has_image_understanding": "true"}, (*GENERATION, "vision")),
        ({"has_image_understanding": "false"}, GENERATION),
        ({"is_embedding": "true"}, ("embeddings",)),
        ({"is_generation": "false"}, ("embeddings",)),
        ({"is_generation": "false", "architectures": '["XLMRobertaCrossEncoder"]'}, ("rerank",)),
        ({"is_embedding": "true", "model_type": "my-Reranker"}, ("rerank",)),
        ({"is_generation": "true"}, GENERATION),
    ],
)
def test_labels_say_what_a_model_is_for(labels, kinds):
    assert describe_model(labels).model_type == kinds


@pytest.mark.parametrize(
    ("text", "architectures"),
    [
        ('["A", "B"]', ("A", "B")),
        ("A", ("A",)),
        ('"A"', ('"A"',)),
        ("[" * 100_000, ("[" * 100_000,)),
        (json.dumps([1]), ("1",)),
    ],
)
def test_architectures_are_a_list_or_one_name(text, architectures):
    assert describe_model({"architectures": text}).architectures == architectures
