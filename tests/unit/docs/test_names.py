"""What the pages name must exist in the code."""

import argparse
import re
from pathlib import Path

import pytest

from smg.app import cli, serve
from smg.config.options import POLICY_NAMES
from smg.config.settings import CACHE_AWARE, LOAD, OPTIONS, PREFIX_HASH, ROUTING, STICKY
from smg.control import models, probes, workers
from smg.errors import ERROR_KINDS
from smg.fleet.registry import Registry
from smg.services.readiness import Readiness
from smg.serving.endpoints.forwarded import ENDPOINTS
from smg.sim import cli as sim
from smg.telemetry.metrics import TABLE

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
METRIC = re.compile(r"\bsmg_[a-z0-9_]+")
VARIABLE = re.compile(r"\bSMG_[A-Z0-9_]+")
ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`?]*)`")
CODE = re.compile(r"(?:\d{3} )`([a-z_]+)`")
TARGET = re.compile(r"(?:`|^\$ )make ([a-z]+)", re.MULTILINE)

# Flags without a table: smg's own, those of `config show` and of the benchmarks, and what stands for any flag.
OTHER_FLAGS = {"--help", "--version", "--format", "--write", "--only", "--seconds", "--gateway", "--flag", "--polcy"}
# Shown ahead of the options they announce; a flag that exists does not belong here.
PLANNED_FLAGS = {"--enable-rl"}
# Names that begin like a metric and are none.
NO_METRICS = {"smg_rl"}
# Read by `smg serve`, which has no table.
OTHER_VARIABLES = {"SMG_DEFAULT_BACKEND"}
# What the gateway asks engines for, what simulated engines offer, and the other listener.
OTHER_ROUTES = re.compile(r"/(metrics|sim/.*|server_info|version)")

option_flags = {flag for row in OPTIONS for flag in (*row.flags, *row.off_flags)}
metric_names = {row.name for row in TABLE}


def flags_of(parser):
    return set(FLAG.findall(parser.format_help()))


@pytest.fixture(scope="module")
def known_flags():
    tools = [serve._parser(), sim._parser()]
    assert all(isinstance(parser, argparse.ArgumentParser) for parser in tools)
    return option_flags.union(OTHER_FLAGS, *map(flags_of, tools))


@pytest.fixture(scope="module")
def routes():
    registry = Registry()
    own = [
        *probes.routes(registry, Readiness(registry), None),
        *models.routes(registry, None, bool),
        *workers.routes(registry, None, None),
    ]
    return {(route.method, route.path) for route in own} | {("POST", endpoint.path) for endpoint in ENDPOINTS}


def test_every_flag_exists(text, known_flags):
    named = {flag.replace("--router-", "--") for flag in FLAG.findall(text) if flag not in known_flags | {"--router-"}}
    assert named - option_flags - PLANNED_FLAGS == set()


def test_a_planned_flag_does_not_exist_yet(known_flags):
    assert PLANNED_FLAGS.isdisjoint(known_flags)


def test_every_metric_exists(text):
    unknown = set()
    for name in set(METRIC.findall(text)) - NO_METRICS:
        plain = re.sub(r"_(bucket|sum|count)$", "", name)
        is_prefix = name.endswith("_") and any(metric.startswith(name) for metric in metric_names)
        if not is_prefix and not metric_names.intersection({name, plain}):
            unknown.add(name)
    assert unknown == set()


def test_every_variable_exists(text):
    known = {row.env for row in OPTIONS} | OTHER_VARIABLES
    assert {name for name in VARIABLE.findall(text) if not name.endswith("_")} - known == set()


def test_every_route_exists(text, routes):
    named = {(method, path) for method, path in ROUTE.findall(text) if not OTHER_ROUTES.fullmatch(path)}
    assert named - routes == set()


def test_the_page_of_promises_lists_every_route(root, routes):
    text = (root / "docs" / "behaviour.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([A-Z]+) (\S+)` \|", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == routes


def test_every_error_code_behind_a_status_exists(text):
    assert set(CODE.findall(text)) - set(ERROR_KINDS) - {"draining"} == set()


def test_every_target_of_make_exists(root, text):
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(text)) <= targets


def test_the_guide_has_a_section_for_every_policy(root):
    guide = (root / "docs" / "guides" / "routing.md").read_text(encoding="utf-8")
    assert {name for name in POLICY_NAMES if f"### {name}\n" not in guide} == set()


def test_every_option_of_the_routing_sections_is_explained_in_the_guide(root):
    guide = (root / "docs" / "guides" / "routing.md").read_text(encoding="utf-8")
    rows = [row for row in OPTIONS if row.section in {ROUTING, CACHE_AWARE, PREFIX_HASH, LOAD, STICKY}]
    assert {row.flag for row in rows if not any(flag in guide for flag in row.flags)} == set()


def test_every_command_is_mentioned_by_the_guides(root):
    guides = "".join(path.read_text(encoding="utf-8") for path in (root / "docs" / "guides").glob("*.md"))
    assert {name for name in cli.COMMANDS if f"smg {name}" not in guides} == set()


def test_metrics_that_are_said_not_to_be_recorded_are_not(root):
    guide = (root / "docs" / "guides" / "observability.md").read_text(encoding="utf-8")
    declared = guide.partition("Declared and not recorded")[2].partition("\n## ")[0]
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in (root / "src" / "smg").rglob("*.py")
        if path != Path(root / "src" / "smg" / "telemetry" / "metrics.py")
    )
    names = METRIC.findall(declared)
    assert names
    recorded = {name for name in names if f".{name.removeprefix('smg_').removesuffix('_total')}" in code}
    assert recorded == set(), "these are recorded now: say so in the guide"
