import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.checks import check
from smg.config.load import load
from smg.config.settings import OPTIONS, Settings
from smg.errors import ConfigError


class Files:
    """Files by name, as `load` reads them."""

    def __init__(self, **texts):
        self.texts = texts

    def __call__(self, path):
        try:
            return self.texts[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory", path) from None


def loaded(line="", environ=None, **files):
    return load(line.split(), environ or {}, Files(**files))


def problems(line="", environ=None, **files):
    with pytest.raises(ConfigError) as caught:
        loaded(line, environ, **files)
    return caught.value.problems


def test_without_any_source_the_defaults_are_in_force():
    found = loaded()
    assert found.settings == Settings()
    assert set(map(str, found.origins.values())) == {"default"}
    assert found.origins.keys() == {row.field for row in OPTIONS}


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default():
    environ = {"SMG_PORT": "2", "SMG_QUEUE_SIZE": "2"}
    found = loaded("--config f --port 1", environ, f="port: 3\nqueue_size: 3\nblock_size: 3\n")
    assert (found.settings.port, str(found.origins["port"])) == (1, "--port")
    assert (found.settings.queue_size, str(found.origins["queue_size"])) == (2, "SMG_QUEUE_SIZE")
    assert (found.settings.block_size, str(found.origins["block_size"])) == (3, "f:3")
    assert (found.settings.retry_max_retries, str(found.origins["retry_max_retries"])) == (5, "default")


def test_the_file_may_be_named_by_a_variable_and_the_flag_beats_it():
    assert loaded("", {"SMG_CONFIG": "f"}, f="port: 7").settings.port == 7
    assert loaded("--config g", {"SMG_CONFIG": "f"}, f="port: 7", g="port: 8").settings.port == 8


def test_a_list_of_a_higher_source_replaces_the_one_below():
    found = loaded("--worker-urls http://a", {"SMG_WORKER_URLS": "http://b,http://c"})
    assert found.settings.worker_urls == ("http://a",)


def test_a_flag_can_undo_what_the_file_turned_on():
    assert loaded("--config f", f="disable_retries: true").settings.disable_retries is True
    assert loaded("--config f --disable-retries=false", f="disable_retries: true").settings.disable_retries is False


def test_values_arrive_typed_and_in_one_spelling():
    settings = loaded(
        "--worker-urls http://a/ http://a --worker-urls http://b --request-id-headers X-Me --sticky-sessions"
        " --request-timeout-secs 2 --model-alias a=b --model-alias c=d --prometheus-duration-buckets 0.5 1,2"
    ).settings
    assert settings.worker_urls == ("http://a", "http://b")
    assert settings.request_id_headers == ("x-me",)
    assert isinstance(settings.request_timeout_secs, float)
    assert settings.model_alias == ("a=b", "c=d")
    assert settings.routing_key_override is True
    assert settings.prometheus_duration_buckets == (0.5, 1.0, 2.0)


def test_all_problems_of_all_sources_are_reported_at_once():
    found = problems(
        "--port 0 --queue-size 5 --no-such-flag --config f --block-size abc --assignment-mode bogus",
        {"SMG_QUEUE_TIMEOUT_SECS": "0"},
        f="nonsense: 1\nlog_level: loud\n",
    )
    assert found == [
        "--no-such-flag: unknown flag",
        "f:1: unknown key 'nonsense'",
        "--block-size: must be a whole number, got 'abc'",
        "--assignment-mode: must be one of random, min_load, min_group, delegate, got 'bogus'",
        "--log-level: must be one of debug, info, warn, error, got 'loud' (from f:2)",
        "--port: must be at least 1, got 0",
        "--queue-timeout-secs: must be above 0 while --queue-size is 5, got 0 (from SMG_QUEUE_TIMEOUT_SECS)",
    ]


def test_a_bad_value_that_is_overridden_is_nobody_s_problem():
    assert loaded("--port 1", {"SMG_PORT": "abc"}).settings.port == 1


def test_a_value_that_cannot_be_read_is_not_judged_by_its_default():
    # With the default size, a queue that nobody may wait in would be a second problem.
    assert problems("--queue-size abc --queue-timeout-secs 0") == ["--queue-size: must be a whole number, got 'abc'"]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--policy power_of_two --worker-urls http://127.0.0.1:1", "--worker-urls"),
        ("--worker-urls 127.0.0.1:1", "127.0.0.1:1"),
        ("--worker-urls ftp://h:1", "ftp"),
        ("--worker-urls grpc://h:1", "not supported yet"),
        ("--routing-key-headers bad:header", "--routing-key-headers"),
        ("--request-id-headers bad:header", "--request-id-headers"),
        ("--model-alias a=a", "--model-alias"),
        ("--model-alias a=b --model-alias a=c", "--model-alias"),
        ("--model-alias nonsense", "--model-alias"),
        ("--assignment-mode bogus", "--assignment-mode"),
        ("--power-of-two-load-metric x", "--power-of-two-load-metric"),
        ("--health-check-endpoint health", "--health-check-endpoint"),
        ("--api-key=", "--api-key"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(line, word):
    found = problems(line)
    assert len(found) == 1
    assert word in found[0]


@pytest.mark.parametrize(
    ("line", "environ", "start"),
    [
        ("--config gone", {}, "--config: cannot read 'gone': No such file"),
        ("", {"SMG_CONFIG": "gone"}, "--config: cannot read 'gone': No such file"),
        ("--config=", {}, "--config: must not be empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem(line, environ, start):
    found = problems(line, environ)
    assert len(found) == 1
    assert found[0].startswith(start)


def test_a_file_that_is_no_text_is_a_problem(tmp_path):
    path = tmp_path / "smg.yaml"
    path.write_bytes(b"port: \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(["--config", str(path)], {})


def test_a_file_is_read_from_disk(tmp_path):
    path = tmp_path / "smg.yaml"
    path.write_text("port: 7\n")
    found = load(["--config", str(path)], {})
    assert found.settings.port == 7
    assert str(found.origins["port"]) == f"{path}:1"


@pytest.mark.parametrize(
    ("line", "environ", "text"),
    [
        ("--api-key hush hush", {}, ""),
        ("--api-kye hush", {}, ""),
        ("--api-key hush --port 0", {}, ""),
        ("--port 0", {"SMG_API_KEY": "hush\n"}, ""),
        ("--port 0 --config f", {}, "api_key: hush"),
        ("--config f", {}, "api_key: [hush]"),
        ("--config f", {}, "api_key: *hush"),
        ("--worker-urls http://me:hush@h", {}, ""),
    ],
)
def test_no_problem_holds_a_secret(line, environ, text):
    assert "hush" not in "".join(problems(line, environ, f=text))


TOKENS = st.sampled_from(
    [flag for row in OPTIONS for flag in row.flags if row.field != "config"]
    + ["0", "-1", "1", "1.5", "a=b", "http://h:1", "x-y", "true", "random", "", "--", "nan"]
)


@given(st.lists(TOKENS, max_size=12))
def test_any_command_line_gives_settings_or_problems(tokens):
    try:
        settings = load(tokens, {}).settings
    except ConfigError:
        return
    assert check(settings, OPTIONS) == []


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("", None),
        ("--worker-overload-protection", True),
        ("--disable-worker-overload-protection", False),
        ("--worker-overload-protection --disable-worker-overload-protection", False),
    ],
)
def test_a_flag_that_is_neither_set_nor_unset_stays_open(line, value):
    assert loaded(line).settings.worker_overload_protection is value
    assert loaded("--config f", f="worker_overload_protection: null").settings.worker_overload_protection is None


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--remove-unhealthy-workers", True),
        ("--worker-auto-recovery", True),
        ("--no-remove-unhealthy-workers", False),
        ("--no-worker-auto-recovery", False),
    ],
)
def test_every_spelling_of_removing_unhealthy_workers_is_known(flag, value):
    assert loaded(flag).settings.remove_unhealthy_workers is value


PREFILLS = ("http://a:1 9001", "http://b none", "http://c")


def test_the_values_of_one_prefill_flag_belong_together():
    line = "--pd-disaggregation --prefill http://a:1 9001 --prefill http://b none --prefill http://c"
    assert loaded(line).settings.prefill == PREFILLS


def test_prefill_workers_of_the_other_sources_are_one_item_each():
    environ = {"SMG_PD_DISAGGREGATION": "1", "SMG_PREFILL": "http://a:1 9001, http://b none,http://c"}
    assert loaded("", environ).settings.prefill == PREFILLS
    listed = "pd_disaggregation: true\nprefill:\n  - http://a:1 9001\n  - http://b none\n  - http://c\n"
    assert loaded("--config f", f=listed).settings.prefill == PREFILLS
    assert loaded("--config f", f="pd_disaggregation: true\nprefill: http://a 9001").settings.prefill == (
        "http://a 9001",
    )


def test_a_prefill_flag_needs_a_worker():
    assert problems("--pd-disaggregation --prefill") == ["--prefill: needs a value"]
