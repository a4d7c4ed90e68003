import pytest

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.targets import Target, lasts, ranks_of, selected, selector_keys, targets
from smg.fleet.worker import ModelCard, Status, Worker
from smg.protocol.selectors import parse_selector


def worker(name, address=None, **fields):
    address = address or f"http://{name}"
    rank = fields.get("dp_rank")
    url = address if rank is None else f"{address}@{rank}"
    return Worker(name, url, address, Breaker(BreakerOptions()), **fields)


def ranked(address, *ranks):
    return [worker(f"{address}-{rank}", f"http://{address}", dp_rank=rank) for rank in ranks]


def ids(workers, text):
    return [worker.id for worker in selected(targets(workers), parse_selector(text))]


def test_targets_are_sorted_by_address():
    b, a, c = worker("b"), worker("a"), worker("c", "grpc://z")
    assert targets([b, a, c]) == [Target(c, 1), Target(a, 1), Target(b, 1)]


def test_ranks_of_one_address_are_one_target_for_which_the_lowest_stands():
    high, low, middle = ranked("a", 11, 9, 10)
    other = worker("b")
    assert targets([high, other, low, middle]) == [Target(low, 3), Target(other, 1)]
    assert ranks_of(middle, [high, other, low, middle]) == 3
    assert ranks_of(other, [high, other, low, middle]) == 1


def test_a_selector_sees_the_lowest_rank_only():
    low, high = ranked("a", 0, 1)
    assert ids([high, low], f"id={low.id}") == [low.id]
    assert ids([high, low], f"id={high.id}") == []
    assert ids([high, low], f"url!={high.url}") == [low.id]
    assert ids([high, low], "base_url=http://a") == [low.id]
    assert ids([high, low], "url=http://a") == []


def test_whom_a_selector_means_lasts_unless_it_asks_for_what_changes():
    assert lasts(parse_selector("model=m,env in (a,b)"))
    assert not lasts(parse_selector("model=m,health=ready"))


def test_health_is_no_reason_to_leave_anybody_out():
    fleet = [worker(status.value, status=status) for status in Status]
    assert len(ids(fleet, "engine=generic")) == len(Status)
    assert ids(fleet, "health=ready") == ["ready"]
    assert ids(fleet, "health in (failed, pending)") == ["failed", "pending"]


def test_a_worker_has_its_labels_and_eight_keys_of_the_registry():
    labelled = worker(
        "a",
        labels={"role": "policy"},
        models=(ModelCard("m"), ModelCard("n")),
        runtime="vllm",
        worker_type="prefill",
        connection_mode="grpc",
        status=Status.NOT_READY,
    )
    names = [*labelled.labels, "id", "url", "base_url", "engine", "model", "worker_type", "connection_mode", "health"]
    assert selector_keys(labelled, [*names, "nothing"]) == {
        "role": "policy",
        "id": "a",
        "url": "http://a",
        "base_url": "http://a",
        "engine": "vllm",
        "model": "m",
        "worker_type": "prefill",
        "connection_mode": "grpc",
        "health": "not_ready",
    }


@pytest.mark.parametrize("models", [(), (ModelCard("m"),)])
def test_no_label_takes_the_place_of_what_the_registry_says(models):
    names = ["id", "url", "base_url", "engine", "model", "worker_type", "connection_mode", "health"]
    labelled = worker("a", labels=dict.fromkeys(names, "label"), models=models)
    assert "label" not in selector_keys(labelled, names).values()


def test_a_worker_for_any_model_has_no_model():
    assert ids([worker("a")], "model=m") == []
    assert ids([worker("a")], "model!=m") == ["a"]


def test_a_runtime_that_the_contract_does_not_know_is_unknown():
    assert ids([worker("a", runtime="homemade")], "engine=unknown") == ["a"]
    assert ids([worker("a", runtime="tokenspeed")], "engine=tokenspeed") == ["a"]
