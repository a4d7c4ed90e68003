import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.address import AddressError, parse_address


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://h", "http://h"),
        ("http://h:8000/", "http://h:8000"),
        ("https://h.example:443", "https://h.example:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://127.0.0.1:1/base/path//", "http://127.0.0.1:1/base/path"),
        ("http://under_score-1:80", "http://under_score-1:80"),
    ],
)
def test_a_trailing_slash_is_not_part_of_an_address(url, canonical):
    assert parse_address(url) == (canonical, "http")


@pytest.mark.parametrize(
    ("url", "mode"),
    [("grpc://h:1", "grpc"), ("grpcs://h:1", "grpc"), ("ipc:///tmp/engine", "zmq"), ("https://h", "http")],
)
def test_the_scheme_says_the_transport(url, mode):
    assert parse_address(url).connection_mode == mode


def test_the_address_of_a_socket_has_one_spelling():
    assert parse_address("ipc:///run/engine.sock/") == ("ipc:///run/engine.sock", "zmq")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:1234",
        "not a url",
        " http://h",
        "ftp://h:1",
        "HTTP://h:1",
        "http://",
        "http:///path",
        "http://h:",
        "http://h:0",
        "http://h:65536",
        "http://h:999999999999",
        "http://h:80x",
        "http://h:٣",
        "http://hé",
        "http://h h",
        "http://h:1?x=1",
        "http://h:1/a?x=1",
        "http://h:1/#part",
        "http://h:1/a b",
        "http://h:1/\n",
        "http://[::1",
        "http://[::1]8",
        "http://[1.2.3.4]:1",
        "http://[fe80::1%eth0]:1",
        "ipc://relative",
        "ipc://",
        "ipc:///",
        "ipc:///run/two words",
        "ipc:///run/a\n",
        "ipc:///run/a?x=1",
    ],
)
def test_anything_else_is_refused(url):
    with pytest.raises(AddressError):
        parse_address(url)


def test_credentials_are_refused_and_not_repeated():
    with pytest.raises(AddressError) as refused:
        parse_address("http://me:secret@h:1")
    assert "secret" not in str(refused.value)


@given(st.text(alphabet="htps:/[].@#?%-_ab019é ", max_size=24))
def test_the_canonical_spelling_is_its_own(text):
    try:
        address = parse_address("http://" + text)
    except AddressError:
        return
    assert parse_address(address.url) == address
    assert parse_address(address.url + "/") == address
