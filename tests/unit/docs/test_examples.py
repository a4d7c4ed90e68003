"""Examples of the pages can be copied: commands parse, bodies are accepted, files load."""

import ast
import json
import re
import shlex
from itertools import dropwhile
from urllib.parse import urlsplit

import pytest

from smg.app import serve
from smg.config.load import load
from smg.config.scheduler_file import read_scheduler_file
from smg.config.scheduler_rules import Priority
from smg.config.tenant_file import read_tenant_file
from smg.errors import ConfigError
from smg.fleet.spec import parse_patch, parse_spec
from smg.protocol.decoding import decode
from smg.protocol.rules import violations
from smg.serving.endpoints import decisions, forwarded
from smg.sim import cli as sim
from smg.sim.faults import parse_fault

BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ASSIGNMENT = re.compile(r"[A-Z_]+=")
FILE = "# gateway.yaml\n"
REFUSED_ON_PURPOSE = "SMG_PORT=abc"


def blocks(text, language):
    return [body for name, body in BLOCK.findall(text) if name == language]


def commands(text):
    """Every command at a prompt, as its words; lines that end in a backslash or within quotes go on."""
    for block in blocks(text, "console"):
        lines = iter(block.replace("\\\n", " ").splitlines())
        for line in lines:
            if line.startswith("$ ") and REFUSED_ON_PURPOSE not in line:
                yield words_of(line[2:], lines)


def words_of(command, lines):
    """The words of a command, with as many of the next lines as its quotes need."""
    while True:
        try:
            return shlex.split(command, comments=True)
        except ValueError:
            command = f"{command}\n{next(lines)}"


def arguments(text, *command):
    """What follows a command of smg, wherever the pages use it."""
    for words in commands(text):
        plain = list(dropwhile(ASSIGNMENT.match, words))
        if tuple(plain[: len(command)]) == command:
            yield plain[len(command) :]


@pytest.fixture(scope="module")
def example_file(root):
    guide = (root / "docs" / "guides" / "configuration.md").read_text(encoding="utf-8")
    return next(block for block in blocks(guide, "yaml") if block.startswith(FILE))


def test_every_command_line_of_the_gateway_is_accepted(text, example_file):
    for command in (("smg", "launch"), ("smg", "config", "show")):
        for flags in arguments(text, *command):
            load(flags, {}, lambda _: example_file)


def test_every_command_line_of_the_tools_is_accepted(text):
    for words in arguments(text, "smg", "serve"):
        parsed, rest = serve._parser().parse_known_args(words)
        router = serve.router_flags(rest, fallback=True)
        load(serve.gateway_arguments(parsed, serve.engine_options(parsed), router)[1:], {})
    for words in arguments(text, "smg", "sim"):
        sim.options_from(sim._parser().parse_args(words))


def test_the_example_file_sets_what_it_says(example_file):
    settings = load(["--config", "gateway.yaml"], {}, lambda _: example_file).settings
    assert settings.policy == "least_load"
    assert settings.routing_key_override
    assert len(settings.worker_urls) == 2


@pytest.fixture(scope="module")
def admission_files(root):
    """The files of the guide to admission by their names, which they begin with."""
    guide = (root / "docs" / "guides" / "admission.md").read_text(encoding="utf-8")
    return {block.partition("\n")[0].removeprefix("# "): block for block in blocks(guide, "yaml")}


def test_the_example_file_of_the_scheduler_sets_what_it_says(admission_files):
    rules = read_scheduler_file("scheduler.yaml", admission_files.__getitem__)
    assert rules.classes[Priority.INTERACTIVE].reserved_floor == 1
    assert rules.max_class == {"auth:nightly": Priority.BULK}


def test_the_example_file_of_tenant_limits_sets_what_it_says(admission_files):
    rules = read_tenant_file("limits.yaml", admission_files.__getitem__)
    assert rules.policy_of("auth:red").rule_for("demo").limits.requests_per_minute == 3


def test_the_refused_start_is_refused_with_the_words_shown(root):
    guide = (root / "docs" / "guides" / "configuration.md").read_text(encoding="utf-8")
    block = next(block for block in blocks(guide, "console") if REFUSED_ON_PURPOSE in block)
    command, *shown = block.splitlines()
    with pytest.raises(ConfigError) as refusal:
        load(shlex.split(command)[4:], {"SMG_PORT": "abc"})
    assert refusal.value.problems == shown


def requests(text):
    """(method, path, body) of every curl command that sends one."""
    for words in commands(text):
        if words[:1] == ["curl"] and "-d" in words:
            url = next(word for word in words if word.startswith("http://"))
            method = words[words.index("-X") + 1] if "-X" in words else "POST"
            yield method, urlsplit(url).path, words[words.index("-d") + 1].encode()


def test_every_body_that_is_sent_would_be_accepted(text):
    kinds = {endpoint.path: endpoint.kind for endpoint in (*forwarded.ENDPOINTS, *decisions.ENDPOINTS)}
    for method, path, body in requests(text):
        if path in kinds:
            assert violations(decode(kinds[path], body)) == []
        elif path == "/sim/faults":
            parse_fault(json.loads(body))
        elif path.startswith("/v1/rl/"):
            json.loads(body)
        elif path.startswith("/workers"):
            (parse_patch if method == "PATCH" else parse_spec)(body)
        else:
            raise AssertionError(f"no example should send a body to {path}")


@pytest.mark.parametrize(
    ("place", "path"), [("README.md", "/v1/chat/completions"), ("docs/guides/workers.md", "/workers")]
)
def test_requests_are_found_where_they_are_shown(root, place, path):
    assert path in {asked for _, asked, _ in requests((root / place).read_text(encoding="utf-8"))}


def test_every_json_block_is_json(text):
    for block in blocks(text, "json"):
        for line in [block] if block.count("\n{") == 0 else block.splitlines():
            json.loads(line)


def test_every_python_block_is_python(text):
    for block in blocks(text, "python"):
        ast.parse(block)
