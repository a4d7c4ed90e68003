import pytest

from smg.config.hosts import is_loopback


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_this_machine_is_known_by_name_and_by_address(host, is_local):
    assert is_loopback(host) is is_local
