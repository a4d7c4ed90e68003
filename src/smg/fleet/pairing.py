"""Which prefill engine can hand its cache to which decode engine.

Two legs fit unless something known about both says otherwise: an explicit `pairing_protocol` label on both settles it;
else the runtime, the KV transport and the layout of the cache must not differ where both are known. Engines tell little
of themselves, so what is not known does not refuse a pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from smg.fleet.worker import Worker

PROTOCOL_LABEL = "pairing_protocol"
# What two legs must agree on when both state it, by label.
LAYOUT_LABELS = ("kv_cache_dtype", "page_size", "block_size", "attention_backend", "model_dtype")


def compatible(prefill: Worker, decode: Worker) -> bool:
    """Whether the two can be legs of one request."""
    ours, theirs = prefill.labels.get(PROTOCOL_LABEL), decode.labels.get(PROTOCOL_LABEL)
    if ours and theirs:
        return ours == theirs
    if prefill.runtime != decode.runtime:
        return False
    connectors = [kv_connector(worker) for worker in (prefill, decode)]
    if all(connectors) and connectors[0] != connectors[1]:
        return False
    return not any(
        label in prefill.labels and label in decode.labels and prefill.labels[label] != decode.labels[label]
        for label in LAYOUT_LABELS
    )


def partners(prefill: Worker, decodes: Sequence[Worker]) -> list[Worker]:
    """The decode workers that fit a prefill worker."""
    return [decode for decode in decodes if compatible(prefill, decode)]


def kv_connector(worker: Worker) -> str:
    """The registered KV connector in lower case, without its customary suffix; "" if none is known."""
    spec = worker.spec
    name = (spec.kv_connector if spec is not None else None) or worker.labels.get("kv_connector", "")
    return name.lower().removesuffix("connector")
