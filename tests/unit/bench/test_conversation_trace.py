import itertools
import statistics
from collections import Counter

from bench.conversation_trace import APPLICATIONS, CONVERSATIONS, turns


def test_the_trace_is_the_same_every_time() -> None:
    assert list(turns()) == list(turns())
    assert list(turns(seed=1)) != list(turns(seed=2))


def test_a_conversation_keeps_its_beginning_and_ends_once_with_its_last_turn() -> None:
    trace = list(turns())
    systems = {turn.conversation: turn.system for turn in trace}
    assert all(systems[turn.conversation] == turn.system for turn in trace)
    assert len(systems) == CONVERSATIONS
    last = {turn.conversation: turn for turn in trace}
    assert [turn for turn in trace if turn.last] == sorted(last.values(), key=trace.index)


def test_users_mix_and_applications_differ_in_popularity() -> None:
    trace = list(turns())
    switches = sum(a.conversation != b.conversation for a, b in itertools.pairwise(trace))
    assert switches > 0.9 * len(trace)
    uses = Counter(turn.system for turn in trace)
    assert len(uses) == APPLICATIONS
    assert uses.most_common(1)[0][1] > 4 * statistics.median(uses.values())
