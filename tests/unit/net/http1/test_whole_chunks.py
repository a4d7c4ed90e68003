"""Chunks that can be relayed as they came are told from all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.net.http1.codec import ChunkedDecoder, whole_chunks_size

CHUNK = b"b\r\ndata: 123\n\n\r\n"


def known(*chunks):
    """Sizes become known by being decoded once."""
    for chunk in chunks:
        ChunkedDecoder().feed(chunk)


def test_a_whole_chunk_of_a_known_size_is_recognised():
    known(CHUNK)
    assert whole_chunks_size(CHUNK) == 11


@given(payloads=st.lists(st.binary(min_size=8, max_size=600), min_size=1, max_size=5))
def test_a_run_of_whole_chunks_is_known_by_what_a_decoder_makes_of_it(payloads):
    data = b"".join(b"%x\r\n%b\r\n" % (len(payload), payload) for payload in payloads)
    decoder = ChunkedDecoder()
    decoded = decoder.feed(data)
    assert whole_chunks_size(data) == len(decoded)
    assert decoder.between_chunks
    assert whole_chunks_size(data[:-1]) == 0


@pytest.mark.parametrize(
    "data",
    [
        CHUNK[:-1],
        CHUNK + b"b\r\n",
        CHUNK + CHUNK[:-1],
        CHUNK + CHUNK + b"\r\n",
        CHUNK + b"0\r\n\r\n",
        CHUNK[:-2] + b"\n\n",
        b"0\r\n\r\n",
        b"",
        b"\r\n",
        b"b;ext=1\r\ndata: 123\n\n\r\n",
        b"B\r\ndata: 123\n\n\r\n",
        b"0b\r\ndata: 123\n\n\r\n",
        b"2\r\n\n\n\r\n",
    ],
)
def test_anything_else_is_left_to_the_decoder(data):
    known(
        CHUNK, b"2\r\n\n\n\r\n", b"B\r\ndata: 123\n\n\r\n", b"0b\r\ndata: 123\n\n\r\n", b"b;ext=1\r\ndata: 123\n\n\r\n"
    )
    assert whole_chunks_size(data) == 0


def test_a_decoder_knows_whether_it_is_between_chunks():
    decoder = ChunkedDecoder()
    assert decoder.between_chunks
    decoder.feed(CHUNK[:5])
    assert not decoder.between_chunks
    decoder.feed(CHUNK[5:])
    assert decoder.between_chunks
    decoder.feed(b"b")
    assert not decoder.between_chunks
