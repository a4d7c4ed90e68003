import json

import msgspec
import pytest

from smg.fleet.worker import ModelCard
from smg.services.discovery.pods import Pod, PodRules, is_serving, read_pod


def read(pod, role="regular", **rules):
    return read_pod(pod, role, PodRules(**rules))


def only(pod, role="regular", **rules):
    """The spec of the one worker of a pod about which nobody complains."""
    reading = read(pod, role, **rules)
    assert reading.complaints == ()
    (worker,) = reading.workers
    return worker.spec


def test_a_pod_is_one_worker_at_the_port_of_the_settings(make_pod):
    (worker,) = read(make_pod(), port=8000).workers
    assert worker.key == "uid-a:8000"
    assert worker.spec.url == "http://10.0.0.1:8000"
    assert worker.spec.worker_type == "regular"
    assert worker.spec.labels == {
        "smg.ai/pod-name": "a",
        "smg.ai/pod-uid": "uid-a",
        "smg.ai/discovery-provider": "kubernetes",
        "smg.ai/discovery-id": "uid-a:8000",
    }


@pytest.mark.parametrize(
    "trouble",
    [
        {"ready": "False"},
        {"ready": "Unknown"},
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"ip": None},
        {"ip": ""},
        {"deletion_timestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_pod_that_does_not_serve_is_no_worker(make_pod, trouble):
    assert is_serving(make_pod())
    assert read(make_pod(**trouble)).workers == ()


def test_a_pod_without_conditions_or_identity_is_no_worker(make_pod):
    pod = make_pod()
    assert not is_serving(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=None)))
    assert not is_serving(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="")))


def test_an_ipv6_address_stands_in_brackets(make_pod):
    assert only(make_pod(ip="fd00::1")).url == "http://[fd00::1]:80"


def test_a_pod_is_one_worker_a_port_of_its_annotation(make_pod):
    reading = read(make_pod(annotations={"smg.ai/worker-ports": " 8000, 8001"}))
    assert [worker.spec.url for worker in reading.workers] == ["http://10.0.0.1:8000", "http://10.0.0.1:8001"]
    assert [worker.key for worker in reading.workers] == ["uid-a:8000", "uid-a:8001"]


@pytest.mark.parametrize("ports", ["x", "8000,", "0", "65536", "8000,8000", "8000 8001", "-1", "²"])
def test_an_annotation_that_is_no_list_of_ports_is_a_complaint(make_pod, ports):
    reading = read(make_pod(annotations={"smg.ai/worker-ports": ports}), port=7)
    assert [worker.spec.url for worker in reading.workers] == ["http://10.0.0.1:7"]
    assert "smg.ai/worker-ports" in reading.complaints[0]


def test_only_a_prefill_worker_has_a_bootstrap_port(make_pod):
    pod = make_pod(annotations={"sglang.ai/bootstrap-port": "9001"})
    assert only(pod, "prefill").bootstrap_port == 9001
    assert only(pod, "decode").bootstrap_port is None


def test_a_bootstrap_port_that_is_none_is_a_complaint(make_pod):
    reading = read(make_pod(annotations={"sglang.ai/bootstrap-port": "many"}), "prefill")
    assert reading.workers[0].spec.bootstrap_port is None
    assert reading.complaints == ("sglang.ai/bootstrap-port is no port",)


@pytest.mark.parametrize("role", ["prefill", "decode", "encode", "regular"])
def test_the_role_is_the_worker_s_type(make_pod, role):
    assert only(make_pod(), role).worker_type == role


def test_kv_settings_come_from_annotations(make_pod):
    pod = make_pod(annotations={"smg.ai/kv-connector": "NixlConnector", "smg.ai/kv-engine-id": "e1"})
    assert (only(pod).kv_connector, only(pod).kv_engine_id) == ("NixlConnector", "e1")


def test_the_annotations_of_kv_settings_may_have_other_names(make_pod):
    pod = make_pod(annotations={"my/connector": "c", "my/id": "e"})
    spec = only(pod, kv_connector_annotation="my/connector", kv_engine_id_annotation="my/id")
    assert (spec.kv_connector, spec.kv_engine_id) == ("c", "e")


def test_each_port_has_an_engine_id_of_its_own(make_pod):
    pod = make_pod(annotations={"smg.ai/worker-ports": "1,2", "smg.ai/kv-engine-id": "e1, e2"})
    assert [worker.spec.kv_engine_id for worker in read(pod).workers] == ["e1", "e2"]


@pytest.mark.parametrize("ids", ["e", "e,e", "e,", "e,f,g"])
def test_engine_ids_that_do_not_fit_the_ports_are_a_complaint(make_pod, ids):
    reading = read(make_pod(annotations={"smg.ai/worker-ports": "1,2", "smg.ai/kv-engine-id": ids}))
    assert [worker.spec.kv_engine_id for worker in reading.workers] == [None, None]
    assert "smg.ai/kv-engine-id" in reading.complaints[0]


@pytest.mark.parametrize(
    ("source", "model"),
    [("namespace", "models"), ("label:serves", "by label"), ("annotation:example.com/model", "by annotation")],
)
def test_the_model_may_be_named_after_the_pod(make_pod, source, model):
    pod = make_pod(labels={"serves": "by label"}, annotations={"example.com/model": " by annotation "})
    reading = read(pod, model_id_from=source)
    assert reading.complaints == ()
    assert reading.workers[0].spec.models == (ModelCard(model),)
    assert reading.workers[0].renamed


@pytest.mark.parametrize("labels", [None, {}, {"serves": " "}])
def test_a_pod_that_names_no_model_keeps_that_of_the_engine(make_pod, labels):
    reading = read(make_pod(labels=labels), model_id_from="label:serves")
    assert reading.workers[0].spec.models == ()
    assert not reading.workers[0].renamed
    assert "label:serves" in reading.complaints[0]


def test_workers_get_the_gateway_s_key_which_nothing_prints(make_pod):
    reading = read(make_pod(), api_key="hush")
    assert reading.workers[0].spec.api_key == "hush"
    assert "hush" not in repr(reading)
    assert "hush" not in repr(PodRules(api_key="hush"))


def test_an_address_that_is_none_is_a_complaint_and_no_worker(make_pod):
    reading = read(make_pod(ip="10.0.0.1/x y"))
    assert reading.workers == ()
    assert len(reading.complaints) == 1


def test_a_pod_is_read_as_the_api_server_spells_it():
    shown = {
        "metadata": {
            "name": "a",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "deletionTimestamp": "now",
            "labels": {"l": "1"},
            "annotations": {"a": "2"},
            "managedFields": [{"much": "more"}],
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    pod = msgspec.json.decode(json.dumps(shown), type=Pod)
    assert (pod.metadata.resource_version, pod.metadata.deletion_timestamp) == ("7", "now")
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"l": "1"}, {"a": "2"})
    assert pod.status.ip == "10.0.0.1"
    assert not is_serving(pod)
