from hypothesis import given
from hypothesis import strategies as st

from smg.sim.prompt import BLOCK_CHARS, blocks_with_answer, count_tokens, ids_prompt, render_chat, text_prompt


def test_four_characters_are_a_token_and_a_started_one_counts():
    assert [count_tokens("x" * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_only_full_blocks_have_keys():
    prompt = text_prompt("x" * (2 * BLOCK_CHARS + 3))
    assert len(prompt.blocks) == 2
    assert prompt.tail == "xxx"
    assert len(ids_prompt(list(range(35))).blocks) == 2


@given(st.text(max_size=300), st.text(max_size=300))
def test_texts_share_as_many_leading_blocks_as_they_share_text(first, second):
    same = 0
    while (
        first[: (same + 1) * BLOCK_CHARS] == second[: (same + 1) * BLOCK_CHARS]
        and len(first) >= (same + 1) * BLOCK_CHARS
    ):
        same += 1
    pairs = list(zip(text_prompt(first).blocks, text_prompt(second).blocks, strict=False))
    assert [a == b for a, b in pairs] == [at < same for at in range(len(pairs))]


def test_a_block_stands_for_everything_before_it():
    end = "e" * BLOCK_CHARS
    assert text_prompt("a" * BLOCK_CHARS + end).blocks[1] != text_prompt("b" * BLOCK_CHARS + end).blocks[1]


def test_namespaces_share_no_blocks_but_have_the_same_content():
    one, other = text_prompt("x" * 100, "salt"), text_prompt("x" * 100, "pepper")
    assert one.digest == other.digest
    assert not set(one.blocks) & set(other.blocks)
    assert not set(ids_prompt([1] * 16, "salt").blocks) & set(ids_prompt([1] * 16).blocks)


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_blocks_of_prompt_and_answer_are_those_of_their_joined_text(prompt, answer):
    assert blocks_with_answer(text_prompt(prompt), answer) == text_prompt(prompt + answer).blocks


def test_an_answer_to_token_ids_adds_no_blocks():
    prompt = ids_prompt([1] * 20)
    assert blocks_with_answer(prompt, "x" * 200) == prompt.blocks


def test_the_next_turn_of_a_conversation_begins_with_the_last_one():
    turns = [("system", "be kind"), ("user", "hello")]
    now = render_chat(turns, "[tools]")
    after = render_chat([*turns, ("assistant", "good day"), ("user", "bye")], "[tools]")
    assert after.startswith(now + "good day")


def test_lone_surrogates_are_no_trouble():
    assert text_prompt("\ud800").tokens == 1
