"""`smg serve`: engines and a gateway with one command."""

import signal

import pytest

from support.bodies import CHAT, chat
from support.plain_http import get, post
from support.ports import free_ports
from support.processes import process
from support.waiting import eventually

REPLICAS = 2


def test_a_served_fleet_answers_survives_a_crash_and_leaves_nothing_behind():
    port, metrics_port, *engine_ports = free_ports(2 + REPLICAS)
    flags = ["--backend", "sim", "--data-parallel-size", REPLICAS, "--model", "demo", "--api-key", "sk-serve"]
    flags += ["--port", port, "--worker-base-port", engine_ports[0], "--policy", "round_robin"]
    flags += ["--router-prometheus-host", "127.0.0.1", "--router-prometheus-port", metrics_port]
    flags += ["--router-shutdown-grace-period-secs", "0.2", "--router-health-check-interval-secs", "0.2"]
    url = f"http://127.0.0.1:{port}"
    key = {"authorization": "Bearer sk-serve"}
    with process("serve", *flags) as serving:

        def healthy():
            serving.check()
            return get(f"{url}/readiness").json.get("healthy_workers", 0)

        eventually(lambda: healthy() == REPLICAS, "a ready fleet")
        assert post(f"{url}{CHAT}", chat(model="demo")).status == 401

        def ask():
            answer = post(f"{url}{CHAT}", chat(model="demo", max_tokens=4), key)
            assert answer.status == 200
            return answer

        asked = [ask() for _ in range(2 * REPLICAS)]
        assert {a.headers["x-smg-routed-worker-id"] for a in asked} == {f"http://127.0.0.1:{p}" for p in engine_ports}
        assert len({a.json["choices"][0]["message"]["content"] for a in asked}) == 1

        with pytest.raises(OSError):  # noqa: PT011  whatever a crash looks like from outside
            post(f"http://127.0.0.1:{engine_ports[0]}/sim/crash", b"{}")
        asked = [ask() for _ in range(6)]
        assert {a.headers["x-smg-routed-worker-id"] for a in asked} == {f"http://127.0.0.1:{engine_ports[1]}"}
        eventually(lambda: healthy() == REPLICAS - 1, "news of the crash")

        serving.signal(signal.SIGTERM)
        assert serving.wait() == 128 + signal.SIGTERM
        assert "ended with status 70" in serving.stderr
        assert "Traceback" not in serving.stdout + serving.stderr
    for number in (port, metrics_port, *engine_ports):
        with pytest.raises(ConnectionRefusedError):
            get(f"http://127.0.0.1:{number}/health")


def test_a_backend_that_cannot_be_had_is_refused():
    with process("serve", "--backend", "vllm") as refused:
        assert refused.wait() == 2
        assert "--backend vllm" in refused.stderr
