"""What a chat demands of its answer beyond words: a call of a tool, or JSON that fits a schema.

A simulated model calls a tool only if it must: `tool_choice` is `required`, which means the first one, or names one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from smg.sim.bodies import ChatBody
from smg.sim.dialect import SimError
from smg.sim.json_values import json_text

# Of `response_format: json_object`, which leaves the members open.
_SOME_OBJECT: Final = b'{"type":"object","properties":{"answer":{"type":"string"}}}'


class Demand(NamedTuple):
    """`tool` is the tool to call, empty for none. `schema` is what the text must fit, None for free text."""

    tool: str = ""
    schema: bytes | None = None


def demand_of(body: ChatBody) -> Demand:
    """What a chat demands. Raises SimError 400 for a tool that is not there, and for what is no schema."""
    choice = body.tool_choice
    forced = choice == "required" or isinstance(choice, dict)
    demand = _tool(body, choice) if forced else Demand(schema=_schema(body.response_format))
    if demand.schema is not None:
        try:
            json_text(demand.schema, b"")
        except ValueError as error:
            raise SimError(400, str(error), "tools" if forced else "response_format") from error
    return demand


def _tool(body: ChatBody, choice: Any) -> Demand:
    wanted = None
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name") or choice.get("name")
    tools = msgspec.json.decode(body.tools) if bytes(body.tools) else None
    for tool in tools or ():
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and wanted in (None, function.get("name")):
            return Demand(str(function.get("name")), msgspec.json.encode(function.get("parameters") or {}))
    raise SimError(400, "tool_choice names a tool that is not in tools", "tool_choice")


def _schema(wanted: Any) -> bytes | None:
    if not isinstance(wanted, dict):
        return None
    match wanted.get("type"):
        case "json_object":
            return _SOME_OBJECT
        case "json_schema":
            described = wanted.get("json_schema")
            schema = described.get("schema") if isinstance(described, dict) else None
            return msgspec.json.encode(schema or {})
        case _:
            return None
