from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.services.discovery.pod_store import PodStore
from smg.services.discovery.pods import PodRules, read_pod


class Kept:
    """A store, what it complained about, and how often it read a pod."""

    def __init__(self, **rules):
        self.complaints = []
        self.read = 0
        reader = partial(read_pod, role="regular", rules=PodRules(**rules))

        def read(pod):
            self.read += 1
            return reader(pod)

        self.store = PodStore(read, lambda pod, text: self.complaints.append((pod.metadata.name, text)))

    @property
    def keys(self):
        return sorted(worker.key for worker in self.store.workers())


@pytest.fixture
def kept():
    return Kept()


def test_a_list_is_what_there_is(kept, make_pod):
    assert kept.store.replace([make_pod("a"), make_pod("b", ready="False")])
    assert kept.keys == ["uid-a:80"]
    assert kept.store.replace([make_pod("b", version="2")])
    assert kept.keys == ["uid-b:80"]


def test_a_list_that_changes_no_worker_says_so(kept, make_pod):
    kept.store.replace([make_pod("a")])
    assert not kept.store.replace([make_pod("a", version="2"), make_pod("b", ready="False")])


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_new_or_changed_pod_is_read_anew(kept, make_pod, kind):
    assert kept.store.apply(kind, make_pod("a"))
    assert kept.keys == ["uid-a:80"]
    assert kept.store.apply(kind, make_pod("a", ready="False", version="2"))
    assert kept.keys == []


def test_a_deleted_pod_is_gone(kept, make_pod):
    kept.store.apply("ADDED", make_pod("a"))
    assert kept.store.apply("DELETED", make_pod("a", version="2"))
    assert kept.store._kept == {}


def test_a_change_that_means_nothing_here_says_so(kept, make_pod):
    kept.store.apply("ADDED", make_pod("a"))
    assert not kept.store.apply("MODIFIED", make_pod("a", version="2", annotations={"other": "x"}))
    assert not kept.store.apply("DELETED", make_pod("b"))
    assert not kept.store.apply("BOOKMARK", make_pod("", version="3"))
    assert kept.keys == ["uid-a:80"]


def test_a_pod_of_another_namespace_is_another_pod(kept, make_pod):
    kept.store.replace([make_pod("a")])
    there = make_pod("a", uid="other", ip="10.0.0.2")
    kept.store.apply("ADDED", type(there)(type(there.metadata)(name="a", namespace="there", uid="other"), there.status))
    assert kept.keys == ["other:80", "uid-a:80"]


def test_the_end_of_a_predecessor_does_not_end_its_successor(kept, make_pod):
    kept.store.apply("ADDED", make_pod("a", uid="new"))
    assert not kept.store.apply("DELETED", make_pod("a", uid="old"))
    assert kept.keys == ["new:80"]


def test_a_version_that_is_known_is_not_read_again_nor_complained_about_twice(make_pod):
    kept = Kept(model_id_from="label:missing")
    kept.store.replace([make_pod("a", version="1")])
    kept.store.replace([make_pod("a", version="1")])
    assert (kept.read, len(kept.complaints)) == (1, 1)
    kept.store.replace([make_pod("a", version="2")])
    assert (kept.read, len(kept.complaints)) == (2, 2)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "list"]), st.sampled_from("abc"), st.integers(1, 2), st.booleans())
)


@given(steps=steps)
def test_events_and_lists_agree_with_a_plain_dictionary(make_pod, steps):
    kept, truth = Kept(), {}
    for number, (what, name, life, serves) in enumerate(steps):
        uid = f"{name}{life}"
        pod = make_pod(name, uid=uid, version=str(number), ready=str(serves))
        before = kept.keys
        if what == "put":
            truth[name] = uid, serves, pod
            changed = kept.store.apply("MODIFIED", pod)
        elif what == "delete" and name in truth:
            changed = kept.store.apply("DELETED", truth.pop(name)[2])
        else:
            changed = kept.store.replace([pod for _, _, pod in truth.values()])
        assert kept.keys == sorted(f"{uid}:80" for uid, serves, _ in truth.values() if serves)
        assert changed == (kept.keys != before)
