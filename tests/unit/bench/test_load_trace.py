from bench.conversation_trace import Turn
from bench.load_trace import Player


def turn(conversation: int, says: str, *, last: bool = False) -> Turn:
    return Turn(conversation, f"system {conversation}", says, last)


def test_a_turn_waits_for_the_answer_before_it_and_others_overtake_it() -> None:
    first, second, other = turn(1, "a"), turn(1, "b", last=True), turn(2, "c", last=True)
    player = Player(iter([first, second, other]))
    assert [player.next(), player.next(), player.next()] == [first, other, None]
    player.ask(first)
    player.answered(first, "so")
    assert player.next() == second


def test_a_turn_brings_the_history_with_the_answers_that_were_given() -> None:
    first, second = turn(1, "a"), turn(1, "b", last=True)
    player = Player(iter([first, second]))
    player.ask(first)
    player.next()
    player.answered(first, "so")
    assert [message["content"] for message in player.ask(second)] == ["system 1", "a", "so", "b"]


def test_nothing_waits_once_the_last_answer_is_there() -> None:
    only = turn(1, "a", last=True)
    player = Player(iter([only]))
    player.ask(only)
    player.next()
    assert player.waiting
    player.answered(only, "so")
    assert player.next() is None
    assert not player.waiting
    assert not player.histories
