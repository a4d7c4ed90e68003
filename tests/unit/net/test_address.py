"""A worker's URL says where to connect and what its Host header is."""

import pytest

from smg.net.address import Address, address_of


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://engine", Address("engine", 80, tls=False, authority=b"engine")),
        ("http://Engine:8000/base?q#f", Address("engine", 8000, tls=False, authority=b"Engine:8000")),
        ("https://engine", Address("engine", 443, tls=True, authority=b"engine")),
        ("http://[::1]:9", Address("::1", 9, tls=False, authority=b"[::1]:9")),
        ("http://user:secret@engine:1", Address("engine", 1, tls=False, authority=b"engine:1")),
    ],
)
def test_a_url_leads_to_an_address(url, address):
    assert address_of(url) == address


@pytest.mark.parametrize(
    "url", ["", "engine:80", "ftp://engine", "grpc://engine", "http://", "http:///path", "http://[::1", "http://a:b"]
)
def test_another_url_is_refused(url):
    with pytest.raises(ValueError, match=r"URL|Port"):
        address_of(url)
