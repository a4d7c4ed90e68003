"""External providers: known by their hosts, spoken to where their routes are."""

import pytest

from smg.engines.providers import list_fields, path_at, provider_for, provider_of


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com", "openai"),
        ("https://openai.com/v1", "openai"),
        ("https://api.anthropic.com:443", "anthropic"),
        ("https://api.x.ai", "xai"),
        ("https://generativelanguage.googleapis.com", "gemini"),
        ("https://API.OpenAI.com", "openai"),
        ("http://notopenai.com", None),
        ("http://fox.ai", None),
        ("http://openai.com.example", None),
        ("http://127.0.0.1:8000", None),
        ("http://[::1]:8000", None),
    ],
)
def test_providers_are_known_by_their_host(url, provider):
    assert provider_of(url) == provider


def test_what_the_registration_says_counts_first():
    assert provider_for("https://api.openai.com", "anthropic").key_header == b"x-api-key"
    assert provider_for("https://api.anthropic.com").name == "anthropic"
    assert provider_for("https://llm.example", "gemini").key_header == b"x-goog-api-key"


def test_a_provider_without_a_row_may_speak_anything():
    for provider in (provider_for("https://llm.example"), provider_for("https://llm.example", "acme")):
        assert not provider.lacks
        assert provider.key_header == b"authorization"
    assert provider_for("https://llm.example").name == "external"
    assert provider_for("https://llm.example", "acme").name == "acme"


@pytest.mark.parametrize(
    ("url", "path", "there"),
    [
        ("http://10.0.0.1:8000", "/v1/messages", "/v1/messages"),
        ("https://api.openai.com", "/v1/responses", "/v1/responses"),
        ("https://api.openai.com/v1", "/v1/responses", "/v1/responses"),
        ("https://llm.example/openai/v1", "/v1/chat/completions", "/openai/v1/chat/completions"),
        ("https://llm.example/api", "/v1/chat/completions", "/api/v1/chat/completions"),
        ("https://llm.example/v1", "/generate", "/v1/generate"),
        ("https://generativelanguage.googleapis.com", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
        ("https://generativelanguage.googleapis.com", "/v1/interactions", "/v1beta/interactions"),
        ("https://generativelanguage.googleapis.com/mine", "/v1/interactions", "/mine/v1/interactions"),
    ],
)
def test_a_route_is_found_under_a_base_path(url, path, there):
    assert path_at(url, path) == there


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("https://api.openai.com", [(b"authorization", b"Bearer k")]),
        ("https://generativelanguage.googleapis.com", [(b"authorization", b"Bearer k")]),
        ("https://llm.example", [(b"authorization", b"Bearer k")]),
        ("https://api.anthropic.com", [(b"x-api-key", b"k"), (b"anthropic-version", b"2023-06-01")]),
    ],
)
def test_a_list_of_models_is_asked_for_as_its_owner_wants(url, fields):
    assert list_fields(url, "k") == fields
