import json
from typing import Annotated, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from smg.protocol.openapi.shapes import REFERENCE, Shapes, merged, tightened
from smg.protocol.rules import RULES

RULED = [(kind, name) for kind, rules in RULES.items() for name in dict.fromkeys(r.field for r in rules if r.schema)]

VALUES = st.one_of(
    st.integers(-200, 200),
    st.floats(-3, 3),
    st.text(max_size=3),
    st.lists(st.text(max_size=2), max_size=6),
    st.text(alphabet="\t\x1c\x1e \x85\xa0\u2028\ufeff", max_size=2),
    st.text(alphabet="x", min_size=120, max_size=140),
)


def member_of(kind, name):
    shapes = Shapes({})
    shapes.of(kind)
    return shapes.components[kind.__name__]["properties"][name]


@pytest.mark.parametrize(("kind", "name"), RULED, ids=[f"{kind.__name__}.{name}" for kind, name in RULED])
@given(value=VALUES)
def test_a_published_range_is_the_rules(kind, name, value):
    field = next(field for field in msgspec.structs.fields(kind) if field.name == name)
    try:
        msgspec.convert(value, field.type)
    except (msgspec.ValidationError, TypeError):
        return  # another type, which is no rule's affair
    rules = [rule for rule in RULES[kind] if rule.field == name and rule.schema]
    schema = {key: word for key, word in member_of(kind, name).items() if key in _words(rules)}
    assert jsonschema_rs.is_valid(schema, value) == all(rule.holds(value, None) for rule in rules)


def _words(rules):
    return {word for rule in rules for word in rule.schema}


def test_a_rule_that_a_schema_cannot_say_stands_in_the_description():
    for kind, rules in RULES.items():
        shapes = Shapes({})
        shapes.of(kind)
        text = shapes.components[kind.__name__]["description"]
        assert [rule.says for rule in rules if not rule.schema and f"`{rule.field}` {rule.says}." not in text] == []


class Inner(Struct):
    """An inner one.

    More of it.
    """

    name: Annotated[str, Meta(max_length=3, pattern=r"^[a-z]*\Z")]


class Cat(Struct, tag_field="kind", tag="cat"):
    pass


class Dog(Struct, tag_field="kind", tag="dog"):
    legs: int = 4


class Outer(Struct):
    must: int
    raw: Raw = Raw()
    left_out: str | UnsetType = UNSET
    nullable: Annotated[int, Meta(ge=1)] | None = None
    several: str | list[str] | None = None
    number: int | float | None = None
    word: Literal["a", "b"] = "a"
    inner: Inner | None = None
    pet: Cat | Dog | None = None
    pets: list[Cat | Dog] = []
    by_name: dict[str, int] = {}


def outer():
    shapes = Shapes({Inner: {"name": {"minLength": 2}}})
    assert shapes.of(Outer) == {"$ref": REFERENCE + "Outer"}
    return shapes.components


def test_objects_are_open_and_name_what_they_need():
    schema = outer()["Outer"]
    assert schema["additionalProperties"] is True
    assert schema["required"] == ["must"]


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("must", {"type": "integer"}),
        ("raw", {}),
        ("left_out", {"type": "string"}),
        ("nullable", {"type": ["integer", "null"], "minimum": 1}),
        ("several", {"type": ["string", "array", "null"], "items": {"type": "string"}}),
        ("number", {"type": ["number", "null"]}),
        ("word", {"type": "string", "enum": ["a", "b"], "default": "a"}),
        ("inner", {"anyOf": [{"$ref": REFERENCE + "Inner"}, {"type": "null"}]}),
        ("by_name", {"type": "object", "additionalProperties": {"type": "integer"}}),
    ],
)
def test_a_member_has_the_schema_of_its_type(name, schema):
    assert outer()["Outer"]["properties"][name] == schema


def test_a_tagged_union_says_what_tells_its_members_apart():
    components = outer()
    pets = components["Outer"]["properties"]["pets"]["items"]
    assert pets["discriminator"] == {
        "propertyName": "kind",
        "mapping": {"cat": REFERENCE + "Cat", "dog": REFERENCE + "Dog"},
    }
    assert components["Dog"]["properties"]["kind"] == {"type": "string", "const": "dog"}
    assert components["Dog"]["required"] == ["kind"]


def test_patterns_are_in_the_dialect_of_json_schema_and_overlays_tighten():
    assert outer()["Inner"] == {
        "description": "An inner one.",
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]*$"}},
        "additionalProperties": True,
        "required": ["name"],
    }


def test_of_two_types_with_one_name_the_second_has_its_modules_in_front():
    other = msgspec.defstruct("Inner", [("other", int)], module="smg.protocol.other_words")
    shapes = Shapes({})
    assert [shapes.of(kind)["$ref"] for kind in (Inner, other, Inner)] == [
        REFERENCE + "Inner",
        REFERENCE + "OtherWordsInner",
        REFERENCE + "Inner",
    ]


def test_of_two_bounds_the_tighter_one_counts():
    assert tightened({"minimum": 1, "maximum": 5}, {"minimum": 0, "maximum": 3}) == {"minimum": 1, "maximum": 3}


def test_what_may_be_anything_may_be_anything():
    assert merged([{"type": "string"}, {}]) == {}


def test_schemas_are_plain_json():
    json.dumps(outer())
