"""The issuer's keys are fetched by one question at a time, renewed, asked for again, and forgotten when old."""

import asyncio
import json

import pytest

from smg.net.fetch import MAX_ANSWER_BYTES
from smg.services.signing_keys import (
    DISCOVERY_PATH,
    FIRST_RETRY_SECS,
    LIFE_SECS,
    LONGEST_WAIT_SECS,
    RETRY_SECS,
    TIMEOUT_SECS,
    SigningKeys,
)
from support.tokens import ISSUER, ec_signer, key_set, rsa_signer

DISCOVERY = ISSUER + DISCOVERY_PATH
JWKS = "https://keys.example/jwks"
OLD = key_set(rsa_signer("old"))
NEW = key_set(rsa_signer("old"), ec_signer("new"))


def found(document):
    return 200, json.dumps(document).encode()


class Held:
    """An answer that is given when the test says so."""

    def __init__(self, engines, url):
        self._engines = engines
        self._url = url
        self.answered = asyncio.Event()

    def answer(self, document):
        self._engines.answers[self._url] = found(document)
        self.answered.set()


class Issuer:
    """Stands in for the network. `questions` are what it was asked; while `held` it lets them wait."""

    def __init__(self, engines):
        self.engines = engines
        self.held = None

    async def get(self, url, **options):
        if self.held is not None:
            await self.held.answered.wait()
        return await self.engines.get(url, **options)

    @property
    def questions(self):
        return [url for url, _ in self.engines.calls]

    def publish(self, answer, url=JWKS):
        self.engines.answers[url] = found(answer) if isinstance(answer, dict) else answer

    def hold(self, url=JWKS):
        self.held = Held(self.engines, url)
        return self.held


@pytest.fixture
def issuer(engines):
    return Issuer(engines)


@pytest.fixture
async def start():
    """Start the loop of keys; it ends with the test."""
    tasks = []

    def started(keys):
        tasks.append(asyncio.create_task(keys.run()))
        return keys

    yield started
    for task in tasks:
        assert not task.done(), "the loop has ended by itself"
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def keys(issuer, clock, start):
    """Keys that have been fetched once from where they are said to be."""
    issuer.publish(OLD)
    made = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    assert await made.find("old")
    return made


def document(**changed):
    return {"issuer": ISSUER, "jwks_uri": JWKS, **changed}


# --- where they are


async def test_keys_are_where_the_settings_say(issuer, clock, start):
    issuer.publish(OLD)
    (key,) = await start(SigningKeys(issuer, ISSUER, JWKS, clock)).find("old")
    assert key.algorithms == ("RS256",)
    assert issuer.questions == [JWKS]


@pytest.mark.parametrize("name", [ISSUER, ISSUER + "/", ISSUER + "/realms/one", ISSUER + "/realms/one/"])
async def test_keys_are_where_the_issuer_says(issuer, clock, start, name):
    issuer.publish(document(issuer=name), name.rstrip("/") + DISCOVERY_PATH)
    issuer.publish(OLD)
    assert await start(SigningKeys(issuer, name, None, clock)).find("old")
    assert issuer.questions == [name.rstrip("/") + DISCOVERY_PATH, JWKS]


async def test_an_issuer_on_this_machine_may_have_its_keys_here(issuer, clock, start):
    name, jwks = "http://localhost:8080", "http://127.0.0.1:8080/jwks"
    issuer.publish(document(issuer=name, jwks_uri=jwks), name + DISCOVERY_PATH)
    issuer.publish(OLD, jwks)
    assert await start(SigningKeys(issuer, name, None, clock)).find("old")


