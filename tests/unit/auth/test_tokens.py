"""A token opens something only if everything about it is right, and a refusal repeats nothing of it."""

import json
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import HMACAlgorithm

from smg.auth.key_set import read_key_set
from smg.auth.principals import Principal
from smg.auth.tokens import LEEWAY_SECS, MAX_TOKEN_BYTES, TokenError, TokenVerifier, read_token
from support.tokens import AUDIENCE, ISSUER, claims, ec_signer, key_set, part, raw_token, rsa_signer

RSA = rsa_signer()
EC = ec_signer()
FOREIGN = rsa_signer("foreign")
KEYS = read_key_set(key_set(RSA, EC, rsa_signer("rsa-384", "RS384"), ec_signer("ec-384", "ES384")))
VERIFIER = TokenVerifier(ISSUER, AUDIENCE, {})
# Stands in whatever a refusal must not repeat.
SECRET = "hush"
HEADER = {"alg": "RS256", "kid": "rsa", "typ": "JWT"}

EXPIRED = "it has expired"
EARLY = "it is not valid yet"
AUDIENCE_WRONG = "it is for another audience"
ISSUER_WRONG = "it is from another issuer"
INCOMPLETE = "it lacks a claim: exp, iss and aud are needed"
SIGNATURE = "its signature is wrong"
MALFORMED = "it is malformed"
NO_KEY = "it names no key"
ALGORITHM = "its algorithm is not accepted"
UNKNOWN = "its key is not known, or not for its algorithm"
EXTENSION = "it demands an extension"
LONG = "it is too long"


def verify(token, verifier=VERIFIER):
    claimed = read_token(token)
    return verifier.verify(claimed, KEYS.get(claimed.kid, ()))


def ago(secs):
    """A time that lies so far back, or ahead if negative."""
    return int(time.time()) - secs


def signed(signer=RSA, **changed):
    return signer.sign(claims(**changed))


def signed_text(text):
    """A token whose payload is this text."""
    signing = part(HEADER) + b"." + part(text.encode())
    return signing + b"." + part(_signature(signing))


def _signature(signing):
    return RSA.private.sign(signing, PKCS1v15(), SHA256())


def with_public_key_as_secret(form):
    """The old trick: a public key, which anybody has, used as the secret of a symmetric algorithm."""
    public = RSA.private.public_key().public_bytes(Encoding.PEM, form)
    signing = part({**HEADER, "alg": "HS256"}) + b"." + part(claims())
    return signing + b"." + part(HMACAlgorithm(HMACAlgorithm.SHA256).sign(signing, public))


def altered(token, index, change):
    """A token with one of its parts changed."""
    parts = token.split(b".")
    parts[index] = change(parts[index])
    return b".".join(parts)


def flipped(data):
    """Base64 with another character in its middle."""
    middle = len(data) // 2
    return data[:middle] + (b"A" if data[middle : middle + 1] != b"A" else b"B") + data[middle + 1 :]


