import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import smg
from smg.app.cli import main
from smg.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SMG_")]:
        monkeypatch.delenv(name)


class Elsewhere:
    """A module of another room, as the command line finds it: one function that records its argument."""

    def __init__(self, monkeypatch, reference):
        self.calls = []
        self.answer = 0
        name, _, function = reference.partition(":")
        module = ModuleType(name)
        setattr(module, function, self._called)
        monkeypatch.setitem(sys.modules, name, module)

    def _called(self, argument):
        self.calls.append(argument)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def gateway(monkeypatch):
    return Elsewhere(monkeypatch, "smg.app.run:run")


@pytest.mark.parametrize("argv", [["launch", "--port", "1"], ["--port", "1"]])
def test_launch_runs_the_gateway_with_the_settings_and_returns_its_exit_code(gateway, argv):
    gateway.answer = 7
    assert main(argv) == 7
    assert [settings.port for settings in gateway.calls] == [1]


def test_launch_without_a_flag_starts_with_the_defaults(gateway):
    assert main(["launch"]) == 0
    assert [settings.port for settings in gateway.calls] == [30000]


def test_launch_reads_the_environment(gateway, monkeypatch):
    monkeypatch.setenv("SMG_PORT", "5")
    assert main(["launch"]) == 0
    assert [settings.port for settings in gateway.calls] == [5]


def test_problems_go_to_stderr_one_a_line_and_nothing_is_started(gateway, capsys):
    assert main(["launch", "--port", "0", "--no-such-flag", "--api-key", ""]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "--no-such-flag: unknown flag",
        "--api-key: must not be empty",
        "--port: must be at least 1, got 0",
    ]
    assert gateway.calls == []


def test_a_gateway_that_finds_a_problem_at_its_start_is_reported_in_the_same_way(gateway, capsys):
    gateway.answer = ConfigError(["--port: 1 is taken"])
    assert main(["launch"]) == 2
    assert capsys.readouterr().err == "--port: 1 is taken\n"


@pytest.mark.parametrize(("command", "reference"), [("serve", "smg.app.serve:main"), ("sim", "smg.sim.cli:main")])
def test_other_commands_get_the_rest_of_the_command_line(monkeypatch, command, reference):
    other = Elsewhere(monkeypatch, reference)
    other.answer = 3
    assert main([command, "--anything", "x"]) == 3
    assert other.calls == [["--anything", "x"]]


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_the_overview_names_the_commands(capsys, argv):
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(f"  {command} " in out for command in ("launch", "serve", "sim", "config"))


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"smg {smg.__version__}\n"


@pytest.mark.parametrize(
    "argv",
    [["launch", "--help"], ["launch", "--port", "0", "-h"], ["--port", "1", "--help"], ["config", "-h"]],
)
def test_help_lists_the_flags_and_starts_nothing(gateway, capsys, argv):
    assert main(argv) == 0
    assert "--worker-urls URL" in capsys.readouterr().out
    assert gateway.calls == []


def test_an_unknown_command_is_refused_with_a_suggestion(capsys):
    assert main(["lunch"]) == 2
    assert "did you mean launch?" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["config"], ["config", "shw"]])
def test_config_can_only_show(capsys, argv):
    assert main(argv) == 2
    assert "smg config show" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--format", "json", "--port", "5"], ["--port", "5", "--format=json"]])
def test_config_show_prints_values_and_origins(gateway, capsys, flags):
    assert main(["config", "show", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["port"] == {"value": 5, "origin": "--port"}
    assert gateway.calls == []


def test_config_show_prints_a_table_by_default(capsys):
    assert main(["config", "show"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["port", "30000", "default"]


def test_config_show_does_not_print_a_secret(capsys, monkeypatch):
    monkeypatch.setenv("SMG_API_KEY", "hush")
    assert main(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert "hush" not in out
    assert "<set>" in out


@pytest.mark.parametrize("flags", [["--format", "xml"], ["--format"], ["--format="]])
def test_a_bad_format_is_reported_with_the_other_problems(capsys, flags):
    assert main(["config", "show", "--port", "0", *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("--format: must be one of text, yaml, json")
    assert lines[1:] == ["--port: must be at least 1, got 0"]


def test_a_bad_format_alone_is_refused(capsys):
    assert main(["config", "show", "--format", "xml"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("argv", [["--help"], ["launch", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(argv):
    # Who asks for help wants an answer at once, also where the gateway's own needs are not installed.
    code = (
        "import sys; from smg.app.cli import main; main(sys.argv[1:]);"
        "heavy = {'uvloop', 'msgspec', 'prometheus_client', 'yaml', 'asyncio'} & sys.modules.keys();"
        "sys.exit(','.join(heavy) or 0)"
    )
    source = str(Path(smg.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", code, *argv],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert (result.returncode, result.stderr) == (0, "")
