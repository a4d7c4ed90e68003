"""Values that fit a JSON Schema, for answers that must: arguments of tools, and structured output.

A value follows from the schema and a key alone. Of a schema that is looked at: `$ref` within the document, `const`,
`enum`, `anyOf`, `oneOf`, `allOf`, types with their bounds; whatever else it demands may be missed.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from smg.sim.lexicon import speak

_DEEPEST: Final = 12
_WORD_CHARS: Final = 12
# A short schema can demand a long value: what lies beyond these bounds is left out.
_MOST_VALUES: Final = 1000
_MOST_CHARS: Final = 1000


def json_text(schema: bytes, key: bytes) -> str:
    """The text of a value that fits; `schema` is JSON. Raises ValueError for what is no schema."""
    document = msgspec.json.decode(schema)
    try:
        value = _Maker(document, key).make(document, "")
    except (AttributeError, KeyError, TypeError) as error:  # its words have values of other types
        raise ValueError(f"not a JSON Schema: {error}") from error
    return msgspec.json.encode(value).decode()


class _Maker:
    def __init__(self, document: Any, key: bytes) -> None:
        self._document = document
        self._key = key
        self._made = 0

    def make(self, schema: Any, path: str, depth: int = 0) -> Any:
        """A value; `path` tells it from others of the same schema."""
        self._made += 1
        schema = self._resolved(schema)
        if depth > _DEEPEST or self._made > _MOST_VALUES or not isinstance(schema, dict):
            return None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][self._number(path) % len(schema["enum"])]
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                return self.make(schema[word][0], path, depth + 1)
        if schema.get("allOf"):
            schema = _merged([schema, *map(self._resolved, schema["allOf"])])
        return self._typed(schema, path, depth)

    def _typed(self, schema: dict[str, Any], path: str, depth: int) -> Any:
        kind = schema.get("type", "object")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "object":
                members = schema.get("properties") or {}
                return {name: self.make(member, f"{path}/{name}", depth + 1) for name, member in members.items()}
            case "array":
                most = min(schema.get("maxItems", _MOST_VALUES), _MOST_VALUES)
                count = min(max(1, schema.get("minItems", 1)), most)
                return [self.make(schema.get("items", {}), f"{path}/{at}", depth + 1) for at in range(count)]
            case "string":
                size = min(
                    max(_WORD_CHARS, schema.get("minLength", 0)), schema.get("maxLength", _MOST_CHARS), _MOST_CHARS
                )
                return speak(self._hash(path), size)
            case "integer":
                low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
                return low + self._number(path) % (max(0, schema.get("maximum", low + 99) - low) + 1)
            case "number":
                return float(schema.get("minimum", schema.get("exclusiveMinimum", -0.5) + 0.5))
            case "boolean":
                return bool(self._number(path) % 2)
            case _:
                return None

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            target: Any = self._document
            for name in schema["$ref"].removeprefix("#").strip("/").split("/"):
                target = target.get(name) if isinstance(target, dict) and name else target
            schema = target
        return None

    def _hash(self, path: str) -> bytes:
        return hashlib.blake2b(path.encode(), key=self._key[:64], digest_size=16).digest()

    def _number(self, path: str) -> int:
        return int.from_bytes(self._hash(path)[:4], "big")


def _merged(schemas: list[Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for schema in schemas:
        if isinstance(schema, dict):
            members = {**merged.get("properties", {}), **schema.get("properties", {})}
            merged |= schema
            if members:
                merged["properties"] = members
    merged.pop("allOf", None)
    return merged
