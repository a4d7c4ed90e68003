"""An issuer of tokens that publishes its keys on this machine, and can be made to misbehave."""

import asyncio
import json
from contextlib import asynccontextmanager

from support.tokens import claims, ec_signer, key_set, rsa_signer
from support.waiting import within

DISCOVERY_PATH = "/.well-known/openid-configuration"
JWKS_PATH = "/jwks"


class IssuerServer:
    """`answers` are status, header lines and body by path, `asked` the paths of all requests that came. While
    `answering` is not set, all of them wait.
    """

    def __init__(self):
        self.answers = {}
        self.asked = []
        self.answering = asyncio.Event()
        self.answering.set()

    async def start(self):
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        self.publish({"issuer": self.url, "jwks_uri": self.url + JWKS_PATH}, DISCOVERY_PATH)
        self.publish(key_set(rsa_signer(), ec_signer()))

    async def stop(self):
        self._listener.close()
        await self._listener.wait_closed()

    def publish(self, document, path=JWKS_PATH):
        self.answers[path] = 200, [], json.dumps(document).encode()

    def redirect(self, path, target):
        """Send whoever asks for a path elsewhere; what was there stays as the body."""
        self.answers[path] = 302, [f"location: {target}"], self.answers[path][2]

    def token(self, *, signer=None, **changed):
        """A token of this issuer, by default one that its RSA key signed."""
        return (signer or rsa_signer()).sign(claims(issuer=self.url, **changed)).decode()

    @property
    def settings(self):
        """What makes a gateway believe it."""
        return {"jwt_issuer": self.url, "jwt_audience": "smg"}

    async def _serve(self, reader, writer):
        try:
            head = await within(reader.readuntil(b"\r\n\r\n"))
            path = head.split(b" ")[1].decode()
            self.asked.append(path)
            await within(self.answering.wait())
            status, lines, body = self.answers.get(path, (404, [], b""))
            lines = [f"HTTP/1.1 {status} Whatever", *lines, f"content-length: {len(body)}", "connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            await within(writer.drain())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # whoever asked has left
        finally:
            writer.close()


@asynccontextmanager
async def issuer_server():
    """An issuer for the time of a block."""
    issuer = IssuerServer()
    await issuer.start()
    try:
        yield issuer
    finally:
        await issuer.stop()
