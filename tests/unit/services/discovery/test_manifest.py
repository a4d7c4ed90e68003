import json

import pytest

from smg.fleet.worker import ModelCard
from smg.services.discovery.manifest import ManifestError, read_manifest


def urls(text):
    return [worker.spec.url for worker in read_manifest(text, None)]


def problems(text):
    """What is wrong with a file, by line."""
    with pytest.raises(ManifestError) as refusal:
        read_manifest(text, None)
    return [(problem.line, problem.text) for problem in refusal.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "- http://a\n- b:1\n",
        '["http://a", "b:1"]',
        '[\n\t"http://a",\n\t{"url":\t"b:1"}\n]\n',
        "workers:\n  - http://a\n  - url: b:1\n",
        '{"version": 1, "workers": [{"id": "x", "url": "http://a"}, {"id": "y", "url": "b:1"}]}',
        "version: 1\nworkers: [http://a, {url: 'b:1'}]",
    ],
)
def test_workers_are_listed_in_yaml_or_json_bare_or_under_a_name(text):
    assert urls(text) == ["http://a", "http://b:1"]


@pytest.mark.parametrize("text", ["[]", "workers: []", '{"version": 1, "workers": []}'])
def test_a_fleet_without_workers_is_said_outright(text):
    assert urls(text) == []


@pytest.mark.parametrize("text", ["", "# nothing\n", "null", "{}", "version: 1\n", "http://a", "workers:\n"])
def test_a_file_without_a_list_is_refused_for_it_may_be_half_written(text):
    assert [line for line, _ in problems(text)] == [1]
    assert "list of workers" in problems(text)[0][1]


def test_an_entry_takes_what_the_worker_api_takes():
    (worker,) = read_manifest(
        json.dumps(
            [
                {
                    "url": "https://a:8000/",
                    "worker_type": "prefill",
                    "runtime": "vllm",
                    "labels": {"zone": "eu"},
                    "models": [{"id": "m", "aliases": ["x"]}],
                    "priority": 3,
                    "bootstrap_port": 9000,
                    "health": {"drain_settle_secs": 0},
                    "is_healthy": True,
                }
            ]
        ),
        None,
    )
    spec = worker.spec
    assert (spec.url, spec.worker_type, spec.runtime_type) == ("https://a:8000", "prefill", "vllm")
    assert (spec.priority, spec.bootstrap_port, spec.health.drain_settle_secs) == (3, 9000, 0)
    assert spec.models == (ModelCard("m", aliases=("x",)),)
    assert spec.labels["zone"] == "eu"
    assert not worker.renamed


def test_a_worker_is_known_by_its_id_or_else_its_address():
    named, bare = read_manifest("- {id: x, url: http://a}\n- b:1", None)
    assert (named.key, bare.key) == ("x", "http://b:1")
    assert named.spec.labels == {"smg.ai/discovery-provider": "file", "smg.ai/discovery-id": "x"}


def test_a_model_id_renames_the_model_of_the_engine():
    (worker,) = read_manifest("[{url: http://a, model_id: mine}]", None)
    assert worker.spec.models == (ModelCard("mine"),)
    assert worker.renamed


def test_workers_without_a_key_get_the_gateway_s_unless_they_say_none():
    text = """
        - http://a
        - {url: http://b, api_key: own}
        - {url: http://c, api_key: ''}
        - {url: http://d, api_key: null}
        - https://api.openai.com
        - {url: http://e, runtime_type: external}
        - {url: https://api.x.ai, api_key: theirs}
    """
    keys = [worker.spec.api_key for worker in read_manifest(text, "shared")]
    assert keys == ["shared", "own", None, "shared", None, None, "theirs"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- http://a\n- [\n", 3, "neither valid YAML nor JSON"),
        ('[\n"http://a",\n"b"', 3, "neither valid YAML nor JSON"),
        ("- http://a\n-\n  url: ftp://b\n", 3, "url: must begin with"),
        ("- http://a\n- http://b:99999\n", 2, "url: the port"),
        ("- http://a\n- {labels: {x: y}}\n", 2, "url"),
        ("- http://a\n- 17\n", 2, "an address or an object"),
        ("- {url: http://a, priority: high}\n", 1, "priority"),
        ("- {url: http://a, labels: {zone: 1}}\n", 1, "labels.zone"),
        ("- {url: http://a, worker_type: chief}\n", 1, "worker_type"),
        ("- {url: http://a, id: 7}\n", 1, "id: must be a text"),
        ("- {url: http://a, model_id: [x]}\n", 1, "model_id: must be a text"),
        ("- {url: http://a, model_id: x, models: [{id: y}]}\n", 1, "beside models"),
        ("- {url: http://a, cost: !!python/name:os.system }\n", 1, "unknown type"),
        ('["http://a", "\\ud800"]', 1, "JSON cannot express"),
        ("version: 2\nworkers: []\n", 1, "version must be 1"),
        ("version: [1]\nworkers: []\n", 1, "version must be 1"),
        ("- http://b\n- &x {url: http://a, labels: *x}\n", 2, "nested too deeply"),
        ("- http://a\n\x00", 1, "characters"),
    ],
)
def test_a_problem_has_its_line(text, line, words):
    found = problems(text)
    assert len(found) == 1
    assert found[0][0] == line
    assert words in found[0][1]


def test_every_problem_is_found_at_once():
    assert [line for line, _ in problems("- ftp://a\n- http://b\n- 3\n- {url: http://c, cost: 0}\n")] == [1, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "- http://a\n- http://b\n- a\n",
        "- {id: x, url: http://a}\n\n- {id: x, url: http://b}\n",
        "- {id: x, url: http://a}\n- http://b\n- http://a/\n",
    ],
)
def test_a_worker_that_is_named_twice_is_a_problem(text):
    assert problems(text) == [(3, problems(text)[0][1])]
    assert "line 1" in problems(text)[0][1]


def test_workers_named_twice_on_one_line_are_found_too():
    assert problems('["http://a", "http://a"]') == [(1, "names 'http://a', as line 1 does")]


@pytest.mark.parametrize(
    "text",
    [
        "- {url: http://a, api_key: hush-hush, cost: x}\n",
        "- {url: http://a, api_key: [hush-hush]}\n",
        '- {url: http://a, api_key: "hush-\\x01hush"}\n',
        "- {url: 'ftp://me:hush-hush@a'}\n",
        "- {url: 'http://me:hush-hush@a'}\n",
        "- {url: http://a, api_key: hush-hush\n",
        "- {url: http://a, api_key: &hush-hush\n",
    ],
)
def test_no_problem_repeats_a_secret(text):
    assert "hush" not in str(problems(text))
    with pytest.raises(ManifestError) as refusal:
        read_manifest(text, None)
    assert "hush" not in str(refusal.value)


def test_a_file_that_is_nested_too_deeply_is_refused():
    assert problems("[" * 5000) == [(1, "is nested too deeply")]
