import msgspec
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard
from smg.services.discovery.desired import Desired
from smg.services.discovery.difference import Owned, difference, distinct


def steps(wanted, owned):
    found = difference({one.key: one for one in wanted}, owned)
    return found.removes, found.updates, [one.key for one in found.adds]


def own(one, worker_id="id", own_name=None):
    return {one.key: Owned(worker_id, one.wanted(own_name), own_name)}


def test_what_is_missing_is_added_and_what_is_not_desired_is_removed(desired):
    assert steps([desired("new", "http://b")], own(desired("old", "http://a"))) == (["old"], [], ["new"])


def test_nothing_is_to_be_done_where_both_agree(desired):
    one = desired()
    assert steps([one], own(one)) == ([], [], [])


def test_another_identity_at_the_same_address_is_a_removal_and_an_addition(desired):
    assert steps([desired("uid-2:80")], own(desired("uid-1:80"))) == (["uid-1:80"], [], ["uid-2:80"])


def test_a_worker_that_moved_is_a_removal_and_an_addition(desired):
    assert steps([desired(url="http://b")], own(desired(url="http://a"))) == (["k"], [], ["k"])


def test_a_changed_spec_is_changed_in_place(desired):
    after = desired(priority=3)
    assert steps([after], own(desired())) == ([], [("k", after.spec)], [])


def test_what_cannot_be_changed_in_place_is_taken_out_and_added_anew(desired):
    found = difference({"k": desired(priority=3)}, own(desired()), in_place=False)
    assert (found.removes, found.updates, [one.key for one in found.adds]) == (["k"], [], ["k"])
    assert difference({"k": desired()}, own(desired()), in_place=False).removes == []


def test_the_engine_s_own_name_makes_one_change(desired):
    one = desired(models=(ModelCard("mine"),), renamed=True)
    aliased = msgspec.structs.replace(one.spec, models=(ModelCard("mine", aliases=("m",)),))
    assert steps([one], {"k": Owned("id", one.spec, "m")}) == ([], [("k", aliased)], [])
    assert steps([one], {"k": Owned("id", aliased, "m")}) == ([], [], [])


def test_of_one_key_or_one_address_the_first_counts(desired):
    first, same_key, same_url = desired("k", "http://a"), desired("k", "http://b"), desired("l", "http://a")
    assert distinct([first, same_key, same_url]) == {"k": first}


workers = st.builds(
    lambda key, host, priority: Desired(key, WorkerSpec(url=f"http://{host}", priority=priority)),
    st.sampled_from("abcd"),
    st.sampled_from("wxyz"),
    st.integers(0, 1),
)


@given(st.lists(workers), st.lists(workers))
def test_taking_the_steps_leaves_exactly_what_is_desired(before, after):
    owned = {key: Owned(key, one.spec) for key, one in distinct(before).items()}
    wanted = distinct(after)
    todo = difference(wanted, owned)
    for key in todo.removes:
        del owned[key]
    for key, spec in todo.updates:
        owned[key].spec = spec
    for one in todo.adds:
        assert one.key not in owned
        owned[one.key] = Owned(one.key, one.spec)
    assert {key: mine.spec for key, mine in owned.items()} == {key: one.spec for key, one in wanted.items()}
    assert len({mine.spec.url for mine in owned.values()}) == len(owned)
