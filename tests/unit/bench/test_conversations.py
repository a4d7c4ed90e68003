import itertools
import json

from bench import conversations, wire


def bodies(user: int, count: int, prefix_bytes: int = 2048) -> list[dict]:
    found = []
    for request in itertools.islice(conversations.requests(8000, user, prefix_bytes), count):
        head, _, body = request.partition(wire.HEAD_END)
        assert wire.content_length(head) == len(body)
        found.append(json.loads(body))
    return found


def test_each_turn_sends_the_whole_history_and_more() -> None:
    turns = [body["messages"] for body in bodies(user=3, count=conversations.TURNS)]
    for before, after in itertools.pairwise(turns):
        assert after[: len(before)] == before
        assert len(after) == len(before) + 2


def test_users_of_one_application_share_the_beginning_and_others_have_their_own() -> None:
    first, neighbour, stranger = (bodies(user, 1)[0]["messages"] for user in (0, 1, conversations.SHARING))
    assert len(first[0]["content"]) == 2048
    assert first[0] == neighbour[0] != stranger[0]
    assert first[1] != neighbour[1]


def test_a_session_that_is_over_is_followed_by_a_new_one() -> None:
    first, second = (bodies(0, conversations.TURNS + 1)[at]["messages"] for at in (0, conversations.TURNS))
    assert len(first) == len(second)
    assert first[1] != second[1]


def test_users_on_one_connection_take_turns() -> None:
    taken = itertools.islice(conversations.taking_turns(8000, range(5, 64, 32), 100), 4)
    assert [b"User 5," in request for request in taken] == [True, False, True, False]
