from dataclasses import replace

import pytest

from smg.fleet.pairs import PairNeeds
from smg.fleet.snapshot import Snapshot
from smg.serving.body_path import BodyPathOptions, reason_by_length, standing_reason

PLAIN = BodyPathOptions(sticky_override=False, retries=True, max_buffered_bytes=100)
TEXT, NOTHING = PairNeeds(reads_text=True, reads_keys=False), PairNeeds(reads_text=False, reads_keys=False)
ONE_MODEL, TWO_MODELS = Snapshot(models={"m": ()}), Snapshot(models={"m": (), "n": ()})
RANKED = replace(ONE_MODEL, ranked=True)


def reason(options=PLAIN, snapshot=ONE_MODEL, policy=NOTHING, length=1000, *, hint=False):
    standing = standing_reason(options, snapshot, policy, has_token_hint=hint)
    return reason_by_length(options, length) if standing is None else (True, standing)


@pytest.mark.parametrize(
    ("given", "buffers", "because"),
    [
        ({"options": replace(PLAIN, pairs=True)}, True, "pd"),
        ({"options": replace(PLAIN, sticky_override=True)}, True, "routing_key_override"),
        ({"policy": TEXT}, True, "policy_needs_text"),
        ({"policy": TEXT, "hint": True}, False, "retry_forfeited"),
        ({"snapshot": TWO_MODELS}, True, "model_ambiguous"),
        ({"snapshot": RANKED}, True, "worker_mutates_body"),
        ({"length": None}, True, "no_content_length"),
        ({"length": 100}, True, "retryable"),
        ({"length": 101}, False, "retry_forfeited"),
        ({"options": replace(PLAIN, retries=False), "length": 1}, False, "pure_forward"),
        ({"options": replace(PLAIN, retries=False)}, False, "pure_forward"),
    ],
)
def test_a_body_is_read_where_somebody_needs_it(given, buffers, because):
    assert reason(**given) == (buffers, because)


def test_the_first_reason_that_applies_is_the_one_that_counts():
    everything = {
        "options": replace(PLAIN, pairs=True, sticky_override=True),
        "policy": TEXT,
        "snapshot": replace(TWO_MODELS, ranked=True),
        "length": None,
    }
    seen = [reason(**everything)[1]]
    for name, value in (
        ("options", replace(PLAIN, sticky_override=True)),
        ("options", PLAIN),
        ("policy", NOTHING),
        ("snapshot", RANKED),
        ("snapshot", ONE_MODEL),
        ("length", 1),
    ):
        everything[name] = value
        seen.append(reason(**everything)[1])
    assert seen == [
        "pd",
        "routing_key_override",
        "policy_needs_text",
        "model_ambiguous",
        "worker_mutates_body",
        "no_content_length",
        "retryable",
    ]
