import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.pairing import LAYOUT_LABELS, Kind, compatible, kind_of, kv_connector, kv_engine_id
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard, Worker


class ClosedBreaker:
    def admits(self, now):
        return True


def worker(*, models=(), runtime="sglang", dp_rank=None, connector=None, engine_id=None, **labels):
    spec = WorkerSpec(url="http://w", kv_connector=connector, kv_engine_id=engine_id)
    return Worker(
        "w",
        "http://w",
        "http://w",
        ClosedBreaker(),
        models=tuple(ModelCard(model) for model in models),
        runtime=runtime,
        labels=labels,
        dp_rank=dp_rank,
        spec=spec,
    )


def fit(prefill, decode):
    return compatible(kind_of(prefill), kind_of(decode))


facts = st.sampled_from(["", "one", "two"])
kinds = st.builds(
    Kind,
    models=st.frozensets(st.sampled_from(["m", "n"])),
    protocol=facts,
    runtime=facts,
    connector=facts,
    layout=st.tuples(*[facts] * len(LAYOUT_LABELS)),
)


def test_what_is_not_known_does_not_refuse():
    assert fit(worker(), worker())
    assert fit(worker(page_size="16", connector="nixl"), worker())


@pytest.mark.parametrize("label", ["kv_cache_dtype", "page_size", "block_size", "attention_backend", "model_dtype"])
def test_caches_of_another_layout_do_not_fit(label):
    assert fit(worker(**{label: "a"}), worker(**{label: "a"}))
    assert not fit(worker(**{label: "a"}), worker(**{label: "b"}))


def test_page_and_block_are_two_names_for_one_size():
    assert fit(worker(page_size="16"), worker(block_size="16"))
    assert not fit(worker(page_size="16"), worker(block_size="32"))
    assert fit(worker(page_size="16", block_size="1"), worker(page_size="16", block_size="2"))


def test_engines_of_another_kind_do_not_fit():
    assert not fit(worker(runtime="sglang"), worker(runtime="vllm"))


def test_transports_must_not_differ_whatever_their_spelling():
    assert fit(worker(connector="NixlConnector"), worker(kv_connector="nixl"))
    assert not fit(worker(connector="nixl"), worker(connector="mooncake"))


def test_an_explicit_protocol_on_both_settles_it():
    assert fit(worker(runtime="vllm", pairing_protocol="p"), worker(runtime="sglang", pairing_protocol="p"))
    assert not fit(worker(pairing_protocol="p"), worker(pairing_protocol="q"))
    assert fit(worker(pairing_protocol="p"), worker())
    assert not fit(worker(pairing_protocol="p", runtime="vllm"), worker())


def test_legs_serve_a_common_model():
    assert fit(worker(models=["m", "n"]), worker(models=["n"]))
    assert fit(worker(models=["m"]), worker())
    assert not fit(worker(models=["m"]), worker(models=["n"]))
    assert not fit(worker(models=["m"], pairing_protocol="p"), worker(models=["n"], pairing_protocol="p"))


@given(kinds, kinds)
def test_it_does_not_matter_which_leg_is_which(one, other):
    assert compatible(one, other) == compatible(other, one)


@given(kinds)
def test_a_kind_fits_itself(kind):
    assert compatible(kind, kind)


@given(kinds, kinds, st.sampled_from(["models", "runtime", "connector", "layout"]))
def test_knowing_less_never_refuses_more(one, other, forgotten):
    less = one._replace(**{forgotten: type(getattr(one, forgotten))()})
    if forgotten == "layout":
        less = one._replace(layout=("",) * len(LAYOUT_LABELS))
    if compatible(one, other):
        assert compatible(less, other)


@pytest.mark.parametrize(
    ("registered", "known"),
    [
        (worker(), ""),
        (worker(connector="MooncakeConnector"), "mooncake"),
        (worker(kv_connector="LMCacheConnectorV1"), "lmcacheconnectorv1"),
        (worker(connector="nixl", kv_connector="mooncake"), "nixl"),
        (Worker("w", "http://w", "http://w", ClosedBreaker()), ""),
    ],
)
def test_the_connector_is_the_registered_one_or_the_label(registered, known):
    assert kv_connector(registered) == known


@pytest.mark.parametrize(
    ("registered", "known"),
    [
        (worker(), None),
        (worker(engine_id="e"), "e"),
        (worker(kv_engine_id="l"), "l"),
        (worker(engine_id="e", kv_engine_id="l"), "e"),
        (worker(engine_id="e", dp_rank=0), "e_dp0"),
        (worker(dp_rank=1), None),
        (Worker("w", "http://w", "http://w", ClosedBreaker()), None),
    ],
)
def test_the_engine_id_is_the_registered_one_or_the_label_with_the_rank(registered, known):
    assert kv_engine_id(registered) == known


@pytest.mark.parametrize(
    ("registered", "shown"),
    [
        (worker(), "sglang/?/?"),
        (worker(runtime="vllm", connector="NixlConnector"), "vllm/nixl/?"),
        (worker(block_size="16", model_dtype="bf16"), "sglang/?/16,bf16"),
        (worker(pairing_protocol="mine", page_size="16"), "mine"),
    ],
)
def test_a_kind_is_shown_by_what_decides(registered, shown):
    assert str(kind_of(registered)) == shown
