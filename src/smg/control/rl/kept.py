"""Where the large answers of a fan-out wait for the last one: in memory, and beyond a bound in a file.

The report cannot begin before all outcomes are known, and a fan-out may have any number of targets. So what it takes in
memory depends on the bound and on the calls under way, and not on the fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from smg.errors import GatewayError
from smg.net.spool import Spool

MAX_MEMORY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """Some bytes in a file."""

    spool: Spool
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    async def read(self) -> bytes:
        """The bytes. Raises GatewayError if the disk does not give them back."""
        pieces = []
        at, end = self.offset, self.offset + self.size
        while at < end:
            pieces.append(await self.spool.read(at, end - at))
            at += len(pieces[-1])
        return b"".join(pieces)


class Keeper:
    """Keeps the answers of one fan-out until it is closed. One call at a time."""

    def __init__(self, max_memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._room = max_memory_bytes
        self._spool: Spool | None = None
        self._full = False

    async def keep(self, data: bytes) -> bytes | Kept:
        """Keep some bytes; what comes back has them, or knows where they are."""
        if len(data) <= self._room or self._full:
            self._room -= len(data)
            return data
        spool = self._spool = self._spool or Spool(memory_bytes=0)
        kept = Kept(spool, spool.size, len(data))
        try:
            await spool.write([data])
        except GatewayError:  # a full disk costs memory, and nobody's answer
            self._full = True
            return data
        return kept

    def close(self) -> None:
        """Give everything up."""
        if self._spool is not None:
            self._spool.close()
