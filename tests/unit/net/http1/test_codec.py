"""Heads are parsed strictly, and the chunked coding means the same however its bytes are split."""

from collections import deque
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.net.http1 import codec
from smg.net.http1.codec import ChunkedDecoder, ProtocolError, parse_request_head, parse_response_head


def head(*lines):
    return "\r\n".join(lines).encode("latin-1")


def refused(raw):
    with pytest.raises(ProtocolError) as caught:
        parse_request_head(raw)
    return caught.value.status


# --- request heads


def test_a_request_head_is_split_into_method_path_query_and_headers():
    parsed = parse_request_head(
        head("POST /v1/chat?a=1&b=?c HTTP/1.1", "Host: x", "X-Thing:\t some value \t", "Empty:")
    )
    assert (parsed.method, parsed.path, parsed.query) == ("POST", "/v1/chat", "a=1&b=?c")
    assert parsed.headers == {b"host": b"x", b"x-thing": b"some value", b"empty": b""}
    assert not parsed.http10
    assert parsed.keep_alive
    assert not parsed.chunked
    assert parsed.content_length is None


def test_a_spelling_seen_before_gives_the_same_name_as_a_new_one():
    for _ in range(2):
        assert parse_request_head(head("GET / HTTP/1.1", "HoSt: x", "X-A: 1")).headers == {b"host": b"x", b"x-a": b"1"}


def test_a_known_name_without_a_colon_is_still_malformed():
    parse_request_head(head("GET / HTTP/1.1", "Host: x", "X-Known: 1"))
    assert refused(head("GET / HTTP/1.1", "Host: x", "X-Known")) == 400


def test_values_of_a_repeated_header_are_joined_in_order():
    parsed = parse_request_head(head("GET / HTTP/1.1", "Host: x", "A: 1", "B: 2", "a: 3", "A:"))
    assert parsed.headers[b"a"] == b"1, 3, "


def test_bytes_beyond_ascii_in_a_value_are_kept():
    assert parse_request_head(head("GET / HTTP/1.1", "Host: x", "A: \xe9\xff")).headers[b"a"] == b"\xe9\xff"


MALFORMED = {
    "no request line": "hello",
    "empty": "",
    "four parts": "GET / now HTTP/1.1",
    "two parts": "GET /",
    "two blanks": "GET  / HTTP/1.1",
    "tab in the request line": "GET\t/ HTTP/1.1",
    "method with a separator": "GE(T / HTTP/1.1",
    "method beyond ascii": "G\xc9T / HTTP/1.1",
    "absolute target": "GET http://elsewhere/ HTTP/1.1",
    "authority target": "CONNECT elsewhere:80 HTTP/1.1",
    "relative target": "GET health HTTP/1.1",
    "fragment": "GET /a#b HTTP/1.1",
    "target beyond ascii": "GET /\xe9 HTTP/1.1",
    "lower case version": "GET / http/1.1",
    "no version": "GET / HTCPCP",
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_line_is_refused(line):
    assert refused(head(line, "Host: x")) == 400


def meaning(read, line):
    """What a request line means, or why it is refused."""
    try:
        return read(line)
    except ProtocolError as error:
        return error.status, error.reason


LINE_PARTS = st.sampled_from(
    ["GET", "POST", "M-SEARCH", " ", "/", "/a", "?", "#", "*", "%20", "é", "\t", "\0", "HTTP/1.", "1", "0"]
)


@given(
    st.lists(LINE_PARTS, max_size=8).map("".join)
    | st.tuples(LINE_PARTS, LINE_PARTS).map("GET /{0[0]}?{0[1]} HTTP/1.1".format)
)
def test_the_short_way_reads_a_request_line_as_the_long_one_does(line):
    raw = line.encode("latin-1")
    assert meaning(codec._request_line, raw) == meaning(codec._odd_request_line, raw)


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/1.2", "HTTP/2", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1x", "HTTP/"])
def test_another_version_is_refused_as_such(version):
    assert refused(head(f"GET / {version}", "Host: x")) == 505