UNTRUSTED = {
    "of another issuer": document(issuer="https://elsewhere.example"),
    "of nearly the same issuer": document(issuer=ISSUER + "/"),
    "of nobody": document(issuer=None),
    "without keys": document(jwks_uri=None),
    "with keys that are no text": document(jwks_uri=[JWKS]),
    "with keys in the open": document(jwks_uri="http://keys.example/jwks"),
    "with keys in a file": document(jwks_uri="file:///etc/keys"),
    "with keys on this machine": document(jwks_uri="http://127.0.0.1:9/jwks"),
    "with keys on this machine over TLS": document(jwks_uri="https://localhost:9/jwks"),
    "with keys on this machine by its other name": document(jwks_uri="https://[::1]/jwks"),
    "with a malformed address": document(jwks_uri="https://[::1/jwks"),
    "with nothing": {},
}


@pytest.mark.parametrize("said", UNTRUSTED.values(), ids=UNTRUSTED)
async def test_a_discovery_document_is_not_believed_everything(issuer, clock, start, said):
    issuer.publish(said, DISCOVERY)
    for url in ("http://keys.example/jwks", "http://127.0.0.1:9/jwks", "https://localhost:9/jwks", JWKS):
        issuer.publish(OLD, url)
    assert await start(SigningKeys(issuer, ISSUER, None, clock)).find("old") == ()
    assert issuer.questions == [DISCOVERY]


@pytest.mark.parametrize("answer", [(200, b"[1]"), (200, b"null"), (200, b"<html>"), 302, 404, 500, "down", "silent"])
async def test_what_is_no_discovery_document_leads_nowhere(issuer, clock, start, answer):
    issuer.publish(answer, DISCOVERY)
    assert await start(SigningKeys(issuer, ISSUER, None, clock)).find("old") == ()
    assert issuer.questions == [DISCOVERY]


# --- what they are

SOUND = json.dumps(OLD).encode()
NO_KEY_SETS = {
    "a redirect": (302, SOUND),
    "a lasting redirect": (308, SOUND),
    "not found": (404, SOUND),
    "not allowed": (401, SOUND),
    "trouble": (500, SOUND),
    "another success": (203, SOUND),
    "no JSON": (200, b"<html>"),
    "half of it": (200, SOUND[:-5]),
    "no text": (200, b"\xff\xfe"),
    "nothing": (200, b""),
    "JSON without end": (200, b"[" * 100_000),
    "a list": (200, b"[]"),
    "an empty set": (200, b'{"keys":[]}'),
    "a set of nonsense": (200, b'{"keys":[{"kid":"old","kty":"RSA","key_ops":5,"n":5}]}'),
    "too many keys": (200, json.dumps({"keys": OLD["keys"] * 101}).encode()),
    "nobody": "down",
    "silence": "silent",
}


@pytest.mark.parametrize("answer", NO_KEY_SETS.values(), ids=NO_KEY_SETS)
async def test_what_is_no_key_set_opens_nothing_and_stops_nothing(issuer, clock, start, answer):
    issuer.publish(answer)
    keys = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    assert await keys.find("old") == ()
    clock.now += FIRST_RETRY_SECS
    issuer.publish(OLD)
    assert await keys.find("old")


@pytest.mark.parametrize("answer", NO_KEY_SETS.values(), ids=NO_KEY_SETS)
async def test_a_renewal_that_fails_keeps_the_keys_until_they_are_old(keys, issuer, clock, answer):
    issuer.publish(answer)
    clock.now += RETRY_SECS
    assert await keys.find("nobody's") == ()
    assert len(issuer.questions) == 2
    assert await keys.find("old")
    clock.now = LIFE_SECS - 1
    assert await keys.find("old")
    clock.now = LIFE_SECS
    assert await keys.find("old") == ()


async def test_no_more_of_an_answer_is_read_than_anywhere(issuer, clock, start):
    asked = []

    class Strict:
        async def get(self, url, *, timeout_secs, max_bytes=MAX_ANSWER_BYTES):
            asked.append((timeout_secs, max_bytes))
            return await issuer.get(url, timeout_secs=timeout_secs)

    issuer.publish(OLD)
    assert await start(SigningKeys(Strict(), ISSUER, JWKS, clock)).find("old")
    assert asked == [(TIMEOUT_SECS, MAX_ANSWER_BYTES)]


