import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.dialects import DIALECTS
from smg.sim.forms import DONE, ChatForm, CompletionForm, Identity, usage

IDENTITY = Identity("id-1", 1234, 'mo"del', "v1")


def chat(talk, engine="sglang", **body):
    call = talk.call_of("chat", messages=[{"content": "hi"}], **body)
    return ChatForm(DIALECTS[engine], call, IDENTITY), talk.sequences_of(call)


def completion(talk, engine="sglang", **body):
    call = talk.call_of("completions", prompt="hi", **body)
    return CompletionForm(DIALECTS[engine], call, IDENTITY), talk.sequences_of(call)


def whole(talk, form, sequences):
    return msgspec.json.decode(form.whole([talk.finish(s) for s in sequences], "v1", 0.0))


def test_a_whole_chat_answer_has_openais_shape(talk):
    form, sequences = chat(talk, max_tokens=3)
    assert whole(talk, form, sequences) == {
        "id": "id-1",
        "object": "chat.completion",
        "created": 1234,
        "model": 'mo"del',
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": sequences[0].output.text},
                "logprobs": None,
                "finish_reason": "length",
                "matched_stop": None,
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        "metadata": {"weight_version": "v1"},
    }


@pytest.mark.parametrize("make", [ChatForm, CompletionForm])
@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\x1eb", "\u00e4\U0001f600"])
def test_a_request_may_call_itself_what_it_likes(talk, make, name):
    kind = {"messages": [{"content": "hi"}]} if make is ChatForm else {"prompt": "hi"}
    call = talk.call_of("chat" if make is ChatForm else "completions", **kind, stream=True, max_tokens=2)
    form = make(DIALECTS["sglang"], call, IDENTITY._replace(id=name))
    (sequence,) = talk.sequences_of(call)
    assert whole(talk, form, [sequence])["id"] == name
    sequence.sent = 0
    events = form.events(sequence, 0, "v1").split(b"\n\n")[:-1]
    assert events
    assert {msgspec.json.decode(event.removeprefix(b"data: "))["id"] for event in events} == {name}


def test_a_whole_completion_has_its_text_in_the_choice(talk):
    form, sequences = completion(talk, max_tokens=3)
    answer = whole(talk, form, sequences)
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == sequences[0].output.text


@pytest.mark.parametrize("make", [chat, completion])
@given(cuts=st.lists(st.integers(1, 10), max_size=4))
def test_a_stream_joins_to_the_whole_answer_under_any_split(talk, make, cuts):
    form, [sequence] = make(talk)
    out = talk.events(talk.stream(form, sequence, *sorted({*cuts, 10})))
    choices = [event["choices"][0] for event in out]
    pieces = [c["delta"].get("content", "") if "delta" in c else c["text"] for c in choices]
    assert "".join(pieces) == sequence.output.text
    assert [c["finish_reason"] for c in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert {event["id"] for event in out} == {"id-1"}


def test_every_token_has_an_event_of_its_own(talk):
    form, [sequence] = chat(talk)
    assert len(talk.events(talk.stream(form, sequence, 10))) == 1 + 10 + 1


def test_a_chat_stream_opens_with_the_role(talk):
    form, [sequence] = chat(talk)
    first = talk.events(talk.stream(form, sequence, 10))[0]
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_usage_ends_a_stream_that_asks_for_it(talk):
    form, sequences = chat(talk, stream=True, stream_options={"include_usage": True})
    talk.finish(sequences[0])
    last, done = talk.events(form.ending(sequences))
    assert (last["choices"], last["usage"]["completion_tokens"], done) == ([], 10, b"[DONE]")
    form, sequences = chat(talk, stream=True)
    assert form.ending(sequences) == DONE


def test_several_choices_keep_their_numbers(talk):
    form, sequences = chat(talk, n=2)
    answer = whole(talk, form, sequences)
    assert [c["index"] for c in answer["choices"]] == [0, 1]
    assert answer["choices"][0]["message"] != answer["choices"][1]["message"]
    assert answer["usage"]["prompt_tokens"] == 9
    assert answer["usage"]["completion_tokens"] == 20
    assert talk.events(talk.stream(form, sequences[1], 10))[0]["choices"][0]["index"] == 1


def test_every_prompt_counts_once_in_the_usage(talk):
    call = talk.call_of("completions", prompt=["a" * 8, "b" * 12], n=2)
    sequences = talk.sequences_of(call)
    sequences[0].cached_tokens, sequences[1].cached_tokens, sequences[2].cached_tokens = 1, 100, 2
    counted = msgspec.json.decode(usage(sequences, 2))
    assert counted["prompt_tokens"] == 5
    assert counted["prompt_tokens_details"]["cached_tokens"] == 3


def test_chat_log_probabilities_are_listed_a_token(talk):
    form, sequences = chat(talk, max_tokens=2, logprobs=True, top_logprobs=2)
    listed = whole(talk, form, sequences)["choices"][0]["logprobs"]["content"]
    assert "".join(t["token"] for t in listed) == sequences[0].output.text
    assert [len(t["top_logprobs"]) for t in listed] == [2, 2]
    form, [sequence] = chat(talk, max_tokens=2, logprobs=True)
    streamed = talk.events(talk.stream(form, sequence, 1, 2))[1:3]
    assert [e["choices"][0]["logprobs"]["content"][0]["token"] for e in streamed] == sequence.output.pieces(0, 2)


def test_completion_log_probabilities_know_their_offsets(talk):
    form, sequences = completion(talk, max_tokens=3, logprobs=1)
    assert whole(talk, form, sequences)["choices"][0]["logprobs"]["text_offset"] == [0, 4, 8]
    form, [sequence] = completion(talk, max_tokens=3, logprobs=1)
    streamed = talk.events(talk.stream(form, sequence, 1, 3))[:3]
    assert [e["choices"][0]["logprobs"]["text_offset"] for e in streamed] == [[0], [4], [8]]


@pytest.mark.parametrize(
    ("engine", "member"),
    [("sglang", ("matched_stop", 2)), ("vllm", ("stop_reason", None)), ("openai", None)],
)
def test_dialects_add_their_own_members(talk, engine, member):
    form, sequences = chat(talk, engine)
    answer = whole(talk, form, sequences)
    choice = answer["choices"][0]
    assert set(choice) - {"index", "message", "logprobs", "finish_reason"} == ({member[0]} if member else set())
    if member:
        assert choice[member[0]] == member[1]
    assert ("metadata" in answer) == (engine == "sglang")
    assert ("system_fingerprint" in answer) == (engine != "sglang")


def test_a_stop_string_is_named_where_the_engine_names_it(talk):
    text = chat(talk)[1][0].output.text
    form, sequences = chat(talk, stop=text[8:12])
    assert whole(talk, form, sequences)["choices"][0]["matched_stop"] == text[8:12]
    form, sequences = chat(talk, "vllm", stop=text[8:12])
    assert whole(talk, form, sequences)["choices"][0]["stop_reason"] == text[8:12]


def test_an_aborted_answer_says_so(talk):
    form, [sequence] = chat(talk)
    sequence.produced, sequence.ended = 2, "abort"
    answer = msgspec.json.decode(form.whole([sequence], "v1", 0.0))
    assert answer["choices"][0]["finish_reason"] == "abort"
    assert answer["choices"][0]["message"]["content"] == sequence.output.text[:8]
