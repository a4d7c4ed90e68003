"""What the settings say of keys, tenants and slots becomes filters, a gate and limits, or a refusal to start."""

import pytest

from smg.app.admission import admission_of, slots_of
from smg.config.settings import Settings
from smg.errors import ConfigError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.registry import Registry
from smg.fleet.worker import LoadReport, Status, Worker
from smg.net.fetch import Fetcher
from smg.net.routes import Route
from smg.services.admission_gate import AdmissionGate, RateGate
from smg.services.scheduler_gate import SchedulerGate
from smg.telemetry.metrics import Metrics


def worker(name="a", label=None, report=None, **fields):
    url = f"http://{name}"
    labels = {} if label is None else {"max_running_requests": label}
    found = Worker(name, url, url, Breaker(BreakerOptions()), status=Status.READY, labels=labels, **fields)
    if report is not None:
        found.report = LoadReport(max_running_requests=report)
    return found


def admission(registry=None, **settings):
    return admission_of(Settings(**settings), registry or Registry(), Metrics(), Fetcher())


async def test_without_keys_and_limits_nothing_but_the_payload_is_looked_at():
    found = admission()
    assert [len(found.filters[group]) for group in ("public", "serving", "admin")] == [0, 1, 1]
    assert isinstance(found.gate, AdmissionGate)
    assert found.limits is None
    assert not found.ring.locks


CONTROL = {"control_plane_api_keys": ("a:Ann:admin:admin-key", "b:Bob:user:b:c")}
TOKENS = {"jwt_issuer": "https://issuer", "jwt_audience": "smg"}
ROWS = [Route("GET", f"/{group}", print, group) for group in ("public", "serving", "admin")]


@pytest.mark.parametrize(
    ("settings", "serving", "admin", "guarded", "has_tokens"),
    [
        ({}, 1, 1, False, False),
        ({"api_key": "k"}, 2, 2, False, False),
        ({"tenant_api_key": ("red:k",)}, 2, 2, False, False),
        (CONTROL, 1, 1, True, False),
        ({"api_key": "k", **CONTROL}, 2, 1, True, False),
        (TOKENS, 1, 1, True, True),
        ({"api_key": "k", **CONTROL, **TOKENS}, 2, 1, True, True),
    ],
)
async def test_the_control_plane_s_own_credentials_take_the_place_of_the_shared_key(
    settings, serving, admin, guarded, has_tokens
):
    found = admission(**settings)
    assert [len(found.filters[group]) for group in ("public", "serving", "admin")] == [0, serving, admin]
    assert [route is not row for route, row in zip(found.guarded(ROWS), ROWS, strict=True)] == [False, False, guarded]
    assert (found.tokens is not None) is has_tokens


@pytest.mark.parametrize(
    ("settings", "own", "others"),
    [
        ({}, [], [b"", b"k", b"a.b.c"]),
        ({"api_key": "k", "tenant_api_key": ("red:r",)}, [b"k", b"r"], [b"", b"red", b"a.b.c"]),
        ({"api_key": "k", **CONTROL}, [b"k", b"admin-key", b"b:c"], [b"", b"b", b"a.b.c"]),
        (TOKENS, [b"a.b.c"], [b"", b"k", b"a.b"]),
    ],
)
async def test_the_gateway_s_own_credentials_are_for_nobody_behind_it(settings, own, others):
    found = admission(**settings)
    assert all(found.is_own(credential) for credential in own)
    assert not any(found.is_own(credential) for credential in others)


async def test_the_gate_is_what_the_limits_ask_for():
    assert admission(max_concurrent_requests=0).gate is None
    assert isinstance(admission(rate_limit_tokens_per_second=5).gate, RateGate)
    assert isinstance(admission(priority_scheduler_enabled=True, max_concurrent_requests=0).gate, SchedulerGate)


async def test_tenants_are_named_only_where_somebody_asks(tmp_path):
    limits = tmp_path / "t.yaml"
    limits.write_text("default_policy: {tokens_per_minute: 1, requests_per_minute: 1}\n", encoding="utf-8")
    keys = {"tenant_api_key": ("red:k",)}
    assert len(admission(**keys).filters["serving"]) == 2
    assert len(admission(**keys, priority_scheduler_enabled=True).filters["serving"]) == 3
    limited = admission(**keys, tenant_rate_limit_enabled=True, tenant_rate_limit_config=str(limits))
    assert len(limited.filters["serving"]) == 3
    assert limited.limits is not None


async def test_both_files_are_read_and_all_their_problems_reported(tmp_path):
    for name in ("s.yaml", "t.yaml"):
        (tmp_path / name).write_text("bogus: 1\n", encoding="utf-8")
    settings = {
        "priority_scheduler_enabled": True,
        "priority_scheduler_config": str(tmp_path / "s.yaml"),
        "tenant_rate_limit_enabled": True,
        "tenant_rate_limit_config": str(tmp_path / "t.yaml"),
    }
    with pytest.raises(ConfigError) as caught:
        admission(**settings)
    flags = [problem.split(":")[0] for problem in caught.value.problems]
    assert sorted(set(flags)) == ["--priority-scheduler-config", "--tenant-rate-limit-config"]


async def test_the_file_of_a_feature_that_is_off_is_not_read():
    admission(priority_scheduler_config="/nowhere/s.yaml", tenant_rate_limit_config="/nowhere/t.yaml")


@pytest.mark.parametrize(
    ("known", "slots"),
    [
        ({}, 64),
        ({"label": "8"}, 8),
        ({"label": "8", "report": 5}, 5),
        ({"label": "8", "report": 0}, 8),
        ({"label": "0"}, 64),
        ({"label": "many"}, 64),
        ({"label": "-3"}, 64),
        ({"label": "9" * 30}, 64),
        ({"label": "8", "dp_rank": 1, "dp_size": 4}, 2),
        ({"label": "3", "dp_rank": 1, "dp_size": 4}, 1),
        ({"label": "8", "report": 7, "dp_rank": 1, "dp_size": 4}, 7),
    ],
)
def test_a_worker_has_the_slots_that_it_reports_or_a_guess(known, slots):
    assert slots_of(worker(**known)) == slots


async def test_the_scheduler_has_the_slots_of_the_ready_workers():
    registry = Registry()
    scheduler = admission(registry, priority_scheduler_enabled=True).gate._scheduler
    assert scheduler.capacity == 1024
    registry.add(worker("a", "8"))
    registry.add(worker("b"))
    assert scheduler.capacity == 72
    registry.set_status("b", Status.NOT_READY, 0)
    assert scheduler.capacity == 8
    registry.remove("a")
    assert scheduler.capacity == 1024


@pytest.mark.parametrize(("limit", "slots"), [(-1, 1024), (0, 1024), (7, 7)])
async def test_without_workers_the_limit_on_concurrent_requests_stands_in(limit, slots):
    found = admission(priority_scheduler_enabled=True, max_concurrent_requests=limit)
    assert found.gate._scheduler.capacity == slots


async def test_the_shared_key_s_digest_is_no_label():
    found = admission(api_key="shared", priority_scheduler_enabled=True)
    label = found.gate._accounts._tenant_label
    assert label(found.ring.shared_tenant) == "auth:shared"
    assert label("auth:red") == "auth:red"