# --- when they are asked for


async def test_known_keys_are_found_without_a_question(keys, issuer):
    for _ in range(5):
        assert await keys.find("old")
    assert len(issuer.questions) == 1


async def test_many_tokens_wait_for_one_answer(issuer, clock, start):
    held = issuer.hold()
    keys = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    waiting = [asyncio.create_task(keys.find(kid)) for kid in ("old", "old", "new", "nobody's")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    held.answer(NEW)
    assert [len(found) for found in await asyncio.gather(*waiting)] == [1, 1, 1, 0]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(issuer.questions) == 1


async def test_a_token_may_come_before_the_first_question(issuer, clock, start):
    issuer.publish(OLD)
    keys = SigningKeys(issuer, ISSUER, JWKS, clock)
    waiting = asyncio.create_task(keys.find("old"))
    await asyncio.sleep(0)
    start(keys)
    assert await waiting


async def test_an_unknown_key_is_asked_for_once_there_has_been_time(keys, issuer, clock):
    issuer.publish(NEW)
    clock.now += RETRY_SECS - 1
    for _ in range(5):
        assert await keys.find("new") == ()
    assert len(issuer.questions) == 1
    clock.now += 1
    assert await keys.find("new")
    assert len(issuer.questions) == 2


async def test_keys_nobody_has_do_not_flood_the_issuer(keys, issuer, clock):
    for number in range(300):
        clock.now += 1
        assert await keys.find(f"made up {number}") == ()
    assert len(issuer.questions) == 1 + 300 // RETRY_SECS


async def test_many_tokens_with_a_new_key_wait_for_one_question(keys, issuer, clock):
    held = issuer.hold()
    clock.now += RETRY_SECS
    waiting = [asyncio.create_task(keys.find("new")) for _ in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert await keys.find("old")  # nobody else waits with them
    assert not any(task.done() for task in waiting)
    held.answer(NEW)
    assert all(await asyncio.gather(*waiting))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(issuer.questions) == 2


async def test_a_key_that_is_gone_opens_nothing_after_the_next_question(keys, issuer, clock):
    issuer.publish(key_set(ec_signer("new")))
    assert await keys.find("old")
    clock.now += RETRY_SECS
    assert await keys.find("new")
    assert await keys.find("old") == ()


async def test_old_keys_are_asked_for_again_as_if_there_were_none(keys, issuer, clock):
    clock.now += LIFE_SECS
    assert await keys.find("old")
    assert len(issuer.questions) == 2


async def test_a_first_question_that_failed_is_repeated_soon(issuer, clock, start):
    issuer.publish("down")
    keys = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    assert await keys.find("old") == ()
    issuer.publish(OLD)
    clock.now += FIRST_RETRY_SECS - 1
    assert await keys.find("old") == ()
    assert len(issuer.questions) == 1
    clock.now += 1
    assert await keys.find("old")


async def test_nobody_has_to_come_for_keys_to_be_renewed(issuer, clock, start, eventually, monkeypatch):
    monkeypatch.setattr("smg.services.signing_keys.RENEW_SECS", 0.0)
    issuer.publish(OLD)
    start(SigningKeys(issuer, ISSUER, JWKS, clock))
    await eventually(lambda: len(issuer.questions) > 2)


async def test_a_token_does_not_wait_for_ever(issuer, clock, start, monkeypatch):
    assert LONGEST_WAIT_SECS > 2 * TIMEOUT_SECS  # the document and the keys
    monkeypatch.setattr("smg.services.signing_keys.LONGEST_WAIT_SECS", 0.0)
    issuer.hold()
    keys = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    assert await keys.find("old") == ()


async def test_a_token_whose_caller_left_takes_no_answer_with_it(issuer, clock, start):
    held = issuer.hold()
    keys = start(SigningKeys(issuer, ISSUER, JWKS, clock))
    leaver, other = (asyncio.create_task(keys.find("old")) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()
    held.answer(OLD)
    assert await other
    assert leaver.cancelled()
