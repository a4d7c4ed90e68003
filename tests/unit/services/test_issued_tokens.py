"""A token opens what its claims say, once the issuer has published the key it names; else it is refused in words."""

import pytest

from smg.auth.key_set import read_key_set
from smg.auth.tokens import TokenVerifier
from smg.errors import Unauthorized
from smg.services.issued_tokens import IssuedTokens
from support.tokens import AUDIENCE, ISSUER, claims, key_set, rsa_signer

RSA = rsa_signer()


class Published:
    """The keys of an issuer, all at hand, and the ids that were asked for."""

    def __init__(self):
        self.keys = read_key_set(key_set(RSA))
        self.asked = []
        self.ran = False

    async def find(self, kid):
        self.asked.append(kid)
        return self.keys.get(kid, ())

    async def run(self):
        self.ran = True


@pytest.fixture
def published():
    return Published()


@pytest.fixture
def tokens(published):
    return IssuedTokens(TokenVerifier(ISSUER, AUDIENCE, {"Ops": "admin"}), published)


async def test_a_good_token_is_about_somebody(tokens, published):
    principal = await tokens.principal_of(RSA.sign(claims(roles=["Ops"])))
    assert (principal.name, principal.method, principal.role) == ("ann", "jwt", "admin")
    assert published.asked == ["rsa"]


@pytest.mark.parametrize(
    ("token", "reason", "asked"),
    [
        (b"hush.hush.hush", "Invalid JWT: it is malformed", []),
        (RSA.sign(claims(exp=0)), "Invalid JWT: it has expired", ["rsa"]),
        (rsa_signer("hush").sign(claims()), "Invalid JWT: its key is not known, or not for its algorithm", ["hush"]),
    ],
)
async def test_a_bad_token_is_refused_and_the_issuer_asked_only_for_a_key(tokens, published, token, reason, asked):
    with pytest.raises(Unauthorized) as caught:
        await tokens.principal_of(token)
    assert (caught.value.message, caught.value.realm) == (reason, "control-plane")
    assert published.asked == asked


async def test_its_loop_is_that_of_the_keys(tokens, published):
    await tokens.run()
    assert published.ran
