"""Both twins over TLS."""

import asyncio
import ssl

import pytest

from smg.rl.sockets import tls_context
from support.certificates import self_signed, server_context

CALL = {"worker_id": "w", "url": "http://e", "status": 200, "latency_ms": 7, "body": {"ok": 1}}
NOBODY = {"protocol_version": 1, "workers": [], "total": 0}


async def hangs(turn):
    await turn.abandoned()


def body_of(size):
    return {**CALL, "body": "x" * size}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Files of a key and of a certificate for this machine that signs itself."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server_tls(certificate):
    return server_context(*certificate)


@pytest.fixture
def fresh_trust():
    """Trusted certificates are read once a process: here, once more."""
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


async def test_tls_trusts_what_the_environment_names(
    client, stand_in, answers, server_tls, certificate, fresh_trust, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    server = await stand_in(answers(body_of(1 << 20)), tls=server_tls)
    result = await client(server.url).call("w", "op", {"tensor": "y" * (1 << 20)})
    assert len(result.body) == 1 << 20
    with pytest.raises(TimeoutError):
        await client((await stand_in(hangs, tls=server_tls)).url, timeout=0.5).call("w", "op")


async def test_tls_refuses_a_stranger_and_tells_it_nothing(client, stand_in, answers, server_tls, fresh_trust):
    server = await stand_in(answers(NOBODY), tls=server_tls)
    with pytest.raises(ssl.SSLCertVerificationError):
        await client(server.url, api_key="key").workers()
    assert server.requests == []


async def test_a_server_without_tls_is_an_os_error_over_https(client, fresh_trust):
    async def refuse(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
    with pytest.raises(OSError):  # noqa: PT011  the TLS library words it
        await client(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}").workers()
    listener.close()


async def test_a_timeout_bounds_a_handshake_that_does_not_come(client, stand_in, fresh_trust):
    async def never(turn):
        await asyncio.Event().wait()

    server = await stand_in(never)
    with pytest.raises(TimeoutError, match="no complete reply"):
        await client(server.url.replace("http:", "https:"), timeout=0.3).workers()
