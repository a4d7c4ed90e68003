"""Whose request it is: a key's tenant before a trusted header's before the address."""

import pytest

from smg.edge.tenant import tenant_filter

HEADER = b"x-smg-tenant-id"


class FakeExchange:
    def __init__(self, known_as="", peer="10.0.0.7", value=None):
        self.tenant = known_as
        self.peer = peer
        self.headers = {} if value is None else {HEADER: value}


def tenant(trusted=HEADER, **known):
    exchange = FakeExchange(**known)
    tenant_filter(trusted)(exchange)
    return exchange.tenant


def test_a_key_has_the_last_word():
    assert tenant(known_as="auth:red", value=b"blue") == "auth:red"


def test_a_trusted_header_names_the_tenant():
    assert tenant(value=b" blue ") == "header:blue"
    assert tenant(value="gr\u00fcn".encode()) == "header:gr\u00fcn"


def test_a_header_that_is_not_trusted_names_nobody():
    assert tenant(None, value=b"blue") == "ip:10.0.0.7"


@pytest.mark.parametrize("value", [None, b"", b"  ", b"\xff", b"x" * 257])
def test_a_header_without_a_name_leaves_the_address(value):
    assert tenant(value=value) == "ip:10.0.0.7"


def test_a_name_of_the_greatest_length_is_one():
    assert tenant(value=b"x" * 256) == "header:" + "x" * 256


def test_without_an_address_the_tenant_is_anonymous():
    assert tenant(None, peer="") == "anonymous"
