from smg.fleet.cards import model_cards
from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard

PLAIN = WorkerSpec(url="http://h:1")
LABELS = {
    "served_model_name": "m",
    "context_length": "4096",
    "tokenizer_path": "t",
    "tool_parser": "hermes",
    "model_type": "llama",
    "architectures": '["A"]',
}


def test_labels_describe_the_model_of_a_worker_without_cards():
    (card,) = model_cards(PLAIN, LABELS)
    assert card == ModelCard(
        "m",
        context_length=4096,
        tokenizer_path="t",
        tool_parser="hermes",
        hf_model_type="llama",
        architectures=("A",),
    )


def test_nothing_known_makes_a_wildcard():
    assert model_cards(PLAIN, {"version": "1"}) == ()


def test_a_given_card_names_the_model_and_labels_complete_it():
    spec = WorkerSpec(url="http://h:1", models=(ModelCard("mine", ("short",), context_length=8),))
    (card,) = model_cards(spec, LABELS)
    assert (card.id, card.aliases, card.context_length, card.tokenizer_path) == ("mine", ("short",), 8, "t")


def test_only_the_first_of_several_cards_is_completed():
    spec = WorkerSpec(url="http://h:1", models=(ModelCard("base"), ModelCard("adapter")))
    base, adapter = model_cards(spec, LABELS)
    assert base.context_length == 4096
    assert adapter == ModelCard("adapter")


def test_labels_without_a_name_still_complete_a_card():
    spec = WorkerSpec(url="http://h:1", models=(ModelCard("mine"),))
    (card,) = model_cards(spec, {"max_model_len": "16"})
    assert card.context_length == 16
