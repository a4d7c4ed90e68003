"""Recordings become the same words everywhere, in every format."""

import json

import pytest

from smg.sim.dialect import SimError
from smg.sim.transcripts import read_form
from support.forms import BOUNDARY, file, form, model, part

TYPE = f"multipart/form-data; boundary={BOUNDARY}".encode()


def asked(*parts):
    return read_form(TYPE, form(*parts))


def prompt(*parts):
    return json.loads(asked(*parts).completion)["prompt"]


def test_the_words_follow_from_the_recording_and_the_prompt():
    words = prompt(file(b"a"), model())
    assert words == prompt(model(), file(b"a", "another.mp3"), part("language", "de"))
    assert len({words, prompt(file(b"b"), model()), prompt(file(b"a"), model(), part("prompt", "x"))}) == 3


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [("json", b"application/json"), ("text", b"text/plain"), ("vtt", b"text/vtt"), ("srt", b"application/x-subrip")],
)
def test_every_format_has_its_type(wanted, kind):
    assert asked(file(), model(), part("response_format", wanted)).content_type.startswith(kind)


@pytest.mark.parametrize("parts", [(model(),), (file(),), (file(), model(), part("response_format", "mp3"))])
def test_what_is_no_such_form_is_refused(parts):
    with pytest.raises(SimError) as refused:
        asked(*parts)
    assert refused.value.status == 400