BAD_HEADERS = {
    "no colon": "no colon here",
    "empty name": ": 1",
    "empty line": "",
    "blank before the colon": "A : 1",
    "tab before the colon": "A\t: 1",
    "blank in the name": "A B: 1",
    "folded": " and more",
    "folded with a tab": "\tand more",
    "separator in the name": "A(b): 1",
    "name beyond ascii": "\xc9: 1",
    "nul": "A: b\0c",
    "nul in the name": "A\0: b",
    "delete": "A: b\x7fc",
    "vertical tab": "A: b\x0bc",
    "escape": "A: \x1b[1m",
    "bare carriage return": "A: b\rB: c",
    "bare line feed": "A: b\nB: c",
    "carriage return twice": "A: b\r",
    "second host": "Host: y",
    "second host of another spelling": "hOST: x",
    "lengths that differ": "Content-Length: 1\r\nContent-Length: 2",
    "lengths that agree": "Content-Length: 1\r\nContent-Length: 1",
    "lengths in one header": "Content-Length: 1, 1",
    "negative length": "Content-Length: -1",
    "signed length": "Content-Length: +1",
    "hexadecimal length": "Content-Length: 0x10",
    "length with a blank": "Content-Length: 1 0",
    "length with a dot": "Content-Length: 1.0",
    "empty length": "Content-Length:",
    "huge length": "Content-Length: " + "9" * 19,
    "unicode digits": "Content-Length: \xb2",
    "length and coding": "Content-Length: 1\r\nTransfer-Encoding: chunked",
    "coding and length": "Transfer-Encoding: chunked\r\nContent-Length: 1",
    "codings": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "coding hidden by a control": "Transfer-Encoding: \x0bchunked",
    "second content type": "Content-Type: a/b\r\nContent-Type: a/b",
    "second expectation": "Expect: 100-continue\r\nExpect: 100-continue",
}


@pytest.mark.parametrize("lines", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_header_that_two_readers_could_take_differently_is_refused(lines):
    assert refused(head("POST / HTTP/1.1", "Host: x", lines)) == 400


@pytest.mark.parametrize(
    "coding", ["gzip", "identity", "chunked, identity", "gzip, chunked", "chunked, chunked", "xchunked", ""]
)
def test_a_coding_other_than_chunked_is_refused_as_not_implemented(coding):
    assert refused(head("POST / HTTP/1.1", "Host: x", f"Transfer-Encoding: {coding}")) == 501


def test_an_old_client_cannot_use_the_chunked_coding():
    assert refused(head("POST / HTTP/1.0", "Host: x", "Transfer-Encoding: chunked")) == 400


def test_the_host_is_required_since_http_1_1_only():
    assert refused(head("GET / HTTP/1.1", "A: b")) == 400
    assert parse_request_head(head("GET / HTTP/1.0")).headers == {}


def test_headers_are_counted():
    lines = [f"X-{n}: a" for n in range(codec.MAX_HEADERS - 1)]
    assert len(parse_request_head(head("GET / HTTP/1.1", "Host: x", *lines)).headers) == codec.MAX_HEADERS
    assert refused(head("GET / HTTP/1.1", "Host: x", "One: more", *lines)) == 431


def test_the_target_is_bounded():
    longest = "/" + "a" * (codec.MAX_TARGET_BYTES - 1)
    assert parse_request_head(head(f"GET {longest} HTTP/1.1", "Host: x")).path == longest
    assert refused(head(f"GET {longest}a HTTP/1.1", "Host: x")) == 414


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("HTTP/1.1", None, True),
        ("HTTP/1.1", "close", False),
        ("HTTP/1.1", "Close", False),
        ("HTTP/1.1", "x, close ,y", False),
        ("HTTP/1.1", "not-close", True),
        ("HTTP/1.0", None, False),
        ("HTTP/1.0", "Keep-Alive", True),
        ("HTTP/1.0", "close", False),
        ("HTTP/1.0", "keep-alives", False),
    ],
)
def test_who_asks_keeps_the_connection(version, connection, kept):
    lines = [f"Connection: {connection}"] if connection else []
    assert parse_request_head(head(f"GET / {version}", "Host: x", *lines)).keep_alive is kept


@pytest.mark.parametrize(
    ("version", "expect", "waits"),
    [
        ("1.1", "100-continue", True),
        ("1.1", "100-Continue", True),
        ("1.1", "else", False),
        ("1.0", "100-continue", False),
    ],
)
def test_only_new_clients_wait_to_be_invited(version, expect, waits):
    assert parse_request_head(head(f"PUT / HTTP/{version}", "Host: x", f"Expect: {expect}")).expects_continue is waits


def test_the_length_and_the_coding_of_a_body_are_known():
    assert parse_request_head(head("PUT / HTTP/1.1", "Host: x", "Content-Length: 007")).content_length == 7
    assert parse_request_head(head("PUT / HTTP/1.1", "Host: x", "Transfer-Encoding: Chunked")).chunked


