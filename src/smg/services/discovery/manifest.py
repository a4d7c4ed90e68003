"""A file that lists workers, in YAML or JSON, read into the workers that it names.

It is a list, or a list under `workers` beside `version: 1`. An entry is an address, or an object as POST /workers takes
it, which may also have an `id` (its address otherwise) and a `model_id` (the name callers use, when the engine has
another). A file is taken as a whole or not at all: every problem is found, each with its line. No problem repeats a
value of the file beyond addresses and names, since keys may stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from smg.fleet.spec import SpecError, parse_spec
from smg.fleet.worker import ModelCard
from smg.services.discovery.desired import ID_LABEL, PROVIDER_LABEL, Desired, with_scheme
from smg.services.inspection import inherited_key

PROVIDER = "file"
VERSION = 1

_TOO_DEEP = "is nested too deeply"
_USERINFO = re.compile(r"//[^/\s]*@")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line of the file; lines count from 1."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class ManifestError(ValueError):
    """A file does not say which workers there should be. `problems` are all there are, in their order."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(slots=True)
class _Reading:
    api_key: str | None
    loader: yaml.SafeLoader
    workers: list[Desired] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def complain(self, node: yaml.Node | None, text: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 1
        self.problems.append(Problem(line, _USERINFO.sub("//***@", text)))


def read_manifest(text: str, api_key: str | None) -> list[Desired]:
    """The workers that a file names. `api_key` is that of workers whose entries have none; an entry's empty one means
    that it has none at all.

    Raises ManifestError.
    """
    loader = _loader(text)
    reading = _Reading(api_key, loader)
    try:
        _read(reading, loader.get_single_node())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reading.problems.append(Problem(mark.line + 1 if mark else 1, "is neither valid YAML nor JSON"))
    except RecursionError:
        reading.problems.append(Problem(1, _TOO_DEEP))
    finally:
        loader.dispose()
    if reading.problems:
        raise ManifestError(reading.problems)
    return reading.workers


def _loader(text: str) -> yaml.SafeLoader:
    if text.lstrip()[:1] in {"[", "{"}:
        # JSON may be indented with tabs, YAML may not. Inside JSON's texts there can be none.
        text = text.replace("\t", " ")
    try:
        return yaml.SafeLoader(text)
    except yaml.YAMLError:  # a character that has no place in a text file
        raise ManifestError([Problem(1, "holds characters that YAML does not allow")]) from None


def _read(reading: _Reading, root: yaml.Node | None) -> None:
    for node in _entries(reading, root):
        one = _entry(reading, node)
        if one is None:
            continue
        names = {one.key, one.spec.url}
        taken = next((name for name in names if name in reading.lines), None)
        if taken is None:
            reading.workers.append(one)
            reading.lines.update(dict.fromkeys(names, node.start_mark.line + 1))
        else:
            reading.complain(node, f"names {taken!r}, as line {reading.lines[taken]} does")


def _entries(reading: _Reading, root: yaml.Node | None) -> Iterator[yaml.Node]:
    """The nodes of the list."""
    if isinstance(root, yaml.MappingNode):
        members = {str(key.value): node for key, node in root.value if isinstance(key, yaml.ScalarNode)}
        version = members.get("version")
        if version is not None and version.value != str(VERSION):
            reading.complain(version, f"version must be {VERSION}")
        root = members.get("workers", root)
    if isinstance(root, yaml.SequenceNode):
        yield from root.value
    else:
        # An empty file is more likely one that is being written than a fleet without workers.
        reading.complain(root, "must be a list of workers; for none write []")


def _entry(reading: _Reading, node: yaml.Node) -> Desired | None:
    try:
        return _desired(reading.loader.construct_document(node), reading.api_key)
    except SpecError as error:
        reading.complain(node, str(error))
    except yaml.YAMLError:
        reading.complain(node, "holds a value of an unknown type")
    except RecursionError:
        reading.complain(node, _TOO_DEEP)
    except (TypeError, ValueError):
        reading.complain(node, "holds a value that JSON cannot express")
    return None


def _desired(value: Any, api_key: str | None) -> Desired:
    members = {"url": value} if isinstance(value, str) else value
    if not isinstance(members, dict):
        raise SpecError("must be an address or an object")
    url, key, model_id = members.get("url"), members.pop("id", None), members.pop("model_id", None)
    if isinstance(url, str):
        members["url"] = with_scheme(url)
    spec = parse_spec(msgspec.json.encode(members))
    for name, text in (("id", key), ("model_id", model_id)):
        if text is not None and not (isinstance(text, str) and text):
            raise SpecError(f"{name}: must be a text")
    key = key or spec.url
    if model_id and spec.models:
        raise SpecError("model_id: must not stand beside models")
    spec = msgspec.structs.replace(
        spec,
        api_key=spec.api_key if members.get("api_key") is not None else inherited_key(spec, api_key),
        models=(ModelCard(model_id),) if model_id else spec.models,
        labels={**spec.labels, PROVIDER_LABEL: PROVIDER, ID_LABEL: key},
    )
    return Desired(key, spec, renamed=bool(model_id))
