"""What callers say about where a request belongs: sessions, keys, targets, tokens."""

import pytest

from support.bodies import CHAT, GENERATE, chat
from support.raw_engine import answers
from support.waiting import until


async def fleet(stage, count=4, **settings):
    engines = [await stage.raw_engine(answers()) for _ in range(count)]
    return await stage.gateway(*engines, **settings), engines


async def worker_of(gateway, *headers, **members):
    answer = await gateway.chat(chat(**members), headers)
    assert answer.status == 200
    return answer.worker


# --- sticky sessions


@pytest.mark.parametrize("policy", ["round_robin", "random", "cache_aware"])
async def test_a_session_stays_with_its_worker_under_any_policy(stage, policy):
    gateway, _ = await fleet(stage, policy=policy, routing_key_override=True)
    for session in ("a", "b", "c"):
        places = {await worker_of(gateway, f"x-smg-routing-key: {session}", content=f"turn {n}") for n in range(8)}
        assert len(places) == 1


async def test_without_sticky_sessions_the_policy_alone_decides(stage):
    gateway, engines = await fleet(stage)
    assert {await worker_of(gateway, "x-smg-routing-key: a") for _ in range(8)} == {engine.url for engine in engines}


async def test_the_rid_of_a_body_names_the_session_and_its_turns_belong_together(stage):
    gateway, _ = await fleet(stage, routing_key_override=True)
    rids = ["conv", "conv_t1", "conv_t2", "conv_t2_r1", "conv_r3"]
    assert len({await worker_of(gateway, rid=rid) for rid in rids}) == 1
    scrape = await gateway.scrape()
    assert scrape.value("smg_routing_key_source_total", source="rid") == len(rids)


async def test_a_header_goes_before_the_rid(stage):
    gateway, _ = await fleet(stage, routing_key_override=True)
    home = await worker_of(gateway, "x-smg-routing-key: head")
    assert {await worker_of(gateway, "x-smg-routing-key: head", rid=f"r{n}") for n in range(6)} == {home}
    assert (await gateway.scrape()).value("smg_routing_key_source_total", source="header") == 7


async def test_the_headers_that_name_a_session_can_be_chosen(stage):
    gateway, _ = await fleet(stage, routing_key_override=True, routing_key_headers=("x-session", "x-conversation"))
    assert len({await worker_of(gateway, "X-Conversation: a") for _ in range(6)}) == 1
    first = await worker_of(gateway, "x-session: b")
    assert {await worker_of(gateway, "x-session: b", f"x-conversation: {n}") for n in range(6)} == {first}


async def test_a_session_with_two_requests_under_way_does_not_queue_behind_itself(stage):
    engines = [await stage.raw_engine() for _ in range(2)]
    gateway = await stage.gateway(*engines, routing_key_override=True)
    clients = [await gateway.send("POST", CHAT, chat(), ["x-smg-routing-key: fan"])]
    await until(lambda: sum(gateway.loads) == 1)
    home, other = sorted(engines, key=lambda engine: -gateway.worker(engine).load)
    for total in (2, 3):
        clients.append(await gateway.send("POST", CHAT, chat(), ["x-smg-routing-key: fan"]))
        await until(lambda total=total: sum(gateway.loads) == total)
    assert (gateway.worker(home).load, gateway.worker(other).load) == (2, 1)
    assert (await gateway.scrape()).value("smg_worker_routing_keys_active", worker=home.url) == 1
    for call in [await home.call(), await home.call(), await other.call()]:
        await call.answer()
    assert [(await client.answer()).status for client in clients] == [200] * 3
    assert (await gateway.scrape()).value("smg_worker_routing_keys_active") == 0


async def test_a_session_moves_on_when_its_worker_goes(stage):
    gateway, engines = await fleet(stage, count=2, routing_key_override=True)
    home = await worker_of(gateway, "x-smg-routing-key: a")
    worker_id = next(w.id for w in gateway.workers if w.url == home)
    await gateway.ask("PATCH", f"/workers/{worker_id}", {"health": {"drain_settle_secs": 0}})
    await gateway.ask("DELETE", f"/workers/{worker_id}")
    (left,) = [engine.url for engine in engines if engine.url != home]
    assert {await worker_of(gateway, "x-smg-routing-key: a") for _ in range(3)} == {left}


