"""HTTP/2 over TLS, as negotiated."""

import ssl

import pytest

from smg.net.http2.failures import NotHttp2
from smg.net.http2.pool import ALPN
from support.certificates import self_signed, server_context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


def contexts(certificate, protocols):
    key, cert = certificate
    server = server_context(key, cert)
    server.set_alpn_protocols(protocols)
    client = ssl.create_default_context(cafile=cert)
    client.set_alpn_protocols(list(ALPN))
    return server, client


async def test_http2_is_spoken_where_it_is_chosen(start_worker, new_pool, post, certificate):
    server, client = contexts(certificate, ["h2", "http/1.1"])
    worker = await start_worker(ssl=server)
    pool = new_pool(worker, tls=client)
    reply = await pool.call(post(), 0.0, content=b"secret")
    assert await reply.read(100) == b"secret"


async def test_a_worker_that_chooses_http1_is_told_apart(start_worker, new_pool, post, certificate):
    server, client = contexts(certificate, ["http/1.1"])
    worker = await start_worker(ssl=server)
    pool = new_pool(worker, tls=client)
    with pytest.raises(NotHttp2):
        await pool.call(post(), 0.0, content=b"secret")
