import msgspec

from smg.sim.generate_form import GenerateForm
from smg.sim.output import token_id


def generate(talk, **body):
    call = talk.call_of("generate", **({"text": "hi"} | body))
    return GenerateForm(call), talk.sequences_of(call)


def test_an_answer_says_everything_in_its_meta_info(talk):
    form, [sequence] = generate(talk, sampling_params={"max_new_tokens": 2})
    sequence.submitted_at = 1.0
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v7", 3.0))
    text = sequence.output.text
    assert answer == {
        "text": text,
        "output_ids": [token_id(text[:4]), token_id(text[4:])],
        "meta_info": {
            "id": "r_0",
            "finish_reason": {"type": "length", "length": 2},
            "prompt_tokens": 1,
            "weight_version": "v7",
            "total_retractions": 0,
            "completion_tokens": 2,
            "cached_tokens": 0,
            "e2e_latency": 2.0,
        },
    }


def test_a_batch_is_answered_by_a_list(talk):
    form, sequences = generate(talk, text=["a", "b"])
    answer = msgspec.json.decode(form.whole([talk.finish(s) for s in sequences], "v", 0.0))
    assert [row["meta_info"]["id"] for row in answer] == ["r_0", "r_1"]


def test_streamed_events_carry_the_text_so_far(talk):
    form, [sequence] = generate(talk)
    out = talk.events(talk.stream(form, sequence, 3, 7, 10))
    assert [event["text"] for event in out] == [sequence.output.text[:n] for n in (12, 28, 40)]
    assert [event["meta_info"]["finish_reason"] for event in out] == [None, None, {"type": "stop", "matched": 2}]
    assert all("index" not in event for event in out)


def test_streamed_events_of_a_batch_are_numbered(talk):
    form, sequences = generate(talk, text=["a", "b"])
    assert [event["index"] for event in talk.events(talk.stream(form, sequences[1], 5, 10))] == [1, 1]


def test_stops_and_aborts_are_named(talk):
    form, [sequence] = generate(talk)
    stop = sequence.output.text[4:8]
    form, [sequence] = generate(talk, sampling_params={"stop": stop})
    answer = msgspec.json.decode(form.whole([talk.finish(sequence)], "v", 0.0))
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    answer = msgspec.json.decode(form.whole([talk.finish(sequence, "abort")], "v", 0.0))
    assert answer["meta_info"]["finish_reason"]["type"] == "abort"


def test_log_probabilities_come_as_triples(talk):
    form, [sequence] = generate(talk, return_logprob=True, top_logprobs_num=2, sampling_params={"max_new_tokens": 3})
    info = msgspec.json.decode(form.whole([talk.finish(sequence)], "v", 0.0))["meta_info"]
    assert [row[1] for row in info["output_token_logprobs"]] == [token_id(p) for p in sequence.output.pieces(0, 3)]
    assert [len(row) for row in info["output_top_logprobs"]] == [2, 2, 2]
