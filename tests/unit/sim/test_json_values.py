"""Values fit their schema, follow from it and a key, and stay small."""

import json

import pytest

from smg.sim.json_values import json_text

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 20},
        "age": {"type": "integer", "minimum": 18, "maximum": 20},
        "kind": {"enum": ["a", "b"]},
        "always": {"const": None},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 2},
        "odds": {"type": "number", "minimum": 0.25},
        "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "boss": {"$ref": "#/$defs/boss"},
        "both": {"allOf": [{"properties": {"x": {"type": "integer"}}}, {"properties": {"y": {"type": "null"}}}]},
        "either": {"type": ["string", "null"]},
    },
    "$defs": {"boss": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def value(schema, key=b"k"):
    return json.loads(json_text(json.dumps(schema).encode(), key))


def test_a_value_fits():
    made = value(PERSON)
    assert len(made["name"]) == 20
    assert 18 <= made["age"] <= 20
    assert made["kind"] in {"a", "b"}
    assert made["always"] is None
    assert [len(tag) for tag in made["tags"]] == [3, 3]
    assert made["odds"] >= 0.25
    assert isinstance(made["maybe"], bool)
    assert isinstance(made["boss"]["name"], str)
    assert set(made["both"]) == {"x", "y"}
    assert isinstance(made["either"], str)


def test_it_follows_from_the_schema_and_the_key():
    assert value(PERSON) == value(PERSON)
    assert value(PERSON) != value(PERSON, b"another")
    assert value({"type": "array", "items": {"type": "string"}, "minItems": 2}) != ["same", "same"]


def test_a_schema_that_holds_itself_ends():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert len(json_text(json.dumps(tree).encode(), b"")) < 100_000
    assert value({"$ref": "#"}) is None


def test_a_short_schema_makes_no_long_value():
    nested = {"type": "string", "minLength": 1 << 40}
    for _ in range(6):
        nested = {"type": "array", "minItems": 1 << 40, "items": nested}
    assert len(json_text(json.dumps(nested).encode(), b"")) < 5_000_000


@pytest.mark.parametrize("schema", [{"properties": 1}, {"type": "string", "minLength": "x"}, {"enum": 3}])
def test_what_is_no_schema_is_said_to_be_none(schema):
    with pytest.raises(ValueError, match="not a JSON Schema"):
        value({"type": "object", "properties": {"x": schema}})
