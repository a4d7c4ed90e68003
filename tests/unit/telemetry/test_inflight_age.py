from smg.telemetry.inflight_age import count_by_age

BINS = [
    ("0", "30"), ("30", "60"), ("60", "180"), ("180", "300"), ("300", "600"), ("600", "1200"),
    ("1200", "3600"), ("3600", "7200"), ("7200", "14400"), ("14400", "28800"), ("28800", "86400"),
    ("86400", "+Inf"),
]  # fmt: skip


def test_every_bin_is_there_even_without_requests() -> None:
    assert count_by_age([]) == [(labels, 0) for labels in BINS]


def test_an_age_counts_in_one_bin_only() -> None:
    counts = dict(count_by_age([0, 29.9, 30, 30.1, 200, 90_000]))
    assert {labels: count for labels, count in counts.items() if count} == {
        ("0", "30"): 3,
        ("30", "60"): 1,
        ("180", "300"): 1,
        ("86400", "+Inf"): 1,
    }
