from hypothesis import given
from hypothesis import strategies as st

from smg.sim.lexicon import WORDS, speak


def test_there_is_exactly_one_word_a_byte_and_each_fills_a_token():
    assert len(set(WORDS)) == 256
    assert min(len(word) for word in WORDS) >= 3


@given(st.binary(max_size=20), st.integers(0, 600))
def test_a_text_has_the_length_asked_for_and_needs_no_escaping(key, length):
    text = speak(key, length)
    assert len(text) == length
    assert text.isascii()
    assert not set(text) & set('"\\\n')


@given(st.binary(max_size=20), st.integers(0, 300), st.integers(0, 300))
def test_a_longer_text_begins_with_every_shorter_one(key, length, more):
    assert speak(key, length + more).startswith(speak(key, length))


def test_another_key_speaks_another_text():
    assert speak(b"a", 80) != speak(b"b", 80)