async def test_a_worker_that_fails_a_session_is_left_for_this_request(stage):
    engines = [await stage.raw_engine(answers()), await stage.raw_engine(answers())]
    gateway = await stage.gateway(*engines, routing_key_override=True)
    home = await worker_of(gateway, "x-smg-routing-key: a")
    engine = next(e for e in engines if e.url == home)
    engine.script[:] = [answers(503), answers()]
    assert await worker_of(gateway, "x-smg-routing-key: a") != home


@pytest.mark.parametrize("key", ["", "x" * 129, "\xff\xfe"])
async def test_a_key_that_is_none_counts_as_absent(stage, key):
    gateway, engines = await fleet(stage, routing_key_override=True)
    places = {await worker_of(gateway, f"x-smg-routing-key: {key}") for _ in range(8)}
    assert len(places) == len(engines)


# --- consistent hashing


async def test_a_key_hashes_to_one_worker(stage):
    gateway, _ = await fleet(stage, policy="consistent_hashing")
    for key in ("a", "b", "c"):
        assert len({await worker_of(gateway, f"x-smg-routing-key: {key}") for _ in range(5)}) == 1


async def test_a_target_is_the_number_of_an_available_worker(stage):
    gateway, engines = await fleet(stage, policy="consistent_hashing")
    for number in range(len(engines)):
        assert await worker_of(gateway, f"x-smg-target-worker: {number}") == gateway.workers[number].url
    missed = await gateway.chat(chat(), ["x-smg-target-worker: 99"])
    assert (missed.status, missed.code) == (503, "no_available_workers")


async def test_a_shared_credential_does_not_bind_callers_to_one_worker(stage):
    gateway, _ = await fleet(stage, policy="consistent_hashing")
    places = {await worker_of(gateway, "authorization: Bearer everybody's") for _ in range(64)}
    assert len(places) > 1


# --- token hints


async def test_token_hints_stand_for_the_prompt(stage):
    gateway, _ = await fleet(stage, policy="prefix_hash")
    hint = "x-smg-routing-tokens: 1,2,3,4"
    assert len({await worker_of(gateway, hint, content=f"text {n}") for n in range(16)}) == 1
    by_text = {await worker_of(gateway, content=f"text {n}") for n in range(16)}
    assert len(by_text) > 1


async def test_different_token_hints_go_to_different_workers(stage):
    gateway, _ = await fleet(stage, policy="prefix_hash")
    places = {await worker_of(gateway, f"x-smg-routing-tokens: {n},{n + 1}") for n in range(32)}
    assert len(places) > 1


@pytest.mark.parametrize("hint", ["", "1,,2", "1, 2", "-1", "4294967296", "x", ",".join(["1"] * 513)])
async def test_a_malformed_hint_counts_as_absent_and_is_no_error(stage, hint):
    gateway, _ = await fleet(stage, policy="prefix_hash")
    by_text = [await worker_of(gateway, content=f"text {n}") for n in range(8)]
    hinted = [await worker_of(gateway, f"x-smg-routing-tokens: {hint}", content=f"text {n}") for n in range(8)]
    assert hinted == by_text


async def test_a_hint_spares_the_reading_of_a_body(stage):
    gateway, engines = await fleet(stage, count=1, policy="cache_aware", disable_retries=True)
    await worker_of(gateway)
    await worker_of(gateway, "x-smg-routing-tokens: 1,2,3")
    scrape = await gateway.scrape()
    assert scrape.value("smg_router_request_body_path_total", path="buffered", reason="policy_needs_text") == 1
    assert scrape.value("smg_router_request_body_path_total", path="streamed", reason="pure_forward") == 1
    assert "x-smg-routing-tokens" not in engines[0].calls[1].headers


async def test_a_conversation_follows_its_prefix_to_the_worker_that_has_it(stage):
    engines = await stage.engines(3)
    gateway = await stage.gateway(*engines, policy="cache_aware")
    turns = [{"role": "user", "content": "tell me of the sea " * 50}]
    homes = []
    for number in range(4):
        answer = await gateway.chat({"model": "m", "messages": turns, "max_tokens": 8})
        homes.append(answer.worker)
        turns += [answer.json["choices"][0]["message"], {"role": "user", "content": f"and turn {number}?"}]
    assert len(set(homes)) == 1
    assert answer.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


async def test_token_ids_of_generate_are_a_prompt_too(stage):
    engines = [await stage.raw_engine(answers()) for _ in range(3)]
    gateway = await stage.gateway(*engines, policy="cache_aware")
    ids = list(range(200))
    homes = {(await gateway.post(GENERATE, {"input_ids": [*ids, n]})).worker for n in range(6)}
    assert len(homes) == 1
