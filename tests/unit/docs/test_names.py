"""What the pages name must exist in the code."""

import argparse
import re
import tomllib

import pytest

from smg.app import cli, serve
from smg.config.options import POLICY_NAMES
from smg.config.scheduler_rules import DEFAULT_CLASSES
from smg.config.settings import BUCKET, CACHE_AWARE, LOAD, OPTIONS, PREFIX_HASH, ROUTING, STICKY
from smg.control import engine_metrics, fleet_calls, loads, models, probes, tokenizers, workers
from smg.control.openapi import routes as openapi
from smg.control.rl import refusals
from smg.control.rl import routes as rl
from smg.errors import ERROR_KINDS
from smg.fleet.registry import Registry
from smg.protocol.openapi.operation import Access
from smg.services.readiness import Readiness
from smg.serving.endpoints import decisions, forwarded, realtime, realtime_http, transcriptions
from smg.sim import cli as sim
from smg.telemetry.metrics import TABLE, Metrics, Row

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
METRIC = re.compile(r"\bsmg_[a-z0-9_]+")
VARIABLE = re.compile(r"\bSMG_[A-Z0-9_]+")
ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`?]*)`")
CODE = re.compile(r"(?:\d{3} )`([a-z_]+)`")
TARGET = re.compile(r"(?:`|^\$ )make ([a-z]+)", re.MULTILINE)

# Flags without a table: smg's own, those of `config show` and of the benchmarks, and what stands for any flag.
OTHER_FLAGS = {"--help", "--version", "--format", "--write", "--only", "--seconds", "--gateway", "--flag", "--polcy"}
# Of curl.
OTHER_FLAGS |= {"--data-binary", "--data-urlencode"}
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
        *loads.routes(registry, None),
        *fleet_calls.routes(registry, None),
        *engine_metrics.routes(registry, None),
        *tokenizers.routes(),
        *openapi.routes([], Access()),
        *rl.routes(registry, None, None),
    ]
    served = (
        *forwarded.ENDPOINTS,
        *forwarded.SPOKEN_BY_SOME,
        *decisions.ENDPOINTS,
        *transcriptions.ENDPOINTS,
        *realtime.ENDPOINTS,
        *realtime_http.CREATING,
        *realtime_http.CALLING,
    )
    return {(route.method, route.path.replace("{*", "{")) for route in own} | {
        (endpoint.method, endpoint.path) for endpoint in served
    }


def test_every_flag_exists(text, known_flags):
    named = {flag.replace("--router-", "--") for flag in FLAG.findall(text) if flag not in known_flags | {"--router-"}}
    assert named - option_flags == set()


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
    assert set(CODE.findall(text)) - set(ERROR_KINDS) - set(refusals.STATUSES) - {"draining"} == set()


def test_the_guide_to_rl_has_every_refusal_with_its_status(root):
    guide = (root / "docs" / "guides" / "rl.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z_]+)` \| ([0-9]{3}) \|", guide, re.MULTILINE))
    assert {code: int(status) for code, status in listed.items()} == refusals.STATUSES


def test_the_guide_to_admission_has_the_built_in_rules_of_every_class(root):
    guide = (root / "docs" / "guides" / "admission.md").read_text(encoding="utf-8")
    for priority, rules in DEFAULT_CLASSES.items():
        numbers = (
            f"{rules.reserved_floor} | {rules.reserved_per_slot:g} | {rules.queue_size} | {rules.queue_timeout_secs} s"
        )
        preempts = "yes" if rules.can_preempt else "no"
        row = f"| `{priority.label}` | {numbers} | {rules.starvation_threshold_secs} s | {preempts} |"
        assert row in guide


def test_every_target_of_make_exists(root, text):
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(TARGET.findall(text)) <= targets


def test_the_guide_has_a_section_for_every_policy(root):
    guide = (root / "docs" / "guides" / "routing.md").read_text(encoding="utf-8")
    assert {name for name in POLICY_NAMES if f"### {name}\n" not in guide} == set()


def test_every_option_of_the_routing_sections_is_explained_in_the_guide(root):
    guide = (root / "docs" / "guides" / "routing.md").read_text(encoding="utf-8")
    rows = [row for row in OPTIONS if row.section in {ROUTING, CACHE_AWARE, PREFIX_HASH, BUCKET, LOAD, STICKY}]
    assert {row.flag for row in rows if not any(flag in guide for flag in row.flags)} == set()


def test_every_option_is_explained_in_some_guide(root):
    guides = "".join(path.read_text(encoding="utf-8") for path in (root / "docs" / "guides").glob("*.md"))
    named = set(FLAG.findall(guides))
    assert {row.flag for row in OPTIONS if named.isdisjoint(row.flags)} == set()


def test_every_command_is_mentioned_by_the_guides(root):
    guides = "".join(path.read_text(encoding="utf-8") for path in (root / "docs" / "guides").glob("*.md"))
    assert {name for name in cli.COMMANDS if f"smg {name}" not in guides} == set()


def test_every_metric_of_the_table_is_recorded(root):
    table = root / "src" / "smg" / "telemetry" / "metrics.py"
    places = [path for path in (root / "src" / "smg").rglob("*.py") if path != table]
    code = "".join(path.read_text(encoding="utf-8") for path in places)
    names = {name for name, row in vars(Metrics).items() if isinstance(row, Row)}
    # Those of a policy are found by the policy's name.
    by_policy = {name for name in names if name.startswith(tuple(f"{policy}_" for policy in POLICY_NAMES))}
    assert {name for name in names - by_policy if f".{name}" not in code and f'"{name}"' not in code} == set()


def test_every_file_that_the_architecture_names_exists(root):
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", text)) - {"bench/"}
    assert len(named) > 30
    source = root / "src" / "smg"
    beside = [source, source / "net", source / "serving" / "upstreams"]  # named together with a file of their room
    assert {name for name in named if not any((room / name).exists() for room in beside)} == set()


def test_the_picture_of_the_layers_is_what_is_enforced(root):
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = re.findall(r"```\n(app\n.*?)```", text, re.DOTALL)[0].splitlines()
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert picture == [layer.replace("smg.", "") for layer in layers]
