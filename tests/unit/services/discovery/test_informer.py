import asyncio

import pytest

from smg.services.discovery.cluster import ClusterError, Event, Gone, Undecodable
from smg.services.discovery.informer import Informer, Pacing
from smg.services.discovery.pod_store import PodStore
from smg.services.discovery.pods import Metadata, Pod, PodRules, read_pod

BOOKMARK = Event("BOOKMARK", Pod(Metadata(resource_version="77")))


class Script:
    """An API server that plays its lists and watches one after the other; after the last one it is silent.

    A list is its pods, a watch its events; an exception in either is raised.
    """

    def __init__(self, lists, watches=()):
        self.lists = list(lists)
        self.watches = list(watches)
        self.calls = []
        self.over = asyncio.Event()

    async def list_pods(self, selector):
        self.calls.append(("list", selector))
        if not self.lists:
            self.over.set()
            await asyncio.Event().wait()
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, str(10 * sum(call[0] == "list" for call in self.calls))

    async def watch_pods(self, selector, version, timeout_secs):
        self.calls.append(("watch", version))
        if not self.watches:
            self.over.set()
            await asyncio.Event().wait()
        for event in self.watches.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


class Stand:
    """An informer with a script, and what it told."""

    def __init__(self, script, **pacing):
        self.script = script
        self.changes = 0
        self.failures = []
        self.slept = []
        self.pacing = Pacing(**pacing)
        store = PodStore(lambda pod: read_pod(pod, "regular", PodRules()), lambda *_: None)
        self.informer = Informer(
            script,
            "app=x",
            store,
            self._changed,
            self.failures.append,
            self.pacing,
            sleep=self._rest,
            chance=lambda: 1.0,
        )

    def _changed(self):
        self.changes += 1

    async def _rest(self, secs):
        self.slept.append(secs)
        await asyncio.sleep(0)

    @property
    def keys(self):
        return sorted(worker.key for worker in self.informer.store.workers())

    async def play(self):
        """Run to the end of the script."""
        running = asyncio.create_task(self.informer.run())
        try:
            async with asyncio.timeout(10):
                await self.script.over.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def play():
    """Play lists and watches, and give what stood at the end."""

    async def play(lists, watches=(), **pacing):
        stand = Stand(Script(lists, watches), **{"least_pause_secs": 0.0, **pacing})
        await stand.play()
        return stand

    return play


async def test_it_lists_and_watches_on_from_the_list(play, make_pod):
    stand = await play([[make_pod("a")]], [[Event("ADDED", make_pod("b", version="12"))]])
    assert stand.script.calls == [("list", "app=x"), ("watch", "10"), ("watch", "12")]
    assert stand.keys == ["uid-a:80", "uid-b:80"]
    assert stand.changes == 2
    assert stand.informer.synced.is_set()


async def test_a_bookmark_moves_the_version_and_nothing_else(play, make_pod):
    stand = await play([[make_pod("a")]], [[BOOKMARK]])
    assert stand.script.calls[-1] == ("watch", "77")
    assert stand.changes == 1


async def test_a_stream_that_ends_in_good_order_is_taken_up_again_without_a_list(play, make_pod):
    stand = await play([[make_pod("a")]], [[BOOKMARK], [BOOKMARK]])
    assert [call[0] for call in stand.script.calls] == ["list", "watch", "watch", "watch"]
    assert stand.slept == []


async def test_streams_that_end_at_once_and_empty_are_not_asked_for_in_a_hurry(play):
    stand = await play([[]], [[], []], least_pause_secs=1.0)
    assert stand.slept == [1.0, 1.0]


@pytest.mark.parametrize("watch", [[Gone("410")], [BOOKMARK, Gone("410")]])
async def test_when_the_past_is_gone_it_lists_at_once(play, make_pod, watch):
    stand = await play([[make_pod("a")], [make_pod("b")]], [watch])
    assert [call[0] for call in stand.script.calls] == ["list", "watch", "list", "watch"]
    assert stand.keys == ["uid-b:80"]
    assert stand.slept == [0.0]
    assert stand.failures == []


async def test_a_past_that_is_gone_again_and_again_backs_off(play):
    stand = await play([[], [], []], [[Gone("410")], [Gone("410")]])
    assert stand.slept == [0.0, 1.0]


async def test_lists_have_a_pause_between_them_whatever_happens(play):
    stand = await play([[], []], [[BOOKMARK, Gone("410")]], least_pause_secs=5.0)
    assert [round(secs) for secs in stand.slept] == [5]


async def test_a_watch_that_drops_is_followed_by_a_backoff_and_a_list(play, make_pod):
    stand = await play([[make_pod("a")], [make_pod("b")]], [[ClusterError("cut")]])
    assert [call[0] for call in stand.script.calls] == ["list", "watch", "list", "watch"]
    assert stand.slept == [0.5]
    assert stand.keys == ["uid-b:80"]


async def test_the_backoff_grows_to_its_bound_and_starts_anew_after_an_event(play):
    down = ClusterError("down")
    stand = await play(
        [down, down, down, down, [], []], [[BOOKMARK, down]], first_backoff_secs=1.0, max_backoff_secs=5.0
    )
    assert stand.slept == [1.0, 2.0, 4.0, 5.0, 1.0]


async def test_chance_takes_up_to_half_of_a_backoff_away(make_pod):
    stand = Stand(Script([ClusterError("down")]), first_backoff_secs=4.0, least_pause_secs=0.0)
    stand.informer._chance = lambda: 0.0
    await stand.play()
    assert stand.slept == [2.0]


async def test_a_list_that_fails_is_told_by_reason_and_leaves_the_pods_as_they_are(play, make_pod):
    stand = await play([[make_pod("a")], ClusterError("down"), Undecodable("?")], [[ClusterError("cut")]])
    assert stand.failures == ["unreadable", "invalid"]
    assert stand.keys == ["uid-a:80"]


async def test_it_counts_as_synced_only_after_a_list(play):
    stand = await play([ClusterError("down")])
    assert not stand.informer.synced.is_set()


async def test_a_full_pass_finds_what_no_event_told(make_pod):
    script = Script([[make_pod("a")], []])
    stand = Stand(script, resync_secs=0.01, least_pause_secs=0.0)
    await until_listed(stand)
    assert stand.keys == []
    assert [call[0] for call in script.calls][:3] == ["list", "watch", "list"]


async def test_a_quiet_time_between_two_full_passes_ends_a_row_of_failures():
    down = ClusterError("down")
    stand = Stand(Script([down, [], down, []]), resync_secs=0.01, least_pause_secs=0.0)
    await until_listed(stand)
    assert stand.slept == [0.5, 0.5]


async def until_listed(stand):
    """Run until all lists are played; watches that say nothing are ended by full passes."""
    running = asyncio.create_task(stand.informer.run())
    async with asyncio.timeout(10):
        while stand.script.lists:  # noqa: ASYNC110  the informer has no event for it
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
