"""Which prefill engine can hand its cache to which decode engine.

Two legs fit unless something known about both says otherwise: they must serve a common model; then an explicit
`pairing_protocol` label on both settles it; else the runtime, the KV transport and the layout of the cache must not
differ where both are known. Engines tell little of themselves, so what is not known does not refuse a pair.
"""

from __future__ import annotations

from typing import NamedTuple

from smg.fleet.worker import Worker

PROTOCOL_LABEL = "pairing_protocol"
# What two caches must agree on when both state it: for each fact the labels that may hold it.
LAYOUT_LABELS = (("kv_cache_dtype",), ("page_size", "block_size"), ("attention_backend",), ("model_dtype",))
_UNKNOWN = "?"


class Kind(NamedTuple):
    """What pairing looks at; workers of one kind have the same partners. Empty where nothing is known.

    `models` are canonical names, none standing for any; `layout` has a text for each of `LAYOUT_LABELS`.
    """

    models: frozenset[str]
    protocol: str
    runtime: str
    connector: str
    layout: tuple[str, ...]

    def __str__(self) -> str:
        """The pairing key that the worker API shows: the explicit protocol, else runtime, transport and layout."""
        if self.protocol:
            return self.protocol
        layout = ",".join([fact for fact in self.layout if fact])
        return "/".join([part or _UNKNOWN for part in (self.runtime, self.connector, layout)])


def kind_of(worker: Worker) -> Kind:
    """What pairing knows of a worker now; labels can be patched."""
    labels = worker.labels
    return Kind(
        models=frozenset([card.id for card in worker.models]),
        protocol=labels.get(PROTOCOL_LABEL, ""),
        runtime=worker.runtime,
        connector=kv_connector(worker),
        layout=tuple([_first(labels, names) for names in LAYOUT_LABELS]),
    )


def compatible(prefill: Kind, decode: Kind) -> bool:
    """Whether the two can be legs of one request. It does not matter which is which."""
    if prefill.models and decode.models and not prefill.models & decode.models:
        return False
    if prefill.protocol and decode.protocol:
        return prefill.protocol == decode.protocol
    ours = (prefill.runtime, prefill.connector, *prefill.layout)
    theirs = (decode.runtime, decode.connector, *decode.layout)
    return all(not a or not b or a == b for a, b in zip(ours, theirs, strict=True))


def kv_connector(worker: Worker) -> str:
    """The registered KV connector in lower case, without its customary suffix; "" if none is known."""
    name = (worker.spec.kv_connector if worker.spec is not None else None) or worker.labels.get("kv_connector", "")
    return name.lower().removesuffix("connector")


def kv_engine_id(worker: Worker) -> str | None:
    """The registered id of the worker's KV engine, that of its rank where it is one; None if none is known."""
    engine_id = (worker.spec.kv_engine_id if worker.spec is not None else None) or worker.labels.get("kv_engine_id")
    if not engine_id or worker.dp_rank is None:
        return engine_id or None
    return f"{engine_id}_dp{worker.dp_rank}"


def _first(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
