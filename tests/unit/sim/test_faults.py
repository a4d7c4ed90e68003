import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.faults import FAULT_KINDS, Fault, FaultTable, fault_spec, parse_fault, parse_fault_spec


def table(*faults, random=lambda: 0.5):
    return FaultTable(faults, random)


def test_the_first_rule_that_fits_applies():
    rules = table(Fault("/a", "error", status=501), Fault("*", "hang"))
    assert rules.take("/a").status == 501
    assert rules.take("/b").kind == "hang"


def test_a_path_without_a_rule_is_left_alone():
    assert table(Fault("/a")).take("/b") is None


def test_a_counted_rule_wears_out():
    rules = table(Fault("/a", count=2))
    assert rules.rows()[0]["left"] == 2
    assert [rules.take("/a") is not None for _ in range(3)] == [True, True, False]
    assert not rules
    assert rules.applied == 2


def test_an_uncounted_rule_does_not():
    rules = table(Fault("/a"))
    assert all(rules.take("/a") for _ in range(100))


def test_probability_is_asked_of_the_dice():
    rules = table(Fault("/a", probability=0.5), random=iter([0.4, 0.5, 0.6]).__next__)
    assert [rules.take("/a") is not None for _ in range(3)] == [True, False, False]


def test_clearing_drops_all_rules():
    rules = table(Fault(), Fault())
    assert rules.clear() == 2
    assert rules.rows() == []


def test_a_rule_is_read_from_an_object():
    assert parse_fault({"kind": "latency", "path": "/a", "ms": 20, "probability": 0.1}) == Fault(
        "/a", "latency", ms=20, probability=0.1
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "kind is missing"),
        ({"kind": "explode"}, "kind must be one of"),
        ({"kind": ["error"]}, "kind must be one of"),
        ({"kind": "error", "status": 99}, "status must be"),
        ({"kind": "error", "ms": -1}, "ms must be"),
        ({"kind": "error", "ms": True}, "ms must be"),
        ({"kind": "error", "count": 1.5}, "count must be"),
        ({"kind": "error", "probability": 2}, "probability must be"),
        ({"kind": "error", "path": "v1"}, "path must be"),
        ({"kind": "error", "colour": "red"}, "unknown field 'colour'"),
        ([], "a fault is a JSON object"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(values, problem):
    with pytest.raises(ValueError, match=problem):
        parse_fault(values)


@given(
    st.builds(
        Fault,
        path=st.sampled_from(["*", "/v1/chat/completions"]),
        kind=st.sampled_from(FAULT_KINDS),
        status=st.integers(200, 599),
        ms=st.floats(0, 1e4),
        after_events=st.integers(0, 9),
        count=st.integers(0, 9),
        probability=st.floats(0, 1),
    )
)
def test_a_rule_prints_and_reads_back(fault):
    assert parse_fault_spec(fault_spec(fault)) == fault


def test_a_spec_without_equals_is_refused():
    with pytest.raises(ValueError, match="'error' is not of the form"):
        parse_fault_spec("error")


def test_a_reset_before_the_answer_is_no_matter_of_its_shape():
    assert not Fault(kind="reset").shapes_answer
    assert Fault(kind="reset", after_events=1).shapes_answer