def test_header_lines_are_remembered_within_bounds():
    for n in range(codec._MAX_FIELDS + 10):
        parse_request_head(head("GET / HTTP/1.1", "Host: x", f"x-flood-{n}: 1"))
    assert len(codec._FIELDS) <= codec._MAX_FIELDS
    assert parse_request_head(head("GET / HTTP/1.1", "Host: x", "X-Newcomer: 1")).headers[b"x-newcomer"] == b"1"


@pytest.mark.parametrize("n", [codec._MAX_START_LINES + 10])
def test_start_lines_are_remembered_within_bounds(n):
    for i in range(n):
        parse_request_head(head(f"GET /flood/{i} HTTP/1.1", "Host: x"))
        parse_response_head(head(f"HTTP/1.1 200 Flood {i}"))
    assert len(codec._REQUEST_LINES) <= codec._MAX_START_LINES
    assert len(codec._STATUS_LINES) <= codec._MAX_START_LINES


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X-API-Key", "x-goog-api-key", "Proxy-Authorization"])
def test_lines_that_hold_secrets_are_not_remembered(name):
    line = f"{name}: secret-{name}"
    for _ in range(2):
        headers = parse_request_head(head("GET / HTTP/1.1", "Host: x", line)).headers
        assert headers[name.lower().encode()] == f"secret-{name}".encode()
    assert line.encode() not in codec._FIELDS


def test_heads_of_answers_are_remembered_within_bounds_and_never_with_a_secret_or_a_number_of_their_own():
    codec._RESPONSE_HEADS.clear()
    for n in range(codec._MAX_RESPONSE_HEADS + 10):
        for _ in range(3):
            parse_response_head(head("HTTP/1.1 200 OK", f"Content-Length: {n}"))
        parse_response_head(head("HTTP/1.1 200 OK", "Content-Length: 0", f"X-Number: {n}"))
    assert 0 < len(codec._RESPONSE_HEADS) <= codec._MAX_RESPONSE_HEADS
    for lines in (["Set-Cookie: secret"], [f"X-Long: {n}" for n in range(100)]):
        for _ in range(3):
            assert len(parse_response_head(head("HTTP/1.1 200 OK", *lines)).fields) == len(lines)
    kept = b"".join(codec._RESPONSE_HEADS)
    assert not [part for part in (b"Number", b"secret", b"Long") if part in kept]


def test_a_remembered_line_means_the_same_in_both_directions():
    for _ in range(2):
        assert parse_request_head(head("GET / HTTP/1.1", "Host: x", "X-Both:  a ")).headers[b"x-both"] == b"a"
        assert parse_response_head(head("HTTP/1.1 200 OK", "X-Both:  a ")).fields == [(b"x-both", b"a", b"X-Both:  a ")]


@given(st.binary(max_size=200))
def test_whatever_bytes_come_a_head_is_parsed_or_refused(raw):
    with suppress(ProtocolError):
        assert parse_request_head(raw).path.isascii()
    with suppress(ProtocolError):
        assert parse_response_head(raw).status >= 100


# --- answer heads


def test_an_answer_head_keeps_every_field_in_order_and_as_sent():
    parsed = parse_response_head(
        head("HTTP/1.1 200 Fine", "Set-Cookie: a", "Content-Type: text/plain", "set-cookie:  b ", "Content-Length: 3")
    )
    assert parsed.status == 200
    assert parsed.fields == [
        (b"set-cookie", b"a", b"Set-Cookie: a"),
        (b"content-type", b"text/plain", b"Content-Type: text/plain"),
        (b"set-cookie", b"b", b"set-cookie:  b "),
        (b"content-length", b"3", b"Content-Length: 3"),
    ]
    assert parsed.content_type == b"text/plain"
    assert parsed.content_length == 3
    assert parsed.keep_alive


@pytest.mark.parametrize("line", ["HTTP/1.1 204", "HTTP/1.1 204 ", "HTTP/1.0 204 No Content", "HTTP/1.1 204 \xe9"])
def test_the_reason_is_nobodys_business(line):
    assert parse_response_head(head(line)).status == 204


BAD_STATUS_LINES = [
    "",
    "HTTP/1.1",
    "HTTP/1.1 ",
    "HTTP/1.1 abc",
    "HTTP/1.1 20",
    "HTTP/1.1 2000",
    "HTTP/1.1 099 Nothing",
    "HTTP/1.1 000",
    "HTTP/1.1  200",
    "HTTP/1.1\t200 OK",
    "HTTP/1.1 +20 OK",
    "HTTP/2 200 OK",
    "HTTP/2.0 200 OK",
    "HTTP/1.2 200 OK",
    "SSH-2.0-OpenSSH",
    "ICY 200 OK",
]


