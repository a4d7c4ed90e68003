"""Each surface that is open is said, and nothing is said of those that are not."""

import pytest

from smg.app.posture import open_surfaces
from smg.config.settings import Settings

CLOSED = {"api_key": "k", "prometheus_host": "127.0.0.1"}
CONTROL = {"control_plane_api_keys": ("a:Ann:admin:hush",)}
TOKENS = {"jwt_issuer": "https://issuer", "jwt_audience": "smg"}
INFERENCE = "inference needs no key"
ADMIN = "workers and all admin routes need no key"
METRICS = "metrics need no key"
PAGES = "any web page may call"
TENANTS = "callers say which tenant they are"

SURFACES = [
    ({}, []),
    ({"api_key": None}, [INFERENCE, ADMIN]),
    ({"api_key": None, "tenant_api_key": ("red:k",)}, []),
    ({"api_key": None, **CONTROL}, [INFERENCE]),
    ({"api_key": None, **TOKENS}, [INFERENCE]),
    ({"api_key": None, "tenant_api_key": ("red:k",), **CONTROL}, []),
    ({**CONTROL, **TOKENS}, []),
    ({"prometheus_host": None}, [METRICS]),
    ({"prometheus_host": "0.0.0.0"}, [METRICS]),
    ({"prometheus_host": "::"}, [METRICS]),
    ({"prometheus_host": "10.0.0.1"}, [METRICS]),
    ({"prometheus_host": "localhost"}, []),
    ({"prometheus_host": "::1"}, []),
    ({"prometheus_host": None, "host": "127.0.0.1"}, [METRICS]),
    ({"cors_allowed_origins": ("*",)}, [PAGES]),
    ({"cors_allowed_origins": ("https://app.example", "*")}, [PAGES]),
    ({"cors_allowed_origins": ("https://app.example",)}, []),
    ({"trust_tenant_header": True}, [TENANTS]),
    (
        {"api_key": None, "prometheus_host": None, "cors_allowed_origins": ("*",), "trust_tenant_header": True},
        [INFERENCE, ADMIN, METRICS, PAGES, TENANTS],
    ),
]


@pytest.mark.parametrize(("changed", "expected"), SURFACES)
def test_what_is_open_is_said_in_one_sentence_each(changed, expected):
    found = open_surfaces(Settings(**{**CLOSED, **changed}))
    assert [text.partition(" (")[0] for text in found] == expected


def test_every_sentence_names_the_option_that_closes_it():
    found = open_surfaces(Settings(cors_allowed_origins=("*",), trust_tenant_header=True))
    assert len(found) == 5
    assert all("--" in text for text in found)
    assert "hush" not in " ".join(open_surfaces(Settings(**CONTROL)))
