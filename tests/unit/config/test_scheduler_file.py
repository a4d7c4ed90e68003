import pytest

from smg.config.scheduler_file import read_scheduler_file
from smg.config.scheduler_rules import DEFAULT_CLASSES, ClassRules, Priority, SchedulerRules
from smg.errors import ConfigError

ENTRY = {
    "reserved_floor": "1",
    "queue_size": "0",
    "queue_timeout_secs": "3",
    "starvation_threshold_secs": "0.5",
    "can_preempt": "true",
}


def read(text):
    return read_scheduler_file("s.yaml", lambda _path: text)


def bulk(**changed):
    """A file with one class, on lines of its own from line 3 on."""
    fields = {**ENTRY, **changed}
    lines = [f"    {name}: {value}" for name, value in fields.items() if value is not None]
    return "\n".join(["classes:", "  bulk:", *lines])


def problems(text):
    with pytest.raises(ConfigError) as caught:
        read(text)
    for problem in caught.value.problems:
        assert problem.startswith("--priority-scheduler-config: ")
    return [problem.removeprefix("--priority-scheduler-config: ") for problem in caught.value.problems]


@pytest.mark.parametrize("text", ["", "# nothing", "{}", "classes:\ntenant_policies:\n"])
def test_what_is_not_said_is_built_in(text):
    assert read(text) == SchedulerRules()


def test_a_class_that_is_named_is_replaced_and_the_others_stay():
    rules = read(bulk(reserved_per_slot="0.5"))
    assert rules.classes[Priority.BULK] == ClassRules(1, 0, 3.0, 0.5, can_preempt=True, reserved_per_slot=0.5)
    for priority in (Priority.SYSTEM, Priority.INTERACTIVE, Priority.DEFAULT):
        assert rules.classes[priority] is DEFAULT_CLASSES[priority]


def test_the_share_may_be_left_out():
    assert read(bulk()).classes[Priority.BULK].reserved_per_slot == 0


def test_tenants_have_ceilings():
    rules = read("tenant_policies:\n  auth:a: {max_class: system}\n  'ip:::1': {max_class: bulk}\n")
    assert rules.max_class == {"auth:a": Priority.SYSTEM, "ip:::1": Priority.BULK}


@pytest.mark.parametrize(
    ("text", "complaint", "line"),
    [
        ("classes: 5", "classes must map names to values", 1),
        ("a: 1", "a is no known field", 1),
        ("- 1", "must map names to values", 1),
        ("\nclass:\n  bulk: {}", "class is no known field, did you mean classes?", 2),
        ("classes:\n  Bulk: {}", "classes.Bulk is no class, did you mean bulk?", 2),
        ("classes:\n  vip: {}", "classes.vip is no class", 2),
        (bulk(queue_size=None), "classes.bulk must have queue_size", 2),
        (bulk(queue_size="null"), "classes.bulk must have queue_size", 2),
        (bulk(color="red"), "classes.bulk.color is no known field", 8),
        (
            bulk(queue_size="-1"),
            "classes.bulk.queue_size must be a whole number of at least 0, got '-1'",
            4,
        ),
        (
            bulk(queue_size="1.5"),
            "classes.bulk.queue_size must be a whole number of at least 0, got '1.5'",
            4,
        ),
        (bulk(queue_size="[1]"), "classes.bulk.queue_size must be a whole number of at least 0", 4),
        (bulk(can_preempt="yes"), "classes.bulk.can_preempt must be one of true, false, got 'yes'", 7),
        (
            bulk(reserved_per_slot="25"),
            "classes.bulk.reserved_per_slot must be a number of at least 0 and of at most 1, got '25'",
            8,
        ),
        ("tenant_policies:\n  auth:a: {}", "tenant_policies.auth:a must have max_class", 2),
        (
            "tenant_policies:\n  auth:a: {max_class: vip}",
            "tenant_policies.auth:a.max_class must be one of system, interactive, default, bulk, got 'vip'",
            2,
        ),
        (
            "tenant_policies:\n  red: {max_class: bulk}",
            "tenant_policies.red must be auth:<tenant>, header:<value>, ip:<address> or anonymous",
            2,
        ),
        ("classes: {", "is not valid YAML", 1),
    ],
)
def test_a_problem_names_its_place_and_its_line(text, complaint, line):
    assert problems(text) == [f"{complaint} (from s.yaml:{line})"]


@pytest.mark.parametrize("name", ["queue_timeout_secs", "starvation_threshold_secs"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e300", "soon", "''"])
def test_times_are_above_zero(name, value):
    [problem] = problems(bulk(**{name: value}))
    assert problem.startswith(f"classes.bulk.{name} must be a number above 0")


def test_a_class_or_a_field_given_twice_is_refused():
    text = bulk() + "\n    queue_size: 7\n  bulk: {}\n"
    assert problems(text) == [
        "classes.bulk.queue_size is given twice (from s.yaml:8)",
        "classes.bulk is given twice (from s.yaml:9)",
    ]


def test_all_problems_are_reported_at_once():
    text = bulk(queue_size="-1", can_preempt="maybe") + "\ntenant_policies:\n  red: {max_class: vip}\n"
    assert len(problems(text)) == 4


def test_a_file_that_cannot_be_read_is_a_problem():
    def missing(path):
        raise FileNotFoundError(2, "No such file or directory", path)

    with pytest.raises(ConfigError) as caught:
        read_scheduler_file("s.yaml", missing)
    assert caught.value.problems == ["--priority-scheduler-config: cannot read 's.yaml': No such file or directory"]


def test_a_file_that_is_no_text_is_a_problem():
    def binary(_path):
        return b"\xff".decode()

    with pytest.raises(ConfigError) as caught:
        read_scheduler_file("s.yaml", binary)
    assert caught.value.problems == ["--priority-scheduler-config: cannot read 's.yaml': it is not UTF-8 text"]