@pytest.mark.parametrize("line", BAD_STATUS_LINES)
def test_a_status_line_of_something_else_is_refused(line):
    with pytest.raises(ProtocolError):
        parse_response_head(head(line, "A: b"))


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 1", "Content-Length: 2"],
        ["Content-Length: -1"],
        ["Content-Length: 1, 1"],
        ["Transfer-Encoding: gzip"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["A: b\0"],
        ["A: b\nB: c"],
        ["A: b\rB: c"],
        ["A : b"],
        [" folded"],
        ["no colon"],
        ["A: b"] * (codec.MAX_HEADERS + 1),
    ],
)
def test_an_answer_head_that_two_readers_could_take_differently_is_refused(lines):
    with pytest.raises(ProtocolError):
        parse_response_head(head("HTTP/1.1 200 OK", *lines))


def test_as_many_answer_fields_as_allowed_are_taken():
    assert len(parse_response_head(head("HTTP/1.1 200 OK", *["A: b"] * codec.MAX_HEADERS)).fields) == codec.MAX_HEADERS


def test_the_same_length_twice_is_one_length():
    assert parse_response_head(head("HTTP/1.1 200 OK", *["Content-Length: 5"] * 2)).content_length == 5


@pytest.mark.parametrize(
    "lines", [["Content-Length: 5", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", "Content-Length: 5"]]
)
def test_with_both_framings_the_coding_wins_and_the_connection_ends(lines):
    parsed = parse_response_head(head("HTTP/1.1 200 OK", *lines))
    assert parsed.chunked
    assert parsed.content_length is None
    assert not parsed.keep_alive


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("1.1", [], True),
        ("1.1", ["close"], False),
        ("1.1", ["X-Hop, Close"], False),
        ("1.1", ["x-hop", "close"], False),
        ("1.0", [], False),
        ("1.0", ["Keep-Alive"], True),
    ],
)
def test_the_worker_decides_whether_its_connection_is_kept(version, connection, kept):
    parsed = parse_response_head(head(f"HTTP/{version} 200 OK", *[f"Connection: {value}" for value in connection]))
    assert parsed.keep_alive is kept


def test_headers_nominated_as_hop_by_hop_are_collected():
    parsed = parse_response_head(head("HTTP/1.1 200 OK", "Connection: X-One", "A: b", "connection: x-Two, close"))
    assert parsed.nominated == b"x-one,x-two, close"
    assert parse_response_head(head("HTTP/1.1 200 OK")).nominated is None


# --- the chunked coding


def decode(pieces):
    decoder = ChunkedDecoder()
    payload = [decoder.feed(piece) for piece in pieces]
    return decoder, b"".join(payload)


def bytewise(data):
    return [data[n : n + 1] for n in range(len(data))]


