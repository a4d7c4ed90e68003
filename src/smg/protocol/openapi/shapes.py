"""JSON Schema of the types that bodies are decoded into, with their rules laid over them.

A published schema must say what the gateway does: objects are open, since unknown members are forwarded or ignored, and
a range is there only if a request beyond it is refused. What a schema cannot say stands in the description of the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from smg.protocol.openapi.notes import NOTES
from smg.protocol.rules import RULES, Rule

Schema: TypeAlias = dict[str, Any]

REFERENCE: Final = "#/components/schemas/"

_PLAIN: Final[Mapping[type[inspect.Type], Schema]] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    # The one type that msgspec does not know is the name of a model (`model_member.py`).
    inspect.CustomType: {"type": "string"},
}
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_TIGHTER: Final = {"minimum": max, "maximum": min, "minLength": max, "minItems": max, "maxLength": min, "maxItems": min}
# Whatever else a schema holds is about values of one type, so schemas of different types can share an object.
_NOT_OF_ONE_TYPE: Final = frozenset({"anyOf", "$ref", "enum", "not"})
# Python's end of a text; in the dialect of JSON Schema the dollar means just that.
_END_OF_TEXT: Final = re.compile(r"\\Z$")


class Shapes:
    """Makes schemas, and keeps those of objects as `components` that the others refer to.

    `overlays` are members whose rules stand in code, by type and member; they are laid over what the type says.
    """

    def __init__(self, overlays: Mapping[type, Mapping[str, Schema]]) -> None:
        self.components: dict[str, Schema] = {}
        self._overlays = overlays
        self._types: dict[str, type] = {}

    def of(self, kind: object) -> Schema:
        """The schema of a type: a reference where it is an object with members of its own."""
        return self._schema(inspect.type_info(kind))

    def _schema(self, info: inspect.Type) -> Schema:
        match info:
            case inspect.StructType() | inspect.DataclassType():
                return self._reference(info)
            case inspect.UnionType(types):
                return self._union(types)
            case inspect.LiteralType(values):
                return {"type": "string", "enum": list(values)}
            case inspect.ListType(item) | inspect.VarTupleType(item):
                return {"type": "array", "items": self._schema(item)}
            case inspect.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self._schema(value) or True}
            case inspect.IntType() | inspect.FloatType():
                return {"type": "integer" if isinstance(info, inspect.IntType) else "number", **_bounds(info)}
            case inspect.StrType():
                lengths = {"minLength": info.min_length, "maxLength": info.max_length}
                return {"type": "string", **{k: v for k, v in lengths.items() if v is not None}, **_bounds(info)}
            case inspect.Metadata(inner, extra_json_schema=extra):
                return {**self._schema(inner), **(extra or {})}
        return dict(_PLAIN[type(info)])

    def _reference(self, info: inspect.StructType | inspect.DataclassType) -> Schema:
        name = self._name(info.cls)
        if name not in self.components:
            self.components[name] = {}  # a type may hold itself
            self.components[name] = self._object(info)
        return {"$ref": REFERENCE + name}

    def _name(self, kind: type) -> str:
        """The name of a type; with its module's in front where another one has it."""
        name = kind.__name__
        if self._types.setdefault(name, kind) is kind:
            return name
        longer = kind.__module__.rpartition(".")[2].title().replace("_", "") + name
        if self._types.setdefault(longer, kind) is kind:
            return longer
        raise ValueError(f"two types of a published schema are called {longer}")

    def _object(self, info: inspect.StructType | inspect.DataclassType) -> Schema:
        members: dict[str, Schema] = {}
        required = [field.encode_name for field in info.fields if field.required]
        if isinstance(info, inspect.StructType) and info.tag_field is not None:
            members[info.tag_field] = {"type": "string", "const": info.tag}
            required.insert(0, info.tag_field)
        for field in info.fields:
            members[field.encode_name] = self._member(info.cls, field)
        schema: Schema = {"type": "object", "properties": members, "additionalProperties": True}
        if required:
            schema["required"] = required
        said = [_summary(info.cls), *_prose(RULES.get(info.cls, ()))]
        return {"description": " ".join(said), **schema} if any(said) else schema

    def _member(self, kind: type, field: inspect.Field) -> Schema:
        name = field.encode_name
        schema = self._schema(field.type)
        for rule in RULES.get(kind, ()):
            if rule.field == name:
                schema = tightened(schema, rule.schema or {})
        schema = tightened(schema, self._overlays.get(kind, {}).get(name, {}))
        if name in NOTES and "$ref" not in schema:
            schema = {"description": NOTES[name], **schema}
        if isinstance(field.default, (str, int, float)):
            schema["default"] = field.default
        return schema

    def _union(self, types: Sequence[inspect.Type]) -> Schema:
        branches = [self._schema(info) for info in types]
        tags = {info.tag: info for info in types if isinstance(info, inspect.StructType) and info.tag_field}
        if len(tags) == len(types):
            first = next(iter(tags.values()))
            mapping = {str(tag): REFERENCE + self._name(info.cls) for tag, info in tags.items()}
            return {"anyOf": branches, "discriminator": {"propertyName": first.tag_field, "mapping": mapping}}
        return merged(branches)


def merged(branches: Sequence[Schema]) -> Schema:
    """What is one of several, as one object if each is about a type of its own."""
    if not all(branches):
        return {}
    kinds = [branch.get("type") for branch in branches]
    if any(_NOT_OF_ONE_TYPE & branch.keys() for branch in branches) or None in kinds:
        return {"anyOf": list(branches)}
    if "number" in kinds:
        kinds = [kind for kind in kinds if kind != "integer"]
    together: Schema = {}
    for branch in branches:
        together |= branch
    return {**together, "type": kinds[0] if len(kinds) == 1 else kinds}


def tightened(schema: Schema, more: Mapping[str, Any]) -> Schema:
    """A schema with further keywords; of two bounds the tighter one counts."""
    result = dict(schema)
    for word, value in more.items():
        if word in _TIGHTER and word in result:
            result[word] = _TIGHTER[word](result[word], value)
        elif word == "items" and word in result:
            result[word] = tightened(result[word], value)
        else:
            result[word] = value
    return result


def _bounds(info: inspect.IntType | inspect.FloatType | inspect.StrType) -> Schema:
    found = {word: getattr(info, name, None) for name, word in _BOUNDS.items()}
    return {
        word: _END_OF_TEXT.sub("$", value) if word == "pattern" else value
        for word, value in found.items()
        if value is not None
    }


def _summary(kind: type) -> str:
    """The first sentences of a type's own docstring."""
    doc = kind.__dict__.get("__doc__") or ""
    if issubclass(kind, msgspec.Struct) or "(" not in doc:  # a dataclass without one has its signature instead
        return " ".join(doc.partition("\n\n")[0].split())
    return ""


def _prose(rules: Iterable[Rule]) -> list[str]:
    """What the schema cannot say of a type's members, a sentence a rule."""
    return [f"`{rule.field}` {rule.says}." for rule in rules if not rule.schema]
