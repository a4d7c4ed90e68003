"""The published gateway: installed by pip into an environment of its own, run by its command, never imported.

It owns the import name `smg` too, so it must stay off the import path of this project.
"""

import subprocess
import sys
from pathlib import Path

VERSION = "1.13.0"
_REQUIREMENT = f"smg=={VERSION}"
_INSTALL_SECS = 600


def command(venv: Path) -> Path:
    return venv / "bin" / "smg"


def installed_version(venv: Path) -> str | None:
    """What the environment's package index says is installed, None without the package or the environment."""
    python = venv / "bin" / "python"
    if not (python.exists() and command(venv).exists()):
        return None
    code = "from importlib.metadata import version; print(version('smg'))"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=venv)
    return found.stdout.strip() or None


def ensure_installed(venv: Path) -> None:
    """Create the environment and install the pinned version, unless it is there.

    Raises:
        RuntimeError: with pip's words, when the installation fails.
    """
    found = installed_version(venv)
    if found == VERSION:
        return
    print(f"installing {_REQUIREMENT} into {venv} ...", flush=True)
    if not (venv / "bin" / "python").exists():
        _run([sys.executable, "-m", "venv", str(venv)])
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", _REQUIREMENT])
    if installed_version(venv) != VERSION:
        raise RuntimeError(f"{venv} does not hold {_REQUIREMENT} after its installation")


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_INSTALL_SECS, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed:\n{done.stderr.strip()[-2000:]}")
