import pytest

from smg.rl.endpoint import Endpoint, parse_base_url


@pytest.mark.parametrize(
    ("base_url", "endpoint"),
    [
        ("http://smg:30000", Endpoint("smg", 30000, False, "smg:30000", "")),
        ("http://smg:30000/", Endpoint("smg", 30000, False, "smg:30000", "")),
        ("http://smg", Endpoint("smg", 80, False, "smg", "")),
        ("http://smg:80", Endpoint("smg", 80, False, "smg", "")),
        ("https://smg", Endpoint("smg", 443, True, "smg", "")),
        ("https://smg:80", Endpoint("smg", 80, True, "smg:80", "")),
        ("HTTP://SMG/", Endpoint("smg", 80, False, "smg", "")),
        ("http://proxy/team/a/", Endpoint("proxy", 80, False, "proxy", "/team/a")),
        ("http://proxy/t%20e//", Endpoint("proxy", 80, False, "proxy", "/t%20e")),
        ("http://proxy/tëam", Endpoint("proxy", 80, False, "proxy", "/t%C3%ABam")),
        ("http://127.0.0.1:1", Endpoint("127.0.0.1", 1, False, "127.0.0.1:1", "")),
        ("http://[::1]:8", Endpoint("::1", 8, False, "[::1]:8", "")),
        ("http://[fe80::1%eth0]", Endpoint("fe80::1%eth0", 80, False, "[fe80::1]", "")),
        ("http://bücher.example", Endpoint("xn--bcher-kva.example", 80, False, "xn--bcher-kva.example", "")),
    ],
)
def test_a_base_url_names_an_address_and_a_prefix(base_url, endpoint):
    assert parse_base_url(base_url) == endpoint


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "smg:30000",
        "grpc://smg",
        "http://",
        "http:///v1",
        "http://:80",
        "http://smg:0",
        "http://smg:65536",
        "http://smg:port",
        "http://smg/?a=b",
        "http://smg#top",
        "http://smg /",
        "http://smg\r\nX: y",
        "http://[::1",
    ],
)
def test_other_base_urls_are_refused(base_url):
    with pytest.raises(ValueError, match=r"base_url|IPv6"):
        parse_base_url(base_url)


def test_credentials_in_a_base_url_are_refused_without_being_repeated():
    with pytest.raises(ValueError, match="api_key") as refusal:
        parse_base_url("http://user:secret@smg")
    assert "secret" not in str(refusal.value)
