import logging

import pytest

from smg.telemetry.families import (
    MAX_LABEL_CHARS,
    MAX_NAMED_VALUES,
    Family,
    Kind,
    ValueCap,
    clean,
    known_method,
    label_rules,
)
from smg.telemetry.instruments import Counter, Gauge, Histogram


def counters(*label_names: str, **options) -> Family[Counter]:
    rules = options.pop("rules", {})
    return Family("smg_things_total", "counter", label_names, help="Things.", make=Counter, rules=rules, **options)


def gauges(*label_names: str, **options) -> Family[Gauge]:
    rules = options.pop("rules", {})
    return Family("smg_level", "gauge", label_names, help="A level.", make=Gauge, rules=rules, **options)


def shown(family: Family[Counter] | Family[Gauge]) -> dict[tuple[str, ...], float]:
    return {labels: child.value for labels, child in family.recorded()}


def test_the_same_labels_give_the_same_child() -> None:
    family = counters("method", "path")
    child = family.labels("GET", "/a")
    assert family.labels("GET", "/a") is child
    assert family.labels("GET", "/b") is not child


def test_a_child_shows_from_its_first_record() -> None:
    family = counters("path")
    child = family.labels("/a")
    assert shown(family) == {}
    child.inc()
    assert shown(family) == {("/a",): 1}


def test_a_family_without_labels_has_one_child() -> None:
    family = gauges()
    family.labels().set(7)
    assert shown(family) == {(): 7}


@pytest.mark.parametrize("values", [(), ("a",), ("a", "b", "c")])
def test_a_wrong_number_of_label_values_is_refused(values: tuple[str, ...]) -> None:
    family = gauges("one", "two")
    with pytest.raises(ValueError, match="smg_level"):
        family.labels(*values)
    with pytest.raises(ValueError, match="smg_level"):
        family.function(*values, read=lambda: 1)


def test_models_beyond_the_cap_share_the_series_other() -> None:
    family = counters("model", rules=label_rules())
    for number in range(MAX_NAMED_VALUES + 3):
        family.labels(f"m{number}").inc()
    values = shown(family)
    assert len(values) == MAX_NAMED_VALUES + 1
    assert values["other",] == 3
    assert family.labels("m5") is not family.labels("other")


def test_the_cap_on_models_is_shared_by_families() -> None:
    rules = {"model": ValueCap(2)}
    first, second = counters("model", rules=rules), counters("model", rules=rules)
    first.labels("a").inc()
    first.labels("b").inc()
    second.labels("b").inc()
    second.labels("c").inc()
    assert shown(second) == {("b",): 1, ("other",): 1}


def test_the_cap_holds_for_one_label_and_leaves_the_others() -> None:
    family = counters("model", "endpoint", rules={"model": ValueCap(1)})
    family.labels("a", "chat").inc()
    family.labels("b", "chat").inc()
    family.labels("c", "generate").inc()
    assert shown(family) == {("a", "chat"): 1, ("other", "chat"): 1, ("other", "generate"): 1}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_usual_methods_stand_for_themselves(method: str) -> None:
    assert known_method(method) == method


@pytest.mark.parametrize("method", ["PURGE", "get", "", "X" * 9000])
def test_other_methods_are_counted_together(method: str) -> None:
    family = counters("method", rules=label_rules())
    family.labels(method).inc()
    assert shown(family) == {("OTHER",): 1}


def test_a_full_family_sends_new_series_to_one_child() -> None:
    family = counters("path", "code", max_children=2)
    for number in range(5):
        family.labels(f"/{number}", "200").inc()
    assert shown(family) == {("/0", "200"): 1, ("/1", "200"): 1, ("other", "other"): 3}


def test_a_full_family_still_counts_what_it_knows() -> None:
    family = counters("path", max_children=1)
    family.labels("/a").inc()
    family.labels("/b").inc()
    family.labels("/a").inc()
    assert shown(family)["/a",] == 2


def test_label_values_are_cut() -> None:
    assert clean("x" * 10_000) == "x" * MAX_LABEL_CHARS


