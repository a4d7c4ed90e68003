import msgspec
import pytest

from smg.sim.dialect import SimError
from smg.sim.output import Sampling
from smg.sim.prompt import ids_prompt, text_prompt
from smg.sim.requests import Reader

READER = Reader(10, 1000)


def generation(kind, **body):
    return READER.generation(kind, msgspec.json.encode(body))


def chat(**body):
    return generation("chat", **({"messages": [{"role": "user", "content": "hi"}]} | body))


def test_a_chat_is_one_prompt_that_ends_where_the_assistant_speaks():
    call = chat(model="m")
    assert call.model == "m"
    assert call.prompts == (text_prompt("<|user|>\nhi<|end|>\n<|assistant|>\n"),)
    assert call.samplings == (Sampling(10, "stop"),)
    assert not call.stream


def test_content_parts_tools_and_tool_calls_belong_to_the_prompt():
    parts = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "a"}}]
    with_image = chat(messages=[{"role": "user", "content": parts}])
    parts[1]["image_url"]["url"] = "b"
    with_other = chat(messages=[{"role": "user", "content": parts}])
    with_call = chat(messages=[{"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}])
    with_tools = chat(tools=[{"type": "function"}])
    digests = {c.prompts[0].digest for c in (chat(), with_image, with_other, with_call, with_tools)}
    assert len(digests) == 5


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_limit_count(field):
    assert chat(**{field: 3}).samplings[0] == Sampling(3, "length")


@pytest.mark.parametrize("asked", [{"max_tokens": 2**62, "ignore_eos": True}, {"min_tokens": 2**62}])
def test_an_answer_ends_where_the_context_does(asked):
    call = chat(**asked)
    assert call.samplings == (Sampling(1000 - call.prompts[0].tokens, "length"),)


def test_the_newer_name_of_the_limit_wins():
    assert chat(max_tokens=3, max_completion_tokens=4).samplings[0].limit_tokens == 4


def test_what_shapes_the_answer_is_read():
    call = chat(
        n=2,
        stop="x",
        seed=7,
        stream=True,
        stream_options={"include_usage": True},
        logprobs=True,
        top_logprobs=2,
        rid="me",
        routed_dp_rank=3,
    )
    assert (call.choices, call.stream, call.usage, call.logprobs) == (2, True, True, 2)
    assert call.samplings[0] == Sampling(10, "stop", ("x",), 7)
    assert (call.rid, call.rank) == ("me", 3)


def test_unknown_fields_and_nulls_are_accepted():
    call = chat(
        n=None, stop=None, stream=None, stream_options=None, max_tokens=None, temperature=0.5, anything={"a": 1}
    )
    assert (call.choices, call.stream) == (1, False)


def test_cache_salts_and_adapters_separate_prompts():
    plain = chat(messages=[{"content": "x" * 100}])
    assert plain.prompts[0].blocks != chat(messages=[{"content": "x" * 100}], cache_salt="s").prompts[0].blocks
    assert plain.prompts[0].blocks != chat(messages=[{"content": "x" * 100}], lora_path="l").prompts[0].blocks


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", (text_prompt("a"),)),
        (["a", "b"], (text_prompt("a"), text_prompt("b"))),
        ([1, 2], (ids_prompt([1, 2]),)),
        ([[1, 2], [3]], (ids_prompt([1, 2]), ids_prompt([3]))),
    ],
)
def test_a_completion_takes_text_ids_and_lists_of_either(given, expected):
    assert generation("completions", prompt=given).prompts == expected


def test_generate_prefers_token_ids_to_text():
    assert generation("generate", text="a", input_ids=[1, 2]).prompts == (ids_prompt([1, 2]),)


def test_generate_takes_sampling_for_all_or_each():
    for_all = generation("generate", text=["a", "b"], sampling_params={"max_new_tokens": 2})
    assert for_all.samplings == (Sampling(2, "length"),) * 2
    each = generation("generate", text=["a", "b"], sampling_params=[{"max_new_tokens": 2}, {"stop": ["s"]}])
    assert each.samplings == (Sampling(2, "length"), Sampling(10, "stop", ("s",)))


@pytest.mark.parametrize(
    ("body", "many"),
    [
        ({"text": "a"}, False),
        ({"text": ["a"]}, True),
        ({"input_ids": [1]}, False),
        ({"input_ids": [[1]]}, True),
        ({"text": "a", "sampling_params": {"n": 2}}, True),
    ],
)
def test_generate_answers_a_list_for_batches_and_several_choices(body, many):
    assert generation("generate", **body).many is many


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("chat", {"messages": []}, "messages must not be empty"),
        ("chat", {}, "not a valid request"),
        ("chat", {"messages": [{"content": "x"}], "n": 0}, "n must be between"),
        ("chat", {"messages": [{"content": "x"}], "max_tokens": -1}, "max_tokens must not be negative"),
        ("chat", {"messages": [{"content": "x" * 4001}]}, "at most 1000"),
        ("completions", {"prompt": []}, "must not be empty"),
        ("completions", {"prompt": [1, "a"]}, "text, token ids, or a list of either"),
        ("generate", {}, "either text or input_ids"),
        ("generate", {"text": ["a", "b"], "sampling_params": [{}]}, "one object or one a prompt"),
    ],
)
def test_what_cannot_be_served_is_refused(kind, body, problem):
    with pytest.raises(SimError, match=problem) as caught:
        generation(kind, **body)
    assert caught.value.status == 400


def test_a_body_that_comes_again_is_recognised():
    reader = Reader(10, 1000)
    body = b'{"messages":[{"content":"x"}]}'
    assert reader.generation("chat", body) is reader.generation("chat", bytes(bytearray(body)))


def test_the_same_body_on_another_route_is_another_request():
    reader = Reader(10, 1000)
    body = b'{"prompt":"x","messages":[{"content":"x"}]}'
    assert reader.generation("chat", body) != reader.generation("completions", body)


def test_a_rerank_is_a_prompt_a_document():
    call = READER.scoring("rerank", b'{"query":"q","documents":["a","b"],"top_n":1,"return_documents":false}')
    assert call.texts == ("q", "a", "b")
    assert (len(call.prompts), call.top, call.with_documents) == (2, 1, False)


def test_embeddings_take_dimensions_and_encoding():
    call = READER.scoring("embeddings", b'{"input":"a","dimensions":8,"encoding_format":"base64"}')
    assert (call.dimensions, call.base64) == (8, True)
    with pytest.raises(SimError, match="dimensions"):
        READER.scoring("embeddings", b'{"input":"a","dimensions":0}')
