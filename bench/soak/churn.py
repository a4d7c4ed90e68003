"""Workers that leave and come back by the worker API, while requests go on."""

import random
from dataclasses import dataclass, field
from http import HTTPStatus

from bench.soak.witness import Witness

# So often one is removed, and so long it stays away.
_EVERY_SECS = (0.5, 2.5)
_AWAY_SECS = (0.5, 4.0)
# How long a worker that is removed goes on with what it has before it leaves the list.
_DRAIN_SECS = (0, 1)


@dataclass(slots=True)
class Churn:
    """Call `step` often; it does what is due."""

    witness: Witness
    chance: random.Random
    due_at: float
    away: dict[str, float] = field(default_factory=dict)  # URL: when it comes back
    removed: int = 0

    def step(self, now: float) -> None:
        if now >= self.due_at:
            self.due_at = now + self.chance.uniform(*_EVERY_SECS)
            self._remove(now)
        for url in [url for url, at in self.away.items() if now >= at]:
            self._add(url)

    def settle(self) -> None:
        """Bring back all that are away."""
        for url in [*self.away]:
            self._add(url)

    def _remove(self, now: float) -> None:
        worker = self.chance.choice(self.witness.workers())
        if worker["url"] not in self.away:
            self.witness.call("DELETE", f"/workers/{worker['id']}")
            self.away[worker["url"]] = now + self.chance.uniform(*_AWAY_SECS)
            self.removed += 1

    def _add(self, url: str) -> None:
        """Register a worker; one that is still draining is not gone yet, and is tried again with the next step."""
        spec = {"url": url, "health": {"drain_settle_secs": self.chance.choice(_DRAIN_SECS)}}
        status, _ = self.witness.call("POST", "/workers", spec)
        if status == HTTPStatus.ACCEPTED:
            del self.away[url]
