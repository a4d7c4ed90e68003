import pytest

from smg.net.http1.codec import ChunkedDecoder, whole_chunk_size

CHUNK = b"b\r\ndata: 123\n\n\r\n"


def known(*chunks):
    """Sizes become known by being decoded once."""
    for chunk in chunks:
        ChunkedDecoder().feed(chunk)


def test_a_whole_chunk_of_a_known_size_is_recognised():
    known(CHUNK)
    assert whole_chunk_size(CHUNK) == 11


@pytest.mark.parametrize(
    "data",
    [
        CHUNK[:-1],
        CHUNK + b"b\r\n",
        CHUNK + CHUNK,
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
    assert whole_chunk_size(data) == 0


def test_a_decoder_knows_whether_it_is_between_chunks():
    decoder = ChunkedDecoder()
    assert decoder.between_chunks
    decoder.feed(CHUNK[:5])
    assert not decoder.between_chunks
    decoder.feed(CHUNK[5:])
    assert decoder.between_chunks
    decoder.feed(b"b")
    assert not decoder.between_chunks
