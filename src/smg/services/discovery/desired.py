"""A worker that should be there, as a source names it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from smg.fleet.spec import WorkerSpec

# Labels by which an operator sees who registered a worker.
PROVIDER_LABEL = "smg.ai/discovery-provider"
ID_LABEL = "smg.ai/discovery-id"


@dataclass(frozen=True, slots=True)
class Desired:
    """One worker that a source names.

    `key` is its identity at the source: what has another key is another worker, at whatever address. `renamed` says
    that the spec gives its model a name that the engine does not know; the engine's own then becomes an alias.
    """

    key: str
    spec: WorkerSpec
    renamed: bool = False

    def wanted(self, own_name: str | None) -> WorkerSpec:
        """The spec to register, once it is known what the engine calls its model (None: not yet)."""
        if not self.renamed or own_name is None or not self.spec.models:
            return self.spec
        first, *others = self.spec.models
        if own_name in {first.id, *first.aliases}:
            return self.spec
        renamed = replace(first, aliases=(*first.aliases, own_name))
        return msgspec.structs.replace(self.spec, models=(renamed, *others))


def with_scheme(address: str) -> str:
    """An address as a URL: a bare `host:port` speaks HTTP."""
    return address if "://" in address else f"http://{address}"
