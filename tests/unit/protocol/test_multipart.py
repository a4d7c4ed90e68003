"""A form is taken apart the same in whatever pieces it comes, and within bounds; what is rendered reads back."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol import multipart
from smg.protocol.failures import FormFailure
from smg.protocol.multipart import MAX_FIELD_BYTES, MAX_PARTS, FilePart, FormReader, boundary_of, render
from support.forms import AUDIO, BOUNDARY, file, form, model, part


def read(body, *cuts, boundary=BOUNDARY, wanted=("model", "a", "b")):
    """The fields, the file and its bytes of a body that comes in pieces."""
    reader = FormReader(boundary.encode(), wanted, "file")
    edges = [0, *sorted(cuts), len(body)]
    data = b"".join(bytes(d) for start, end in pairwise(edges) for d in reader.feed(body[start:end]))
    found = reader.finish()
    return found.fields, found.file, data


def refusal(body, **options):
    with pytest.raises(FormFailure) as refused:
        read(body, **options)
    return refused.value.message


WHOLE = form(model(), file(), part("a", "é"), part("else", "x"), part("a", "2"), part("b", ""))
EXPECTED = ({"model": ["m"], "a": ["é", "2"], "b": [""]}, FilePart("a.wav", "audio/wav", len(AUDIO)), AUDIO)


def test_a_form_is_its_wanted_fields_and_its_file():
    assert read(WHOLE) == EXPECTED


def test_byte_by_byte_it_is_the_same():
    assert read(WHOLE, *range(1, len(WHOLE))) == EXPECTED


@given(st.lists(st.integers(0, len(WHOLE))))
def test_under_any_split_it_is_the_same(cuts):
    assert read(WHOLE, *cuts) == EXPECTED


@given(st.data())
def test_any_bytes_that_do_not_hold_the_delimiter_pass_as_a_file(data):
    value = data.draw(st.lists(st.sampled_from([b"\r\n", b"--", b"\r", b"a-bound", b"\0", b"x"])).map(b"".join))
    body = form(file(value), model())
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=5))
    assert read(body, *cuts)[2] == value


def test_trailing_data_is_no_part_of_the_form():
    assert read(WHOLE + b"epilogue\r\n--x") == EXPECTED


@pytest.mark.parametrize("cut", range(1, len(WHOLE) - 3, 7))
def test_a_form_that_is_cut_off_is_refused_wherever_that_is(cut):
    with pytest.raises(FormFailure):
        read(WHOLE[:cut])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "before its closing boundary"),
        (b"just bytes", "no multipart"),
        (b"--another\r\n", "no multipart"),
        (form(b"--" + BOUNDARY.encode() + b"\r\n\r\nno headers\r\n"), "Content-Disposition"),
        (form(part("a", "x", 'Content-Disposition: form-data; name="b"')), "repeats a header"),
        (form(part('a"; name="b', "x")), "repeats a parameter"),
        (form(part("a", "x").replace(b"form-data", b"attachment")), "Content-Disposition"),
        (form(part("a", "x").replace(b'; name="a"', b"")), "Content-Disposition"),
        (form(part("a", "x").replace(b'"a"', b'"a')), "cannot be read"),
        (form(part("a", "x", "X: a\nContent-Type: text/html")), "control characters"),
        (form(part("a", "x", "X: \0")), "control characters"),
        (form(part("a", "x", "Content-Transfer-Encoding: base64")), "Content-Transfer-Encoding"),
        (form(part("a", b"\xff")), "not UTF-8"),
        (form(part("a", b"x" * (MAX_FIELD_BYTES + 1))), f"more than {MAX_FIELD_BYTES}"),
        (form(*[part("else", "")] * (MAX_PARTS + 1)), f"more than {MAX_PARTS}"),
        (form(*[part("a", "", "X: " + "x" * 9000)]), "no multipart"),
        (form(part("a", "", *[f"X{at}: x" for at in range(20)])), "no multipart"),
        (form(file(), file()), "more than one 'file'"),
    ],
)
def test_what_is_no_form_or_beyond_a_bound_is_refused_with_the_reason(body, why):
    assert why in refusal(body)


def test_what_is_skipped_has_no_bound_of_its_own():
    assert read(form(part("else", b"\xff" * 3 * MAX_FIELD_BYTES), part("a", "x" * MAX_FIELD_BYTES)))[0].keys() == {"a"}


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ('filename="録音 1.mp3"', "録音 1.mp3"),
        ("filename=plain.wav", "plain.wav"),
        (r'filename="a \"b\" \\ c.wav"', r'a "b" \ c.wav'),
        (r'filename="C:\sound\a.wav"', r"C:\sound\a.wav"),
        ("filename*=UTF-8''%E9%8C%B2.mp3", "録.mp3"),
        ("filename*=iso-8859-1'de'%FC.mp3", "ü.mp3"),
        ("filename=\"plain\"; filename*=UTF-8''other", "plain"),
        ("FileName=x", "x"),
        ('filename=""', ""),
        ("x=y", ""),
    ],
)
def test_a_file_name_is_understood_in_the_ways_clients_write_it(parameters, name):
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data;name="file"; {parameters}\r\n\r\n'.encode()
    assert read(form(head + b"x\r\n"))[1] == FilePart(name, "", 1)


@pytest.mark.parametrize("value", ["x", '"x"', '"a b"', "-'()+_,./:=?", "x; charset=utf-8", "9" * 70])
def test_a_boundary_may_be_quoted_and_have_company(value):
    plain = value.partition(";")[0].strip('"')
    assert boundary_of(f"Multipart/Form-Data ; boundary={value}".encode()) == plain.encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"application/json",
        b"text/plain; boundary=x",
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b'multipart/form-data; boundary="x',
        b'multipart/form-data; boundary=""',
        b'multipart/form-data; boundary="x "',
        b"multipart/form-data; boundary=" + b"9" * 71,
        b"multipart/form-data; boundary=x; boundary=y",
        b"multipart/form-data; boundary=\xff",
    ],
)
def test_any_other_content_type_is_refused(value):
    with pytest.raises(FormFailure):
        boundary_of(value)


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), texts)), st.text(st.characters(exclude_categories=["C"])))
def test_what_is_rendered_reads_back(fields, filename):
    sent = FilePart(filename, "audio/x", 3)
    opening, closing = render(fields, "file", sent, b"random")
    found, file_part, data = read(opening + b"\r\n-" + closing, boundary="random")
    assert found == {name: [value for other, value in fields if other == name] for name, _ in fields}
    # Backslashes in front of each other or of a quote are an escape to some readers, and stay what they are.
    assert re.sub(r"\\+", r"\\", file_part.filename.replace("%22", '"')) == re.sub(r"\\+", r"\\", filename)
    assert data == b"\r\n-"


@pytest.mark.parametrize("end", ["", "; size=1"])
@pytest.mark.parametrize("filename", ["\\", "dir\\", "a\\\\\\"])
def test_a_file_name_may_end_in_a_backslash(filename, end):
    head = f'Content-Disposition: form-data; name="file"; filename="{filename}"{end}\r\n\r\n'
    _, file_part, _ = read(b"--random\r\n" + head.encode() + b"x\r\n--random--\r\n", boundary="random")
    assert file_part.filename.rstrip("\\") == filename.rstrip("\\")
    assert file_part.filename.endswith("\\")
    opening, _ = render([], "file", FilePart(filename, "", 1), b"b")
    rendered = opening.partition(b'filename="')[2].partition(b'"\r\n')[0]
    assert rendered.count(b"\\") % 2 == 0


def test_nothing_can_be_written_into_the_headers_of_a_rendered_form():
    opening, _ = render([], "file", FilePart('a"\r\nX: y', "", 1), b"b")
    assert opening.count(b"\r\n") == 3
    assert b'filename="a%22%0D%0AX: y"' in opening


def test_the_library_is_quiet_and_loaded_by_the_first_form(caplog):
    refusal(b"--" + BOUNDARY.encode() + b"x")
    assert caplog.records == []
    assert "MultipartParser" not in vars(multipart)