@pytest.mark.parametrize("char", ["\n", "\r", "\x00", "\x85", "\u2028", "\ud800"])
def test_label_values_lose_what_cannot_be_printed(char: str) -> None:
    assert clean(f"a{char}b") == "a\ufffdb"


def test_ordinary_label_values_stay() -> None:
    assert clean('Qwen/Qwen3-8B é "quoted" \\') == 'Qwen/Qwen3-8B é "quoted" \\'


def test_removing_a_worker_ends_its_series_and_no_other() -> None:
    family = counters("worker", "outcome")
    for worker in ("http://a", "http://b"):
        for outcome in ("success", "failure"):
            family.labels(worker, outcome).inc()
    assert family.remove_matching(worker="http://a") == 2
    assert set(shown(family)) == {("http://b", "success"), ("http://b", "failure")}


def test_removal_can_ask_for_several_labels() -> None:
    family = counters("worker", "from", "to")
    family.labels("w", "closed", "open").inc()
    family.labels("w", "open", "half_open").inc()
    assert family.remove_matching(worker="w", to="open") == 1
    assert set(shown(family)) == {("w", "open", "half_open")}


def test_a_removed_child_that_is_still_held_shows_nothing() -> None:
    family = counters("worker")
    child = family.labels("w")
    child.inc()
    family.remove_matching(worker="w")
    child.inc()
    assert shown(family) == {}


def test_a_worker_that_comes_back_starts_anew() -> None:
    family = counters("worker")
    family.labels("w").inc(5)
    family.remove_matching(worker="w")
    family.labels("w").inc()
    assert shown(family) == {("w",): 1}


def test_removal_finds_a_value_that_was_cut() -> None:
    family = counters("worker")
    family.labels("w" * 1000).inc()
    assert family.remove_matching(worker="w" * 1000) == 1


def test_removal_by_an_unknown_label_is_refused() -> None:
    with pytest.raises(ValueError, match="model"):
        counters("worker").remove_matching(model="m")


def test_a_function_is_asked_at_each_reading() -> None:
    family = gauges("worker")
    loads = [1, 2]
    family.function("w", read=loads.pop)
    assert family.readings() == {("w",): 2}
    assert family.readings() == {("w",): 1}


def test_a_function_without_an_answer_shows_nothing() -> None:
    family = gauges("worker")
    family.function("w", read=lambda: None)
    assert family.readings() == {}


def test_removal_ends_functions_too() -> None:
    family = gauges("worker")
    family.function("a", read=lambda: 1)
    family.function("b", read=lambda: 2)
    assert family.remove_matching(worker="a") == 1
    assert family.readings() == {("b",): 2}


def test_a_source_gives_series_that_come_and_go() -> None:
    family = gauges("model", "tree")
    rows = {("a", "string"): 3}
    family.source(rows.items)
    assert family.readings() == {("a", "string"): 3}
    rows.clear()
    assert family.readings() == {}


def test_series_of_a_source_that_fold_together_are_summed() -> None:
    family = gauges("model", rules={"model": ValueCap(1)})
    family.source(lambda: [(("a",), 1), (("b",), 2), (("c",), 3)])
    assert family.readings() == {("a",): 1, ("other",): 5}


def test_a_callback_that_raises_is_logged_and_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    family = gauges("worker")
    family.function("bad", read=lambda: 1 / 0)
    family.function("good", read=lambda: 1)
    family.source(lambda: [(("too", "many"), 1)])
    with caplog.at_level(logging.ERROR):
        assert family.readings() == {("good",): 1}
    assert [record.name for record in caplog.records] == ["smg.telemetry", "smg.telemetry"]


@pytest.mark.parametrize("kind", ["histogram", "summary"])
def test_histograms_and_summaries_take_no_callbacks(kind: Kind) -> None:
    family = Family("smg_x_seconds", kind, (), help="X.", make=lambda: Histogram((1,)), rules={})
    with pytest.raises(TypeError, match=kind):
        family.function(read=lambda: 1)
    with pytest.raises(TypeError, match=kind):
        family.source(list)
