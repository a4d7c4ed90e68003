import os
import subprocess
import sys
from pathlib import Path

import pytest

import smg
from smg.config.settings import Settings
from smg.errors import ConfigError
from smg.services.discovery.file import FileSource
from smg.services.discovery.kubernetes import KubernetesSource
from smg.services.discovery.pods import PodRules
from smg.services.discovery.sources import discovery_of


@pytest.fixture
def source_of(site):
    def build(**settings):
        return discovery_of(Settings(**settings), site.registry, site.registrar, site.jobs, site.metrics)

    return build


def test_what_only_one_source_needs_is_loaded_with_it():
    code = (
        "import sys, smg.services.discovery.sources;"
        "sys.exit(','.join({'lightkube', 'httpx2', 'yaml'} & sys.modules.keys()) or 0)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(smg.__file__).parents[1])}
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environ)
    assert (result.returncode, result.stderr) == (0, "")


def test_without_discovery_there_is_no_source(source_of):
    assert source_of(selector=("a=b",), discovery_file="f") is None


def test_a_file_is_watched_with_the_gateway_s_key(source_of):
    source = source_of(
        discovery_provider="file", discovery_file="w.yaml", discovery_check_interval_secs=7, api_key="hush"
    )
    assert isinstance(source, FileSource)
    options = source._options
    assert (str(options.path), options.check_interval_secs, options.api_key) == ("w.yaml", 7, "hush")
    assert "hush" not in repr(options)


@pytest.mark.parametrize("spelling", [{"service_discovery": True}, {"discovery_provider": "kubernetes"}])
def test_pods_are_read_as_the_settings_say(source_of, spelling):
    source = source_of(
        **spelling,
        selector=("app=engine", "b=c d=e"),
        service_discovery_port=8000,
        service_discovery_namespace="models",
        model_id_from="namespace",
        kv_connector_annotation="my/connector",
        kv_engine_id_annotation="my/id",
        api_key="hush",
    )
    assert isinstance(source, KubernetesSource)
    options = source._options
    assert options.selectors == {"regular": "app=engine,b=c,d=e"}
    assert options.namespace == "models"
    assert options.rules == PodRules(8000, "namespace", "my/connector", "my/id", "hush")


SELECTORS = {
    "selector": ("app=engine",),
    "decode_selector": ("role=decode",),
    "prefill_selector": ("role=prefill", "x=y"),
}


def test_the_pods_of_pairs_have_their_roles_in_order(source_of, caplog):
    source = source_of(service_discovery=True, pd_disaggregation=True, **SELECTORS)
    assert list(source._options.selectors.items()) == [("prefill", "role=prefill,x=y"), ("decode", "role=decode")]
    assert [record.fields["selectors"] for record in caplog.records] == ["selector"]


def test_without_pairs_there_are_no_roles_and_whoever_names_some_is_told(source_of, caplog):
    assert source_of(service_discovery=True, **SELECTORS)._options.selectors == {"regular": "app=engine"}
    assert [record.fields["selectors"] for record in caplog.records] == ["prefill_selector decode_selector"]


def test_ranks_that_are_workers_of_their_own_are_not_replaced_in_place(source_of):
    watched = {"discovery_provider": "file", "discovery_file": "w.yaml"}
    assert source_of(**watched)._reconciler._in_place
    assert not source_of(**watched, dp_aware=True)._reconciler._in_place


@pytest.mark.parametrize("flag", ["--service-discovery", "--discovery-provider"])
def test_a_client_that_is_not_installed_stops_the_start_and_says_how_to_get_it(source_of, monkeypatch, flag):
    monkeypatch.delitem(sys.modules, "smg.services.discovery.kubernetes")
    monkeypatch.delitem(sys.modules, "smg.services.discovery.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "lightkube.config.client_adapter", None)
    spelling = {"service_discovery": True} if flag == "--service-discovery" else {"discovery_provider": "kubernetes"}
    with pytest.raises(ConfigError) as refusal:
        source_of(**spelling, selector=("a=b",))
    (problem,) = refusal.value.problems
    assert problem.startswith(f"{flag}: ")
    assert "pip install 'smg-gateway[kubernetes]'" in problem
