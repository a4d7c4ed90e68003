import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from smg.engines.merging import Merger

ENGINE = """\
# HELP sglang:num_running_reqs Running.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 3.0
# HELP e2e_seconds Time.
# TYPE e2e_seconds histogram
e2e_seconds_bucket{le="1.0"} 1.0
e2e_seconds_bucket{le="+Inf"} 2.0
e2e_seconds_sum 3.5
e2e_seconds_count 2.0
"""


def merge(**texts):
    merger = Merger()
    for name, text in texts.items():
        merger.feed(text, f"http://{name}")
    return merger.finish()


def test_every_series_says_which_engine_it_is_from():
    assert merge(a="up 1\n") == 'up{worker_addr="http://a"} 1\n'
    assert merge(a='up{x="1"} 1') == 'up{x="1",worker_addr="http://a"} 1\n'
    assert merge(a='up{x="1",} 1 1700000000') == 'up{x="1",worker_addr="http://a"} 1 1700000000\n'
    assert merge(a="up{} 1") == 'up{worker_addr="http://a"} 1\n'


def test_families_are_described_once_and_stay_together():
    lines = merge(a=ENGINE, b=ENGINE).splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        line for line in ENGINE.splitlines() if line.startswith("#")
    ]
    assert [re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")] == [
        *["sglang:num_running_reqs"] * 2,
        *(["e2e_seconds_bucket"] * 2 + ["e2e_seconds_sum", "e2e_seconds_count"]) * 2,
    ]


def test_a_family_that_only_one_engine_has_is_there():
    text = merge(a="", b="# TYPE x counter\nx_total 1\n# TYPE y gauge\ny 2\n")
    assert 'x_total{worker_addr="http://b"} 1' in text
    assert 'y{worker_addr="http://b"} 2' in text


def test_a_family_is_described_by_whoever_comes_first():
    text = merge(a="# HELP x one\n# TYPE x gauge\nx 1\n", b="# HELP x two\n# TYPE x counter\nx 2\n")
    assert "# HELP x one\n# TYPE x gauge\n" in text
    assert "two" not in text
    assert "counter" not in text


def test_only_histograms_and_summaries_have_parts():
    text = merge(
        a="# TYPE x counter\nx 1\nx_count 2\n# TYPE h summary\nh_count 3\n# TYPE h_sum gauge\nh_sum 4\n", b="x 5\n"
    )
    names = [re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")]
    assert names == ["x", "x", "x_count", "h_count", "h_sum"]
    assert "# TYPE h_sum gauge\nh_sum{" in text


def test_a_family_without_series_is_not_described():
    assert merge(a="# HELP x one\n# TYPE x gauge\n") == ""


def test_an_engine_s_own_label_of_that_name_is_renamed():
    assert merge(a='up{worker_addr="w",b="1"} 1') == 'up{exported_worker_addr="w",b="1",worker_addr="http://a"} 1\n'


def test_an_address_is_escaped():
    merger = Merger()
    merger.feed("up 1", 'http://a"\\')
    assert merger.finish() == 'up{worker_addr="http://a\\"\\\\"} 1\n'


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up x",
        "up 1 2 3",
        "up{ 1",
        'up{a="1} 1',
        'up{a="1" b="2"} 1',
        "up{a=1} 1",
        "1up 1",
        "up 1_000",
        "<html>",
        "{} 1",
        "# EOF",
        "#",
        "# TYPE",
        "# TYPE x bogus",
        "# just words",
        "\x00",
    ],
)
def test_what_is_no_line_of_the_format_is_dropped(line):
    assert merge(a=f"{line}\nup 1\n") == 'up{worker_addr="http://a"} 1\n'


@pytest.mark.parametrize("value", ["1", "+1.5", "-.5", "1e-9", "NaN", "+Inf", "-Inf", "5."])
def test_every_spelling_of_a_number_is_kept(value):
    assert merge(a=f"up {value}") == f'up{{worker_addr="http://a"}} {value}\n'


def test_lines_may_end_in_a_carriage_return():
    assert merge(a="# TYPE up gauge\r\nup 1\r\n") == '# TYPE up gauge\nup{worker_addr="http://a"} 1\n'


LINE = st.sampled_from(ENGINE.splitlines()) | st.text(alphabet='ab{}=",\\# 1\r\t', max_size=12)


@given(st.lists(st.lists(LINE).map("\n".join), max_size=3))
def test_the_result_can_always_be_scraped(texts):
    merger = Merger()
    for number, text in enumerate(texts):
        merger.feed(text, f"http://{number}")
    merged = merger.finish()
    samples = [sample for family in text_string_to_metric_families(merged) for sample in family.samples]
    assert len(samples) == len([line for line in merged.splitlines() if not line.startswith("#")])
    assert all(sample.labels["worker_addr"].startswith("http://") for sample in samples)
