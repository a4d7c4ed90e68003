"""What a published set of keys is good for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from smg.auth.key_set import MAX_KEYS, read_key_set
from support.tokens import ec_signer, key_set, rsa_signer

RSA = rsa_signer()
EC = ec_signer()
OF_RSA = ("RS256", "RS384", "RS512")
GOOD = {
    "an RSA key": (RSA.jwk(), ("RS256",)),
    "an RSA key for any algorithm": (RSA.jwk(alg=None), OF_RSA),
    "an RSA key for another algorithm": (RSA.jwk(alg="RS512"), ("RS512",)),
    "a P-256 key": (EC.jwk(), ("ES256",)),
    "a P-256 key for any algorithm": (EC.jwk(alg=None), ("ES256",)),
    "a P-384 key": (ec_signer("e", "ES384").jwk(), ("ES384",)),
    "no use": (RSA.jwk(use=None), ("RS256",)),
    "operations": (RSA.jwk(key_ops=["verify"]), ("RS256",)),
    "more that nobody reads": (RSA.jwk(x5c=["?"], x5t=5), ("RS256",)),
}
USELESS = {
    "no id": RSA.jwk(kid=None),
    "an empty id": RSA.jwk(kid=""),
    "an id that is no text": RSA.jwk(kid=5),
    "for encryption": RSA.jwk(use="enc"),
    "for an unknown use": RSA.jwk(use="other"),
    "for a use that is no text": RSA.jwk(use=["sig"]),
    "for other operations": RSA.jwk(key_ops=["encrypt"]),
    "for no operation": RSA.jwk(key_ops=[]),
    "operations that are no list": RSA.jwk(key_ops="verify"),
    "operations that are a number": RSA.jwk(key_ops=5),
    "symmetric": {"kty": "oct", "kid": "k", "k": "aHVzaA"},
    "symmetric by its algorithm": RSA.jwk(alg="HS256"),
    "symmetric under a name": {"kty": "oct", "kid": "k", "k": "aHVzaA", "alg": "RS256"},
    "no algorithm": RSA.jwk(alg="none"),
    "an algorithm that is no text": RSA.jwk(alg=["RS256"]),
    "an algorithm of another kind": RSA.jwk(alg="ES256"),
    "an algorithm of another curve": EC.jwk(alg="ES384"),
    "an algorithm that is not accepted": RSA.jwk(alg="PS256"),
    "too small": rsa_signer("small", bits=1024).jwk(),
    "on a curve that is not accepted": ec_signer("e", "ES512").jwk(),
    "on a curve of another trade": ec_signer("k", "ES256K").jwk(),
    "on a curve that is none": EC.jwk(crv="P-257"),
    "on a curve that is no text": EC.jwk(crv=["P-256"]),
    "on no curve": EC.jwk(crv=None),
    "of no kind": RSA.jwk(kty=None),
    "of an unknown kind": RSA.jwk(kty="OKP"),
    "without its number": RSA.jwk(n=None),
    "with a number that is none": RSA.jwk(n=5),
    "with an empty number": RSA.jwk(n=""),
    "with an even exponent": RSA.jwk(e="Ag"),
    "off its curve": EC.jwk(x=EC.jwk()["y"]),
    "without half its point": EC.jwk(y=None),
    "no object": "key",
    "nothing": None,
}
NO_SETS = [None, [], "keys", 5, {}, {"keys": None}, {"keys": {}}, {"keys": "x"}, {"keys": []}, {"Keys": [RSA.jwk()]}]


@pytest.mark.parametrize(("row", "algorithms"), GOOD.values(), ids=GOOD)
def test_a_key_verifies_what_fits_its_kind(row, algorithms):
    (key,) = read_key_set({"keys": [row]})[row["kid"]]
    assert key.algorithms == algorithms


@pytest.mark.parametrize("row", USELESS.values(), ids=USELESS)
def test_what_verifies_no_token_is_left_out(row):
    assert list(read_key_set({"keys": [row, RSA.jwk(kid="good")]})) == ["good"]
    with pytest.raises(ValueError, match="holds no key"):
        read_key_set({"keys": [row]})


def test_a_private_key_that_is_published_is_read_as_its_public_half():
    row = RSAAlgorithm.to_jwk(RSA.private, as_dict=True)
    assert "d" in row
    row.pop("key_ops")
    (key,) = read_key_set({"keys": [{**row, "kid": "k"}]})["k"]
    assert key.key.public_numbers() == RSA.private.public_key().public_numbers()
    assert not hasattr(key.key, "private_numbers")


def test_one_id_may_stand_for_keys_of_two_kinds():
    keys = read_key_set({"keys": [RSA.jwk(kid="k"), EC.jwk(kid="k"), EC.jwk(kid="k2")]})
    assert [key.algorithms for key in keys["k"]] == [("RS256",), ("ES256",)]
    assert len(keys["k2"]) == 1


@pytest.mark.parametrize("document", NO_SETS)
def test_what_is_no_set_is_refused(document):
    with pytest.raises(ValueError, match="it"):
        read_key_set(document)


def test_a_set_is_bounded():
    rows = [EC.jwk(kid=str(number)) for number in range(MAX_KEYS + 1)]
    assert len(read_key_set({"keys": rows[:-1]})) == MAX_KEYS
    with pytest.raises(ValueError, match="at most 100"):
        read_key_set({"keys": rows})


def test_a_set_s_fault_does_not_repeat_it():
    with pytest.raises(ValueError, match="holds no key") as caught:
        read_key_set({"keys": [{"kid": "hush", "kty": "hush"}]})
    assert "hush" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = sorted({*RSA.jwk(), *EC.jwk(), "key_ops", "d"})


@given(changed=st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=3), of=st.sampled_from([RSA, EC]))
def test_no_row_does_more_than_to_be_left_out(changed, of):
    document = json.loads(json.dumps({"keys": [{**of.jwk(), **changed}, *key_set(ec_signer("good"))["keys"]]}))
    assert "good" in read_key_set(document)
