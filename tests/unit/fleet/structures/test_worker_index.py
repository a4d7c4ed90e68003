from smg.fleet.structures.worker_index import WorkerIndex


def test_the_same_tuple_is_indexed_once(fleet):
    workers = fleet(3)
    index = WorkerIndex()
    first = index.by_url(workers)
    assert first == {worker.url: worker for worker in workers}
    assert index.by_url(workers) is first


def test_a_list_that_changed_is_seen_as_it_is(fleet):
    workers = list(fleet(3))
    index = WorkerIndex()
    index.by_url(workers)
    gone = workers.pop()
    assert gone.url not in index.by_url(workers)


def test_an_equal_tuple_of_other_workers_is_another_list(fleet):
    index = WorkerIndex()
    index.by_url(fleet(2))
    again = fleet(2)
    assert index.by_url(again)[again[0].url] is again[0]


def test_clearing_lets_go_of_the_workers(fleet):
    workers = fleet(2)
    index = WorkerIndex()
    index.by_url(workers)
    index.clear()
    assert (index._workers, index._by_url) == ((), {})
