"""The client runs where nothing but Python is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

import smg

# Without site packages, and with a finder in front of all others that lets only Python's own and this package through.
SCRIPT = """
import sys
sys.path.insert(0, {sources!r})

class OnlyPython:
    def find_spec(self, name, path=None, target=None):
        ours = name == "smg" or (name + ".").startswith("smg.rl.")
        if not ours and name.split(".")[0] not in sys.stdlib_module_names:
            raise ImportError(f"{{name}} is not to be imported")

sys.meta_path.insert(0, OnlyPython())
import {module}
ours = sorted(name for name in sys.modules if name.split(".")[0] == "smg")
others = {{name.split(".")[0] for name in sys.modules}} - sys.stdlib_module_names - {{"__main__", "smg"}}
print(" ".join(ours), "|", " ".join(sorted(others)), "|", "asyncio" in sys.modules)
"""


def imported(module):
    script = SCRIPT.format(sources=str(Path(smg.__file__).parents[1]), module=module)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, others, loop = (part.strip() for part in done.stdout.split("|"))
    return ours.split(), others, loop == "True"


@pytest.mark.parametrize("module", ["smg.rl", "smg.rl.aio"])
def test_nothing_is_imported_but_python_and_the_client_itself(module):
    ours, others, _ = imported(module)
    assert all(name == "smg" or name.startswith("smg.rl") for name in ours)
    assert module in ours
    assert others == ""


def test_the_blocking_client_brings_no_event_loop():
    ours, _, loop = imported("smg.rl")
    assert not loop
    assert not [name for name in ours if name.startswith("smg.rl.aio")]


def test_the_guard_of_these_tests_guards():
    script = SCRIPT.format(sources=str(Path(smg.__file__).parents[1]), module="smg.config.load")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert "is not to be imported" in done.stderr
