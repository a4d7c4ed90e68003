"""Both handshakes of a WebSocket that passes a gateway."""

import pytest

from smg.protocol.websocket import NoHandshake, Offer, accept_of, answer_lines, key_of, offer_of, request_lines

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
HEADERS = {
    b"upgrade": b"websocket",
    b"connection": b"Upgrade",
    b"sec-websocket-version": b"13",
    b"sec-websocket-key": KEY,
}
OWN = key_of(bytes(16))
OFFER = Offer(KEY, b"a, b", b"deflate; x=1, other")


def fields(**changes):
    own = {"upgrade": b"WebSocket", "connection": b"keep-alive, upgrade", "sec_websocket_accept": accept_of(OWN)}
    return [(name.replace("_", "-").encode(), value, b"") for name, value in {**own, **changes}.items() if value]


def test_the_accept_value_is_that_of_the_standards_example():
    assert accept_of(KEY) == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_an_offer_is_what_the_client_says():
    assert offer_of(HEADERS) == Offer(KEY)
    more = {b"sec-websocket-protocol": b"a, b", b"sec-websocket-extensions": b"x"}
    assert offer_of({**HEADERS, **more}) == Offer(KEY, b"a, b", b"x")


@pytest.mark.parametrize(
    "changes",
    [{b"upgrade": b"h2c, WebSocket"}, {b"connection": b"keep-alive, UPGRADE"}],
)
def test_lists_are_read_in_any_case(changes):
    assert offer_of({**HEADERS, **changes}).key == KEY


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({b"upgrade": b"h2c"}, 426),
        ({b"upgrade": b""}, 426),
        ({b"connection": b"keep-alive"}, 400),
        ({b"sec-websocket-version": b"12"}, 426),
        ({b"sec-websocket-version": b"13, 13"}, 426),
        ({b"sec-websocket-key": b""}, 400),
        ({b"sec-websocket-key": KEY + b", " + KEY}, 400),
        ({b"sec-websocket-key": b"AAAA"}, 400),
        ({b"sec-websocket-key": b"d$hlIHNhbXBsZSBub25jZQ=="}, 400),
    ],
)
def test_what_is_no_handshake_is_refused(changes, status):
    with pytest.raises(NoHandshake) as refused:
        offer_of({**HEADERS, **changes})
    assert refused.value.status == status
    assert (b"upgrade" in dict(refused.value.headers)) == (status == 426)


def test_older_http_has_no_upgrades():
    with pytest.raises(NoHandshake):
        offer_of(HEADERS, http10=True)


def test_a_request_to_a_worker_has_our_key_and_the_clients_offers():
    assert request_lines(OFFER, OWN) == (
        b"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: %b\r\n"
        b"sec-websocket-protocol: a, b\r\nsec-websocket-extensions: deflate; x=1, other\r\n" % OWN
    )
    assert b"protocol" not in request_lines(Offer(KEY), OWN)


def test_the_clients_answer_has_its_own_accept_value_and_the_workers_choices():
    lines = answer_lines(OFFER, OWN, fields(sec_websocket_protocol=b"b", sec_websocket_extensions=b"other; y"))
    assert lines == (
        b"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: %b\r\n"
        b"sec-websocket-protocol: b\r\nsec-websocket-extensions: other; y\r\n" % accept_of(KEY)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"upgrade": b""},
        {"connection": b"close"},
        {"sec_websocket_accept": b""},
        {"sec_websocket_accept": accept_of(KEY)},
        {"sec_websocket_protocol": b"c"},
        {"sec_websocket_protocol": b"a, b"},
        {"sec_websocket_extensions": b"unknown"},
    ],
)
def test_an_answer_that_does_not_fit_the_offer_is_none(changes):
    with pytest.raises(NoHandshake):
        answer_lines(OFFER, OWN, fields(**changes))
