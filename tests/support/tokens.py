"""Keys of an issuer, the set it publishes, and tokens signed with them, good and bad."""

import base64
import json
import time
from dataclasses import dataclass
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "smg"
LIFETIME_SECS = 3600  # tokens are made when tests are collected


@dataclass(frozen=True)
class Signer:
    """A private key, what tokens call it, and the algorithm it signs with."""

    kid: str
    algorithm: str
    private: object

    def jwk(self, **members):
        """The public half as an issuer publishes it; a member that is None is left out."""
        kind = RSAAlgorithm if self.algorithm.startswith("RS") else ECAlgorithm
        found = kind.to_jwk(self.private.public_key(), as_dict=True)
        found.pop("key_ops", None)
        row = {**found, "kid": self.kid, "use": "sig", "alg": self.algorithm, **members}
        return {name: value for name, value in row.items() if value is not None}

    def sign(self, claims, **header):
        """A token of these claims."""
        return jwt.encode(claims, self.private, self.algorithm, {"kid": self.kid, **header}).encode()


@cache
def rsa_signer(kid="rsa", algorithm="RS256", bits=2048):
    """The same key whenever it is asked for: they take long to make."""
    return Signer(kid, algorithm, rsa.generate_private_key(65537, bits))


@cache
def ec_signer(kid="ec", algorithm="ES256"):
    """The same for elliptic curves."""
    curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1, "ES256K": ec.SECP256K1}[algorithm]
    return Signer(kid, algorithm, ec.generate_private_key(curve()))


def key_set(*signers):
    """The document that publishes these keys."""
    return {"keys": [signer.jwk() for signer in signers]}


def claims(*, issuer=ISSUER, **changed):
    """What a good token says; a claim that is None is left out."""
    now = int(time.time())
    said = {"iss": issuer, "aud": AUDIENCE, "exp": now + LIFETIME_SECS, "iat": now, "sub": "ann", **changed}
    return {name: value for name, value in said.items() if value is not None}


def part(value):
    """A part of a token: bytes, or what JSON makes of anything else."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def raw_token(header, payload, signature=b"signature"):
    """A token that no library would make."""
    return b".".join(map(part, (header, payload, signature)))