GOOD = {
    "RS256": signed(),
    "RS384": signed(rsa_signer("rsa-384", "RS384")),
    "ES256": signed(EC),
    "ES384": signed(ec_signer("ec-384", "ES384")),
    "one of several audiences": signed(aud=["other", AUDIENCE]),
    "expired within the leeway": signed(exp=ago(LEEWAY_SECS - 10)),
    "to begin within the leeway": signed(nbf=ago(-(LEEWAY_SECS - 10))),
    "issued within the leeway": signed(iat=ago(-(LEEWAY_SECS - 10))),
    "begun": signed(nbf=ago(5)),
    "without a time of issue": signed(iat=None),
    "with more claims": signed(scope="a b", roles=None, nested={"a": [1]}),
    "with a fraction": signed(exp=ago(-60) + 0.5),
    "with more in its header": RSA.sign(claims(), jku="https://elsewhere", x5u="https://elsewhere", jwk=FOREIGN.jwk()),
}
# Where releases of the library differ in their words, there is no reason.
BAD = {
    "expired": (signed(exp=ago(LEEWAY_SECS + 10)), EXPIRED),
    "expired long ago": (signed(exp=0), EXPIRED),
    "expired before time began": (signed(exp=-1e18), EXPIRED),
    "begins later": (signed(nbf=ago(-LEEWAY_SECS - 60)), EARLY),
    "issued later": (signed(iat=ago(-LEEWAY_SECS - 60)), EARLY),
    "for somebody else": (signed(aud=SECRET), AUDIENCE_WRONG),
    "for others": (signed(aud=[SECRET, "b"]), AUDIENCE_WRONG),
    "for an audience of another case": (signed(aud=AUDIENCE.upper()), AUDIENCE_WRONG),
    "for a part of the audience": (signed(aud=AUDIENCE[:-1]), AUDIENCE_WRONG),
    "for nobody": (signed(aud=[]), INCOMPLETE),
    "for an audience that is a number": (signed(aud=5), AUDIENCE_WRONG),
    "for audiences that are no texts": (signed(aud=[AUDIENCE, 5]), AUDIENCE_WRONG),
    "from somebody else": (signed(iss=f"https://{SECRET}"), ISSUER_WRONG),
    "from a longer name": (signed(iss=ISSUER + "/"), ISSUER_WRONG),
    "without an end": (signed(exp=None), INCOMPLETE),
    "without an issuer": (signed(iss=None), INCOMPLETE),
    "without an audience": (signed(aud=None), INCOMPLETE),
    "without any claim": (RSA.sign({}), INCOMPLETE),
    "an end that is no number": (signed(exp=SECRET), MALFORMED),
    "an end that is a list": (signed(exp=[1]), MALFORMED),
    "an end beyond all numbers": (signed_text(json.dumps(claims(exp="@")).replace('"@"', "1e999")), MALFORMED),
    "an end of many digits": (signed_text(json.dumps(claims(exp="@")).replace('"@"', "9" * 5000)), MALFORMED),
    "an end that is not a number": (signed_text(json.dumps(claims(exp="@")).replace('"@"', "NaN")), MALFORMED),
    "a beginning that is no number": (signed(nbf=SECRET), MALFORMED),
    "a subject that is no text": (signed(sub=5), MALFORMED),
    "claims that are a list": (signed_text("[1]"), MALFORMED),
    "claims that are a text": (signed_text('"hush"'), MALFORMED),
    "claims that are nothing": (signed_text("null"), MALFORMED),
    "claims that are no JSON": (signed_text("{hush"), MALFORMED),
    "claims without end": (signed_text("[" * 5000), MALFORMED),
    "claims that are no text": (RSA.sign(claims()).split(b".")[0] + b"." + part(b"\xff\xfe") + b".AAAA", SIGNATURE),
    "another payload": (altered(signed(), 1, lambda _: part(claims(roles=["admin"]))), SIGNATURE),
    "a flipped payload": (altered(signed(), 1, flipped), SIGNATURE),
    "a flipped signature": (altered(signed(), 2, flipped), SIGNATURE),
    "no signature": (altered(signed(), 2, lambda _: b""), SIGNATURE),
    "half a signature": (altered(signed(), 2, lambda data: data[: len(data) // 2 // 4 * 4]), SIGNATURE),
    "the signature of another token": (altered(signed(), 2, lambda _: signed(sub="bob").split(b".")[2]), SIGNATURE),
    "an EC signature of zeros": (altered(signed(EC), 2, lambda _: part(bytes(64))), SIGNATURE),
    "a key of somebody else": (FOREIGN.sign(claims(), kid="rsa"), SIGNATURE),
    "a key nobody knows": (FOREIGN.sign(claims()), UNKNOWN),
    "a key of another kind": (RSA.sign(claims(), kid="ec"), UNKNOWN),
    "another algorithm than the key's": (rsa_signer("rsa", "RS512").sign(claims()), UNKNOWN),
    "no algorithm": (raw_token({**HEADER, "alg": "none"}, claims(), b""), ALGORITHM),
    "no algorithm in capitals": (raw_token({**HEADER, "alg": "None"}, claims(), b""), ALGORITHM),
    "an algorithm of another case": (raw_token({**HEADER, "alg": "rs256"}, claims()), ALGORITHM),
    "an algorithm that is missing": (raw_token({"kid": "rsa"}, claims()), ALGORITHM),
    "an algorithm that is nothing": (raw_token({**HEADER, "alg": None}, claims()), ALGORITHM),
    "an algorithm that is a list": (raw_token({**HEADER, "alg": ["RS256"]}, claims()), ALGORITHM),
    "an algorithm that is an object": (raw_token({**HEADER, "alg": {}}, claims()), ALGORITHM),
    "an algorithm nobody knows": (raw_token({**HEADER, "alg": SECRET}, claims()), ALGORITHM),
    "a probabilistic algorithm": (raw_token({**HEADER, "alg": "PS256"}, claims()), ALGORITHM),
    "the public key as a secret": (with_public_key_as_secret(PublicFormat.SubjectPublicKeyInfo), ALGORITHM),
    "the same in another form": (with_public_key_as_secret(PublicFormat.PKCS1), ALGORITHM),
    "no key id": (raw_token({"alg": "RS256"}, claims()), NO_KEY),
    "an empty key id": (raw_token({**HEADER, "kid": ""}, claims()), NO_KEY),
    "a key id that is a number": (raw_token({**HEADER, "kid": 5}, claims()), MALFORMED),
    "a key id that is nothing": (raw_token({**HEADER, "kid": None}, claims()), MALFORMED),
    "a key id that leads elsewhere": (raw_token({**HEADER, "kid": f"../{SECRET}"}, claims()), UNKNOWN),
    "an extension": (RSA.sign(claims(), crit=["exp"]), None),
    "an extension of nothing": (RSA.sign(claims(), crit=[]), None),
    "a payload that is not encoded": (RSA.sign(claims(), b64=False), EXTENSION),
    "too long": (signed(padding=SECRET * MAX_TOKEN_BYTES), LONG),
    "two parts": (signed().rsplit(b".", 1)[0], MALFORMED),
    "four parts": (signed() + b".AAAA", None),
    "one part": (SECRET.encode(), MALFORMED),
    "nothing": (b"", MALFORMED),
    "dots": (b"..", MALFORMED),
    "a header that is a list": (raw_token(["RS256"], claims()), MALFORMED),
    "a header that is no JSON": (raw_token(b"hush", claims()), MALFORMED),
    "a header without end": (raw_token(b"[" * 9000, {}), MALFORMED),
    "a header that is no text": (raw_token(b"\xff\xff", claims()), MALFORMED),
    "garbage": (b"@.@.@", MALFORMED),
    "a wrong length": (altered(signed(), 0, lambda data: data[: len(data) // 4 * 4 + 1][:-4] + b"A"), MALFORMED),
    "bytes beyond ASCII": ("h\u00fcsh.h\u00fcsh.h\u00fcsh".encode(), MALFORMED),
    "bytes that are no text": (b"\xff.\xfe.\xfd", MALFORMED),
    "a blank behind it": (signed() + b" ", None),
    "a line break in it": (signed().replace(b".", b".\n", 1), MALFORMED),
}


@pytest.mark.parametrize("token", GOOD.values(), ids=GOOD)
def test_a_good_token_is_about_somebody(token):
    assert verify(token) == Principal("ann", "jwt", "user")


@pytest.mark.parametrize(("token", "reason"), BAD.values(), ids=BAD)
def test_a_bad_token_is_refused_in_words_of_ours(token, reason):
    with pytest.raises(TokenError) as caught:
        verify(token)
    assert reason is None or str(caught.value) == reason
    assert SECRET not in str(caught.value)


def test_no_cause_of_a_refusal_is_kept_to_be_shown():
    for token, _ in BAD.values():
        with pytest.raises(TokenError) as caught:
            verify(token)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_longest_token_is_read_to_its_end():
    size = 3 * (MAX_TOKEN_BYTES - len(signed(padding=""))) // 4 - 4
    token = signed(padding="x" * size)
    assert MAX_TOKEN_BYTES - 16 < len(token) <= MAX_TOKEN_BYTES
    assert verify(token).name == "ann"


def test_roles_are_read_through_the_mapping():
    verifier = TokenVerifier(ISSUER, AUDIENCE, {"Ops": "admin"})
    assert verify(signed(roles=["Ops"]), verifier).administers
    assert not verify(signed(roles=["admin"]), verifier).administers
    assert verify(signed(roles=["admin"])).administers


def test_of_keys_with_one_id_the_one_for_the_algorithm_verifies():
    keys = read_key_set({"keys": [RSA.jwk(kid="k"), EC.jwk(kid="k")]})["k"]
    for signer in (RSA, EC):
        assert VERIFIER.verify(read_token(signer.sign(claims(), kid="k")), keys).name == "ann"


def test_a_token_tells_of_its_signature_without_a_key():
    claimed = read_token(signed(exp=0))
    assert (claimed.kid, claimed.algorithm) == ("rsa", "RS256")


PARTS = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(part),
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "exp", "iss", "aud", "sub"]),
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["RS256", "rsa", ISSUER])
        | st.lists(st.none()),
    ).map(part),
    st.sampled_from(signed().split(b".")),
)


@given(st.binary(max_size=200) | st.lists(PARTS, max_size=4).map(b".".join))
def test_whatever_comes_is_a_token_or_a_token_error(token):
    try:
        assert verify(token).name
    except TokenError as error:
        assert str(error)  # noqa: PT017  both ends are fine


@given(st.data())
def test_no_change_of_what_is_signed_goes_through(data):
    token = signed()
    signing = token.rpartition(b".")[0]
    at = data.draw(st.integers(0, len(signing) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != token[at]))
    with pytest.raises(TokenError):
        verify(token[:at] + bytes([byte]) + token[at + 1 :])
