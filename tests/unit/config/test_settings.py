from dataclasses import fields

import pytest

from smg.config.checks import check
from smg.config.options import POLICY_NAMES, PREFILL_POLICY_NAMES
from smg.config.settings import OPTIONS, Settings
from smg.config.values import convert, spell
from smg.fleet.policies import POLICIES, PREFILL_ONLY
from smg.fleet.policies import load as load_policy

ROWS = pytest.mark.parametrize("row", OPTIONS, ids=lambda row: row.field)


def test_the_defaults_are_sound():
    assert check(Settings(), OPTIONS) == []


def test_no_two_options_share_a_flag_or_a_variable():
    flags = [flag for row in OPTIONS for flag in (*row.flags, *row.off_flags)]
    variables = [row.env for row in OPTIONS]
    assert len(flags) == len(set(flags))
    assert len(variables) == len(set(variables))


def test_each_section_is_one_run_of_the_table():
    runs = [
        row.section
        for row, before in zip(OPTIONS, (None, *OPTIONS), strict=False)
        if not before or row.section != before.section
    ]
    assert len(runs) == len(set(runs))


@ROWS
def test_a_default_is_of_its_field_s_type_and_reads_back_from_its_spelling(row):
    if row.default is None or row.default == ():
        return
    texts = [spell(item) for item in row.default] if row.many else [spell(row.default)]
    value, complaints = convert(row, texts)
    assert complaints == []
    assert value == row.default
    assert isinstance(row.default[0] if row.many else row.default, row.item)


@ROWS
def test_an_option_says_what_it_does_in_sentences(row):
    assert row.summary.endswith(".")
    assert row.summary[0].isupper()


@ROWS
def test_the_condition_of_a_limit_names_a_field(row):
    if row.applies is not None:
        assert isinstance(getattr(Settings(), row.applies[0]), type(row.applies[1]))


@ROWS
def test_only_numbers_have_limits_and_only_texts_have_forms(row):
    if row.minimum is not None or row.above is not None or row.maximum is not None:
        assert row.item in {int, float}
    if row.form or row.choices:
        assert row.item is str
    if row.off_flags:
        assert row.item is bool
    if row.grouped:
        assert row.many
        assert row.item is str


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().port = 1


def test_the_default_policy_is_one_of_the_policies():
    assert Settings().policy in POLICY_NAMES


def test_what_the_command_line_offers_is_what_the_fleet_has():
    assert set(POLICY_NAMES) == set(POLICIES) - PREFILL_ONLY
    assert set(PREFILL_POLICY_NAMES) == set(POLICIES)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_an_option_of_a_policy_that_is_a_setting_has_the_settings_default(name):
    given, own = Settings(), load_policy(name).options()
    shared = [field.name for field in fields(own) if hasattr(given, field.name)]
    assert {each: getattr(own, each) for each in shared} == {each: getattr(given, each) for each in shared}
    assert len(shared) == len(fields(own))


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("port", 30000),
        ("prometheus_port", 29000),
        ("policy", "cache_aware"),
        ("max_concurrent_requests", -1),
        ("retry_max_retries", 5),
        ("cb_failure_threshold", 10),
        ("health_check_interval_secs", 60),
        ("max_payload_size", 512 * 1024 * 1024),
        ("request_id_headers", ("x-request-id", "x-correlation-id", "x-trace-id", "request-id")),
    ],
)
def test_the_defaults_others_rely_on(field, default):
    assert getattr(Settings(), field) == default


def test_the_key_is_not_in_the_repr():
    assert "hush" not in repr(Settings(api_key="hush"))
