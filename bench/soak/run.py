"""One soak: who plays, in which order, and what is written down meanwhile."""

import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from bench.gateways import Gateway, Side, launch
from bench.processes import ChildFailedError, Children, read_json_line
from bench.soak.accounts import Account, Execution
from bench.soak.churn import Churn
from bench.soak.promises import Evidence
from bench.soak.witness import Witness
from bench.stage import Settings, Stage
from bench.stats import quarter_growth

Ward = subprocess.Popen[str]  # a process of engines, which takes orders

ENGINE_PROCESSES, ENGINES_EACH = 3, 10
CLIENTS = 56
_STEP_SECS = 0.25
# What fills once and stays full (trees, pools, garbage that waits for its collection) has filled by then.
_WARM_UP_SHARE = 0.5
# A client waits up to 45 s for an answer.
_LAST_ANSWER_SECS = 60.0
_QUIET_SECS = 30.0
_END_SECS = 20.0

# Short times, so that everything that can happen does; fewer places than clients, so that admission has to queue.
_FLAGS = (
    *("--health-check-interval-secs", "1", "--health-check-timeout-secs", "1"),
    *("--health-failure-threshold", "2", "--health-success-threshold", "1"),
    *("--cb-failure-threshold", "4", "--cb-timeout-duration-secs", "2"),
    *("--worker-startup-check-interval", "1"),
    *("--request-timeout-secs", "4", "--max-buffered-request-bytes", "65536"),
    *("--max-concurrent-requests", "28", "--queue-size", "20", "--queue-timeout-secs", "1"),
    *("--retry-initial-backoff-ms", "10", "--retry-max-backoff-ms", "200"),
    *("--max-tree-size", "200000", "--eviction-interval-secs", "5"),
    *("--shutdown-grace-period-secs", "4"),
)


@dataclass(slots=True)
class Story:
    """All that a soak brought to light."""

    accounts: list[Account]
    executions: list[Execution]
    evidence: Evidence
    removals: int
    efforts: str
    rss_kb: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Soak:
    settings: Settings
    children: Children
    side: Side
    seed: int

    def run(self) -> Story:
        """Play the soak. Raises ChildFailedError when a player ends that should not."""
        stage, load_core = Stage(self.settings, self.children), self.settings.load_core
        wards = [
            stage.start_module("bench.soak.engines", core=load_core, count=ENGINES_EACH, seed=self.seed + number)
            for number in range(ENGINE_PROCESSES)
        ]
        ports = [port for ward in wards for port in read_json_line(ward)]
        gateway = launch(
            self.side,
            self.children,
            core=self.settings.gateway_core,
            worker_ports=ports,
            flags=_FLAGS,
            cwd=self.settings.state_dir,
        )
        try:
            return self._play(stage, wards, gateway, len(ports))
        except OSError as error:
            raise ChildFailedError(f"the gateway does not answer ({error}): {gateway.last_words()}") from error

    def _play(self, stage: Stage, wards: list[Ward], gateway: Gateway, workers: int) -> Story:
        witness = Witness(gateway)
        before = {"sockets_before": witness.sockets(), "threads_before": witness.threads()}
        churn = Churn(witness, random.Random(self.seed), time.monotonic() + 1)
        for ward in wards:
            _order(ward, "storm")
        load = stage.start_module(
            "bench.soak.clients",
            core=self.settings.load_core,
            port=gateway.port,
            clients=CLIENTS,
            seconds=self.settings.seconds,
            seed=self.seed,
        )
        rss_kb = self._watch(gateway, churn)
        accounts = [Account(*row) for row in self.children.output(load, _LAST_ANSWER_SECS)]
        for ward in wards:
            _order(ward, "calm")
        after = self._quiet(witness, churn, workers, before["sockets_before"])
        executions = [Execution(*row) for ward in wards for row in _order(ward, "ledger")]
        efforts = witness.efforts()
        memory: dict[str, Any] = {"growth_kb": quarter_growth(rss_kb), "seconds": self.settings.seconds}
        evidence = Evidence(**before, **after, **memory, **_end(gateway), complaints=witness.complaints())
        if not evidence.complaints:
            gateway.log.unlink()
        return Story(accounts, executions, evidence, churn.removed, efforts, rss_kb)

    def _watch(self, gateway: Gateway, churn: Churn) -> list[int]:
        """The time of the load; returns the gateway's resident memory after the warm-up."""
        begun_at = time.monotonic()
        rss_kb = []
        while (now := time.monotonic()) < begun_at + self.settings.seconds:
            churn.step(now)
            if now > begun_at + self.settings.seconds * _WARM_UP_SHARE:
                rss_kb.append(gateway.rss_kb())
            time.sleep(_STEP_SECS)
        return rss_kb

    def _quiet(self, witness: Witness, churn: Churn, workers: int, sockets: int) -> dict[str, int]:
        """What is left of the load as soon as nothing is, or when it is clear that something stays."""
        deadline = time.monotonic() + _QUIET_SECS
        while True:
            churn.settle()
            found = _read(witness, workers)
            left = sum(found[name] for name in ("loads", "leases", "in_flight", "admitted", "queued"))
            quiet = not left and found["ready_workers"] == workers and found["sockets"] <= sockets
            if quiet or time.monotonic() > deadline:
                return found
            time.sleep(_STEP_SECS)


def _end(gateway: Gateway) -> dict[str, Any]:
    """Tell the gateway to end; how long it took, and its status."""
    begun_at = time.monotonic()
    gateway.process.send_signal(signal.SIGTERM)
    try:
        code = gateway.process.wait(_END_SECS)
    except subprocess.TimeoutExpired:
        code = -1
    return {"end_secs": time.monotonic() - begun_at, "exit_code": code}


def _order(ward: Ward, order: str) -> Any:
    assert ward.stdin is not None
    ward.stdin.write(order + "\n")
    ward.stdin.flush()
    return read_json_line(ward)


def _read(witness: Witness, workers: int) -> dict[str, int]:
    metrics = witness.metrics()
    return {
        "ready_workers": witness.ready_workers(),
        "workers": workers,
        "loads": sum(row["load"] for row in witness.workers()),
        "leases": int(metrics["smg_worker_requests_active"]),
        "in_flight": int(metrics["smg_http_connections_active"]),
        "admitted": int(metrics["smg_admission_inflight"]),
        "queued": int(metrics["smg_admission_queue_depth"]),
        "sockets": witness.sockets(),
        "threads": witness.threads(),
    }
