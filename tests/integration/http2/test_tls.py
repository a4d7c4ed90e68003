"""HTTP/2 over TLS, as negotiated."""

import ssl
import subprocess

import pytest

from smg.net.http2.failures import NotHttp2
from smg.net.http2.pool import ALPN


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


def contexts(certificate, protocols):
    key, cert = certificate
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
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
