"""What a transcription's form may say, and what is forwarded of it."""

import pytest

from smg.protocol.failures import FormFailure
from smg.protocol.multipart import FilePart, Form
from smg.protocol.transcriptions import GRANULARITIES, transcription_of


def asked(file=True, **fields):
    values = {"model": ["m"]} | {name: [value] for name, value in fields.items()}
    return transcription_of(Form(values, FilePart("a.wav", "", 1) if file is True else file))


def test_values_are_forwarded_as_they_came_with_the_model_resolved():
    form = Form(
        {GRANULARITIES: ["word", "segment"], "temperature": ["0.20"], "model": ["alias"], "prompt": [" é "]},
        FilePart("a.wav", "audio/wav", 1),
    )
    found = transcription_of(form)
    assert found.fields_for("canonical") == [
        ("model", "canonical"),
        ("prompt", " é "),
        ("temperature", "0.20"),
        (GRANULARITIES, "word"),
        (GRANULARITIES, "segment"),
    ]
    assert (found.model, found.stream, found.prompt) == ("alias", False, " é ")


@pytest.mark.parametrize("value", ["0", "1", "0.0", "1.0", ".5", "1.", "5e-1", "-0", "+0.5"])
def test_temperatures_in_range(value):
    assert ("temperature", value) in asked(temperature=value).fields


@pytest.mark.parametrize(
    "value", ["", "1.1", "-0.1", "1e999", "nan", "inf", "0_1", "\u0660", " 0.5", "0x1", "warm", "."]
)
def test_other_temperatures_are_refused(value):
    with pytest.raises(FormFailure, match="temperature"):
        asked(temperature=value)


@pytest.mark.parametrize(("value", "meaning"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_spellings_of_stream(value, meaning):
    assert asked(stream=value).stream is meaning


@pytest.mark.parametrize("value", ["", "yes", "2", "TRUE", " true", "null"])
def test_other_spellings_are_refused(value):
    with pytest.raises(FormFailure, match="stream"):
        asked(stream=value)


@pytest.mark.parametrize("file", [None, FilePart("a.wav", "audio/wav", 0)])
def test_a_file_must_be_there_and_have_bytes(file):
    with pytest.raises(FormFailure, match="file"):
        asked(file=file)


@pytest.mark.parametrize("value", ["", " "])
def test_a_model_must_be_named(value):
    with pytest.raises(FormFailure, match="model"):
        asked(model=value)


@pytest.mark.parametrize("name", ["model", "language", "prompt", "response_format", "temperature", "stream"])
def test_a_field_that_is_given_twice_is_refused(name):
    with pytest.raises(FormFailure, match=name):
        transcription_of(Form({"model": ["m"], name: ["1", "1"]}, FilePart("a", "", 1)))


def test_a_file_without_a_name_gets_one():
    assert asked(file=FilePart("", "audio/wav", 1)).file == FilePart("audio", "audio/wav", 1)