GOOD = {
    "empty": (b"0\r\n\r\n", b""),
    "one chunk": (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "several": (b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc"),
    "leading zeros": (b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    "upper and lower case": (b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"0123456789" * 2),
    "extensions": (b'5;a=b;c="d;e"\r\nhello\r\n0;last\r\n\r\n', b"hello"),
    "blanks before an extension": (b"5 \t;a\r\nhello\r\n0\r\n\r\n", b"hello"),
    "empty extension": (b"5;\r\nhello\r\n0\r\n\r\n", b"hello"),
    "longest extension": (b"5;" + b"a" * (codec.MAX_CHUNK_LINE_BYTES - 2) + b"\r\nhello\r\n0\r\n\r\n", b"hello"),
    "trailers": (b"5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 7\r\n\r\n", b"hello"),
    "longest trailer": (b"0\r\n" + b"a" * codec.MAX_CHUNK_LINE_BYTES + b"\r\n\r\n", b""),
    "payload like framing": (b"6\r\n0\r\n\r\n!\r\n0\r\n\r\n", b"0\r\n\r\n!"),
}


@pytest.mark.parametrize(("coded", "payload"), GOOD.values(), ids=GOOD)
@pytest.mark.parametrize("rest", [b"", b"GET / HTTP/1.1\r\n", b"\r\n", b"0\r\n\r\n"])
def test_a_chunked_body_is_decoded_to_its_end_and_no_further(coded, payload, rest):
    whole, decoded = decode([coded + rest])
    assert decoded == payload
    assert whole.done
    assert whole.rest == rest
    split, decoded = decode(bytewise(coded))
    assert decoded == payload
    assert split.done
    assert split.rest == b""


@pytest.mark.parametrize("coded", [coded for coded, _ in GOOD.values()], ids=GOOD)
def test_a_chunked_body_is_not_done_one_byte_early(coded):
    assert not decode([coded[:-1]])[0].done
    assert not decode(bytewise(coded[:-1]))[0].done


BAD = {
    "no digits": b"\r\nhello\r\n",
    "not hexadecimal": b"5g\r\nhello",
    "word": b"ZZ\r\n",
    "negative": b"-1\r\n",
    "signed": b"+5\r\nhello\r\n",
    "prefixed": b"0x5\r\nhello\r\n",
    "underscore": b"1_0\r\n",
    "blank before": b" 5\r\nhello\r\n",
    "blank after": b"5 \r\nhello\r\n",
    "huge": b"1" + b"0" * 15 + b"\r\n",
    "bare line feed": b"5\nhello\r\n0\r\n\r\n",
    "bare line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "bare carriage return in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "data too long": b"5\r\nhello!\r\n0\r\n\r\n",
    "data too short": b"5\r\nhell\r\n0\r\n\r\n",
    "line feed after the data": b"5\r\nhello\n0\r\n\r\n",
    "no line end after the data": b"5\r\nhello0\r\n\r\n",
    "endless size": b"0" * (codec.MAX_CHUNK_LINE_BYTES + 2),
    "long extension": b"5;" + b"a" * codec.MAX_CHUNK_LINE_BYTES + b"\r\nhello\r\n0\r\n\r\n",
    "long trailer": b"0\r\n" + b"a" * (codec.MAX_CHUNK_LINE_BYTES + 1) + b"\r\n\r\n",
    "many trailers": b"0\r\n" + b"A: 0123456789\r\n" * (codec.MAX_TRAILER_BYTES // 13 + 1) + b"\r\n",
    "bare line feed in the trailers": b"0\r\nA: b\nB: c\r\n\r\n",
    "bare carriage return in the trailers": b"0\r\nA: b\rB: c\r\n\r\n",
}


@pytest.mark.parametrize("coded", BAD.values(), ids=BAD)
def test_broken_framing_is_refused_however_it_arrives(coded):
    for pieces in ([coded], bytewise(coded), [coded[:7], coded[7:]]):
        with pytest.raises(ProtocolError):
            decode(pieces)


def test_an_unfinished_line_is_held_within_bounds():
    for start in (b"5;", b"0\r\n"):
        decoder = ChunkedDecoder()
        decoder.feed(start)
        with pytest.raises(ProtocolError):
            deque(map(decoder.feed, [b"a"] * (codec.MAX_CHUNK_LINE_BYTES + 2)), maxlen=0)
        assert len(decoder._held) <= codec.MAX_CHUNK_LINE_BYTES + 2


@st.composite
def chunked_bodies(draw):
    """Chunks with their extensions, trailers, and what follows the message."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    extension = draw(st.sampled_from([b"", b";a=b", b' ;q="0;1"']))
    trailers = draw(st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC:\r\n"]))
    rest = draw(st.binary(max_size=10))
    coded = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return coded + b"0%b\r\n%b\r\n" % (extension, trailers), b"".join(chunks), rest


@given(chunked_bodies(), st.data())
def test_any_split_gives_the_same_payload_and_rest(body, data):
    coded, payload, rest = body
    message = coded + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(message)), max_size=8)))
    decoder = ChunkedDecoder()
    decoded = bytearray()
    after = b""
    for start, end in zip([0, *cuts], [*cuts, len(message)], strict=True):
        if decoder.done:
            after += message[start:end]
        else:
            decoded += decoder.feed(message[start:end])
            after += decoder.rest
    assert decoder.done
    assert bytes(decoded) == payload
    assert after == rest


@given(st.binary(max_size=60), st.integers(0, 60))
def test_what_bytes_mean_does_not_depend_on_a_cut(junk, cut):
    def outcome(pieces):
        try:
            decoder, payload = decode([piece for piece in pieces if piece])
        except ProtocolError:
            return "refused"
        return payload, decoder.done

    whole = outcome([junk])
    if whole != "refused" and whole[1]:
        return  # the second piece would come after the end, which is the caller's business
    split = outcome([junk[:cut], junk[cut:]])
    assert split == whole
