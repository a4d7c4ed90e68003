"""A file that lists the workers, watched for changes.

It is looked at twice a second, and read when it changed and then stood still for one look, so that a file that is being
written is not taken for the whole. It is also read at an interval, which finds changes that leave no trace in its size
and time. A file that is missing or wrong changes nothing: the workers of the last good one stay.

All touching of the file happens on a thread, for it may lie on a disk that hangs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from smg.services.discovery.bell import Bell
from smg.services.discovery.desired import Desired
from smg.services.discovery.manifest import ManifestError, Problem, read_manifest
from smg.services.discovery.reconciler import Reconciler
from smg.telemetry.logs import get_logger
from smg.telemetry.metrics import Metrics

log = get_logger("smg.services.discovery")

LOOK_SECS = 0.5
MAX_FILE_BYTES = 16 << 20
MAX_PROBLEMS_LOGGED = 10

# What a look at a file sees: when and how it was changed last. None if it is not there.
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Which file, and how often it is read without a sign of change. `api_key` is for workers that bring none."""

    path: Path
    check_interval_secs: float = 30.0
    look_secs: float = LOOK_SECS
    api_key: str | None = None

    def __repr__(self) -> str:  # the generated one would print the key
        return f"FileOptions({str(self.path)!r})"


class _Unreadable(Exception):  # noqa: N818  it is an outcome, not a fault
    """The file could not be read; the message says why."""


class FileSource:
    """Keeps the fleet as a file says."""

    def __init__(self, options: FileOptions, reconciler: Reconciler, bell: Bell, metrics: Metrics) -> None:
        self._options = options
        self._reconciler = reconciler
        self._bell = bell
        self._errors = metrics.discovery_snapshot_errors
        self._desired: list[Desired] | None = None
        self._digest = b""
        self._trouble = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        clock = asyncio.get_running_loop().time
        log.info("workers are discovered in a file", file=self._options.path)
        read, last, due = None, None, 0.0
        while True:
            stamp = await asyncio.to_thread(_look, self._options.path)
            if clock() >= due or stamp == last != read:
                read, due = stamp, clock() + self._options.check_interval_secs
                await self._read()
                self._pass()
            last = stamp
            if await self._bell.wait(self._options.look_secs):
                self._pass()

    def _pass(self) -> None:
        if self._desired is not None:
            self._reconciler.apply(self._desired)

    async def _read(self) -> None:
        try:
            found = await asyncio.to_thread(self._load)
        except _Unreadable as trouble:
            self._complain("unreadable", str(trouble), [str(trouble)])
        except ManifestError as error:
            self._complain("invalid", str(error), [str(problem) for problem in error.problems])
        else:
            if self._trouble:
                log.info("discovery file is good again", file=self._options.path)
            self._trouble = ""
            if found is not None:
                self._desired = found
                log.info("discovery file read", file=self._options.path, workers=len(found))

    def _load(self) -> list[Desired] | None:
        """The workers that the file names; None if it is the file that was read last. Runs on a thread."""
        content = _content(self._options.path)
        digest = blake2b(content).digest()
        if digest == self._digest:
            return None
        self._digest = b""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ManifestError([Problem(1, "is not UTF-8 text")]) from None
        workers = read_manifest(text, self._options.api_key)
        self._digest = digest
        return workers

    def _complain(self, reason: str, trouble: str, problems: list[str]) -> None:
        """Count a reading that failed, and log what is wrong, once."""
        self._errors.labels(self._reconciler.source, reason).inc()
        if trouble == self._trouble:
            return
        self._trouble = trouble
        kept = "none yet" if self._desired is None else f"{len(self._desired)} of the last good one"
        for problem in problems[:MAX_PROBLEMS_LOGGED]:
            log.warning("discovery file refused", file=self._options.path, problem=problem, workers=kept)


def _look(path: Path) -> Stamp:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _Unreadable(getattr(error, "strerror", None) or "it has no valid name") from None
    if len(content) > MAX_FILE_BYTES:
        raise _Unreadable(f"it is larger than {MAX_FILE_BYTES} bytes")
    return content
