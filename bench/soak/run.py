"""One soak: who plays, in which order, and what is written down meanwhile."""

import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from bench.gateways import Gateway, Side, launch
from bench.processes import Children, read_json_line
from bench.soak.accounts import Account, Execution
from bench.soak.churn import Churn
from bench.soak.promises import Evidence
from bench.soak.witness import Witness
from bench.stage import Settings, Stage
from bench.stats import quarter_growth

ENGINE_PROCESSES, ENGINES_EACH = 3, 10
CLIENTS = 56
_STEP_SECS = 0.25
# What fills once and stays full (trees, pools, series) has filled by then.
_WARM_UP_SHARE = 0.2
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
    *("--max-concurrent-requests", "40", "--queue-size", "12", "--queue-timeout-secs", "1"),
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
    seconds: float
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
        witness = Witness(gateway)
        sockets, threads = self._rested(witness)
        churn = Churn(witness, random.Random(self.seed), time.monotonic() + 1)
        for ward in wards:
            _order(ward, "storm")
        load = stage.start_module(
            "bench.soak.clients",
            core=load_core,
            port=gateway.port,
            clients=CLIENTS,
            seconds=self.settings.seconds,
            seed=self.seed,
        )
        rss_kb = self._watch(gateway, churn)
        accounts = self.children.output(load, _LAST_ANSWER_SECS)
        for ward in wards:
            _order(ward, "calm")
        self._await_quiet(witness, churn, len(ports), sockets)
        ledgers = [_order(ward, "ledger") for ward in wards]
        facts = _read(witness, len(ports))
        facts |= {"sockets_before": sockets, "threads_before": threads, "growth_kb": quarter_growth(rss_kb)}
        facts |= self._end(gateway)
        evidence = Evidence(**facts, complaints=witness.complaints())
        if not evidence.complaints:
            gateway.log.unlink()
        executions = [Execution(*row) for rows in ledgers for row in rows]
        return Story(
            [Account(*row) for row in accounts], executions, evidence, churn.removed, self.settings.seconds, rss_kb
        )

    def _rested(self, witness: Witness) -> tuple[int, int]:
        """Sockets and threads before the load: the fewest of a few looks, as probes come and go."""
        looks = []
        for _ in range(8):
            time.sleep(_STEP_SECS)
            looks.append((witness.sockets(), witness.threads()))
        return min(sockets for sockets, _ in looks), max(threads for _, threads in looks)

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

    def _await_quiet(self, witness: Witness, churn: Churn, workers: int, sockets: int) -> None:
        """Wait until nothing is left of the load, or it is clear that something stays."""
        deadline = time.monotonic() + _QUIET_SECS
        while time.monotonic() < deadline:
            churn.settle()
            facts = _read(witness, workers)
            left = sum(facts[name] for name in ("loads", "leases", "in_flight", "admitted", "queued"))
            if not left and facts["ready_workers"] == workers and facts["sockets"] <= sockets:
                return
            time.sleep(_STEP_SECS)

    def _end(self, gateway: Gateway) -> dict[str, Any]:
        """Tell the gateway to end; how long it took, and its status."""
        begun_at = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        try:
            code = gateway.process.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            code = -1
        return {"end_secs": time.monotonic() - begun_at, "exit_code": code}


def _order(ward: "subprocess.Popen[str]", order: str) -> Any:
    assert ward.stdin is not None
    ward.stdin.write(order + "\n")
    ward.stdin.flush()
    return read_json_line(ward)


def _read(witness: Witness, workers: int) -> dict[str, Any]:
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
