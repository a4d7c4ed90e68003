import base64
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.dialects import DIALECTS
from smg.sim.prompt import text_prompt
from smg.sim.requests import Reader
from smg.sim.scoring import RENDERERS, Frame, embed, score


def answer(kind, engine="sglang", **body):
    call = Reader(10, 1000).scoring(kind, msgspec.json.encode(body))
    return msgspec.json.decode(RENDERERS[kind](DIALECTS[engine], call, Frame("id-1", "m", 12, 0.5)))


def test_embeddings_are_unit_vectors_of_their_input():
    first, second = embed("m", text_prompt("a"), 32), embed("m", text_prompt("b"), 32)
    assert sum(x * x for x in first) == pytest.approx(1)
    assert first != second
    assert first == embed("m", text_prompt("a"), 32) != embed("other", text_prompt("a"), 32)


def test_an_embedding_answer_has_openais_shape():
    out = answer("embeddings", input=["a", "bcdef"], dimensions=4)
    assert [row["index"] for row in out["data"]] == [0, 1]
    assert [len(row["embedding"]) for row in out["data"]] == [4, 4]
    assert out["usage"]["prompt_tokens"] == 3


def test_embeddings_travel_as_base64_when_asked_for():
    packed = answer("embeddings", input="a", dimensions=4, encoding_format="base64")["data"][0]["embedding"]
    assert struct.unpack("<4f", base64.b64decode(packed)) == pytest.approx(embed("m", text_prompt("a"), 4))


def test_class_probabilities_add_up():
    [row] = answer("classify", input="a")["data"]
    assert sum(row["probs"]) == pytest.approx(1)
    assert row["num_classes"] == len(row["probs"])


@given(st.text(max_size=40), st.text(max_size=40))
def test_scores_are_between_nought_and_one(query, document):
    assert 0 <= score(query, document) <= 1


def test_documents_with_more_of_the_query_rank_higher():
    out = answer("rerank", query="red green blue", documents=["grey", "red green", "blue red green sky", "blue"])
    assert [row["index"] for row in out] == [2, 1, 3, 0]
    assert out[0]["document"] == "blue red green sky"


def test_a_rerank_is_cut_to_what_was_asked_for():
    out = answer("rerank", query="a", documents=["x", "a", "y"], top_n=1, return_documents=False)
    assert [(row["index"], row["document"]) for row in out] == [(1, None)]


@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_other_engines_rerank_in_coheres_shape(engine):
    out = answer("rerank", engine, query="a", documents=["x", "a"])
    assert [row["index"] for row in out["results"]] == [1, 0]
    assert out["results"][0]["document"] == {"text": "a"}
    assert out["usage"]["total_tokens"] == 2
