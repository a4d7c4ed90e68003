from smg.control.rows import job_row, pending_row, worker_row
from smg.engines.labels import GENERATION_TYPES
from smg.engines.load import RankLoad
from smg.fleet.load import report_of
from smg.fleet.spec import HealthSpec, OverloadSpec, WorkerSpec
from smg.fleet.worker import Status
from smg.services.jobs import Job


def test_a_row_shows_identity_registration_and_state(make_worker, make_card):
    worker = make_worker(
        "a",
        make_card("m", ("short",), context_length=8),
        runtime="vllm",
        labels={"x": "1"},
        priority=3,
        cost=2.5,
        api_key="hush",
    )
    worker.load = 4
    assert worker_row(worker) == {
        "id": "a",
        "model_id": "m",
        "url": "http://a",
        "models": [{"id": "m", "aliases": ["short"], "model_type": list(GENERATION_TYPES), "context_length": 8}],
        "worker_type": "regular",
        "connection_mode": "http",
        "runtime_type": "vllm",
        "labels": {"x": "1"},
        "priority": 3,
        "cost": 2.5,
        "max_connection_attempts": 20,
        "is_healthy": True,
        "status": "ready",
        "load": 4,
        "http2": False,
    }


def test_a_worker_for_any_model_has_no_model_members(make_worker):
    row = worker_row(make_worker("a", status=Status.NOT_READY))
    assert not {"model_id", "models", "dp_rank", "dp_base_url", "bootstrap_port"} & set(row)
    assert (row["is_healthy"], row["status"]) == (False, "not_ready")


def test_a_rank_names_the_address_behind_it(make_worker):
    row = worker_row(make_worker("a", dp_rank=0, dp_size=2))
    assert (row["dp_base_url"], row["dp_rank"], row["dp_size"]) == ("http://a", 0, 2)


def test_setting_blocks_are_shown_as_they_were_given(make_worker):
    spec = WorkerSpec(url="http://a", health=HealthSpec(timeout_secs=3), overload=OverloadSpec(waiting_requests=2))
    row = worker_row(make_worker("a", spec=spec))
    assert (row["health"], row["overload"]) == ({"timeout_secs": 3}, {"waiting_requests": 2})
    assert not {"http_pool", "resilience"} & set(row)


def test_the_engine_s_last_report_is_shown_while_there_is_one(make_worker):
    worker = make_worker("a")
    assert "engine_load" not in worker_row(worker)
    worker.report = report_of([RankLoad(num_waiting_reqs=2)], 0.0)
    assert worker_row(worker)["engine_load"]["loads"][0]["num_waiting_reqs"] == 2


def test_a_pending_row_shows_what_was_asked_for(make_card):
    spec = WorkerSpec(url="http://a", api_key="hush", priority=3, models=(make_card("m"),))
    row = pending_row("id", spec, None)
    assert (row["id"], row["url"], row["priority"]) == ("id", "http://a", 3)
    assert (row["status"], row["is_healthy"], row["load"]) == ("pending", False, 0)
    assert row["models"][0]["id"] == "m"
    assert "model_id" not in row
    assert "hush" not in str(row)


def test_a_job_row_has_whole_seconds_and_its_message_even_if_there_is_none():
    job = Job("AddWorker", "id", "http://a", lambda: None, 12.75)
    assert job_row(job) == {
        "job_type": "AddWorker",
        "worker_url": "http://a",
        "status": "pending",
        "message": None,
        "timestamp": 12,
    }
    assert job_row(None) is None
