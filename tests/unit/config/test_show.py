import json

import pytest
import yaml

from smg.config.load import load
from smg.config.show import FORMATS, as_json, as_text, as_yaml

LINE = [
    *("--port", "1234", "--worker-urls", "http://a", "http://b", "--api-key", "hush", "--model-alias", "a=b"),
    *("--disable-retries", "--request-timeout-secs", "0.5", "--log-dir", "/tmp/it's: \\here # 1"),
    *("--assignment-mode", "min_load"),
]


@pytest.mark.parametrize("render", FORMATS.values(), ids=FORMATS.keys())
def test_a_secret_is_only_shown_as_set(render):
    shown = render(load(LINE, {}))
    assert "hush" not in shown
    assert "<set>" in shown
    assert "<set>" not in render(load([], {}))


def test_the_table_has_name_value_and_origin():
    lines = {line.split()[0]: line.split()[1:] for line in as_text(load(LINE, {"SMG_QUEUE_SIZE": "3"})).splitlines()}
    assert lines["port"] == ["1234", "--port"]
    assert lines["queue_size"] == ["3", "SMG_QUEUE_SIZE"]
    assert lines["worker_urls"] == ["http://a", "http://b", "--worker-urls"]
    assert lines["disable_retries"] == ["true", "--disable-retries"]
    assert lines["config"] == ["-", "default"]


def test_the_yaml_gives_the_same_settings_when_it_is_loaded_but_for_secrets():
    first = load(LINE, {})
    second = load(["--config", "f", "--api-key", "hush"], {}, lambda _path: as_yaml(first))
    differing = {name for name in first.origins if getattr(first.settings, name) != getattr(second.settings, name)}
    assert differing == {"config"}


def test_the_yaml_leaves_out_what_cannot_stand_in_a_file():
    document = yaml.safe_load(as_yaml(load(LINE, {})))
    assert document["port"] == 1234
    assert "api_key" not in document
    assert "config" not in document


def test_the_json_keeps_types():
    document = json.loads(as_json(load(LINE, {})))
    assert document["port"] == {"value": 1234, "origin": "--port"}
    assert document["worker_urls"]["value"] == ["http://a", "http://b"]
    assert document["disable_retries"]["value"] is True
    assert document["log_level"] == {"value": "info", "origin": "default"}
    assert document["prometheus_host"]["value"] is None
    assert document["api_key"] == {"value": "<set>", "origin": "--api-key"}
