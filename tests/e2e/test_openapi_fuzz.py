"""A gateway and its description of itself, held against each other by requests that are made from the description."""

from contextlib import ExitStack
from itertools import count

import pytest
from schemathesis import GenerationMode

from smg.fleet.address import AddressError, parse_address
from smg.protocol.requests import ChatRequest
from smg.protocol.rules import RULES
from support.fuzzing import FEW, Fuzzer, id_of
from support.plain_http import ask, get, post
from support.processes import engine_process, launched
from support.waiting import eventually

# Most of the time goes into making requests, on a machine that may be busy.
pytestmark = pytest.mark.timeout(240)

MODEL = "demo"
QUICK = ["--log-level", "error", "--worker-startup-timeout-secs", "1", "--enable-rl"]
QUICK += ["--retry-max-retries", "2", "--retry-initial-backoff-ms", "1", "--retry-max-backoff-ms", "1"]

# Requests to these change the fleet, so they have a gateway of their own.
CHANGING = {"addWorker", "changeWorker", "replaceWorker", "removeWorker"}
# No engine of the fleet has these.
OF_PROVIDERS = {"interactions_not_supported"}
# What a simulated engine does not do, or not the one that is asked: its 404 is relayed.
NOT_SIMULATED = {
    "createInteraction",
    "createRealtimeCall",
    "createRealtimeClientSecret",
    "createRealtimeSession",
    "createRealtimeTranscriptionSession",
    "openRealtimeSession",
}
# Of SGLang; a call to another engine is answered too, with what that says.
ENGINE_PATHS = {"GET": "get_weight_version", "POST": "flush_cache"}
# What these routes take may be of any type here, and engines have their own mind about it.
INPUTS = {
    "/generate": "text",
    "/v1/embeddings": "input",
    "/v1/classify": "input",
    "/v1/decisions": "input",
    "/v1/responses": "input",
}
TYPED_BY_ENGINES = {"cache_salt", "extra_key", "lora_id", "lora_path", "input_ids"}
# A selector names somebody only if it is written for that.
SELECTORS = ["invalid_selector", "no_workers_match"]
EXPLAINED = {
    "askEngines": SELECTORS,
    "callEngines": SELECTORS,
    # Only for an offer without a form.
    "createRealtimeCall": ["missing_model"],
    # What SGLang cannot do is known once such a worker is chosen.
    "createDecision": ["unsupported_decisions_request"],
    # No pattern says what an IPv6 address is, nor that of two addresses.
    "addWorker": ["url: no valid host"],
    "replaceWorker": ["url: "],
}
WITHOUT_WORKERS = {
    "no_workers",
    "no_available_workers",
    "service_unavailable",
    "scrapeEngines",
    "checkReadiness",
    "listModels",
}
ADMIN, USER = "admin-key", "user-key"
LOCKED = ["--api-key", "shared-key", "--control-plane-api-keys", f"a:Ann:admin:{ADMIN}", f"u:Uwe:user:{USER}"]


@pytest.fixture(scope="module")
def engines():
    with ExitStack() as stack:
        yield [stack.enter_context(engine_process("--engine", name, "--model", MODEL)) for name in ("sglang", "vllm")]


class Helper:
    """Makes requests that could be served ones that are, three in four: they name the model and the workers that are
    there, and agree with rules over several members. Nobody outside is contacted, whatever a request asks for.
    """

    def __init__(self, url, engine=None):
        self._url = url
        self._engine = engine
        self._turn = count()

    def __call__(self, case):
        body = case.body if isinstance(case.body, dict) else {}
        if case.operation.path.startswith("/workers"):
            _stay_here(body, next(self._turn))
        if case.meta.generation.mode is GenerationMode.POSITIVE and next(self._turn) % 4:
            self._help(case, body)

    def _help(self, case, body):
        for holder in (body, body.get("session")):
            if isinstance(holder, dict) and isinstance(holder.get("model"), str):
                holder["model"] = MODEL
        if case.operation.path == "/v1/chat/completions":
            _agree(body)
        if case.operation.path in INPUTS:
            body |= {INPUTS[case.operation.path]: "x"}
            case.body = {name: v for name, v in body.items() if v is not None and name not in TYPED_BY_ENGINES}
        _replace(case.query, model=MODEL, selector="engine=sglang")
        if "id" in (case.path_parameters or {}):
            row = self._worker(next(self._turn))
            _replace(case.path_parameters, id=row["id"], path=ENGINE_PATHS.get(case.method))
            if case.method == "PUT":
                body["url"] = row["url"]

    def _worker(self, turn):
        """One of the workers that are there; the engine is registered again once all have been removed."""
        rows = get(f"{self._url}/workers").json["workers"]
        while not rows:
            post(f"{self._url}/workers", {"url": self._engine})
            rows = eventually(lambda: get(f"{self._url}/workers").json["workers"], "the engine's registration")
        return rows[turn % len(rows)]


def _stay_here(body, turn):
    """Let a worker's address be one of this machine at which nobody listens."""
    url = body.get("url")
    try:
        scheme = parse_address(url).url.partition("://")[0] if isinstance(url, str) else "ipc"
    except AddressError:
        return
    if scheme != "ipc":
        body["url"] = f"{scheme}://127.0.0.1:{turn % 9 + 1}/{turn}"


def _replace(members, **values):
    """Let members that are there have these values."""
    for name in values.keys() & (members or {}).keys():
        members[name] = values[name]


def _agree(body):
    for rule in RULES[ChatRequest]:
        if rule.schema is None and rule.also:
            body.pop(rule.field, None)
    for message in body["messages"]:
        if message["role"] in {"user", "root"}:
            message.update(role="user", content=message["content"] or "x")


def is_changing(operation):
    return id_of(operation) in CHANGING


def security_of(operation):
    return operation.definition.raw["security"]


def is_inference(operation):
    return operation.definition.raw["tags"] == ["Inference"]


def fuzz(fuzzer, wanted, **options):
    """Ask the operations that are wanted; fail with every complaint. Returns their ids."""
    complaints = fuzzer.run(wanted, **options)
    assert not complaints, "\n\n".join(complaints)
    return {id_of(found.ok()) for found in fuzzer.schema.get_all_operations() if wanted(found.ok())}


def register(gateway, engine):
    """Add an engine behind those that are there."""
    before = gateway.readiness().json["healthy_workers"]
    assert post(f"{gateway.url}/workers", {"url": engine}).status == 202
    eventually(lambda: gateway.readiness().json["healthy_workers"] == before + 1, "another worker")


def test_with_engines_every_route_answers_as_it_says(engines):
    # The first worker answers for all where one does, and only SGLang knows all such routes. Requests go to both in
    # turn, so that whoever can do what is asked for is asked.
    with launched("--worker-urls", engines[0], "--policy", "round_robin", *QUICK, workers=1) as gateway:
        register(gateway, engines[1])
        for row in get(f"{gateway.url}/workers").json["workers"]:
            ask("PATCH", f"{gateway.url}/workers/{row['id']}", {"labels": {"realtime": "true"}})
        fuzzer = Fuzzer(gateway.url, prepare=Helper(gateway.url), explained=EXPLAINED, excused=OF_PROVIDERS)
        asked = fuzz(fuzzer, lambda operation: not is_changing(operation))
        assert sorted(asked - fuzzer.good()) == sorted(NOT_SIMULATED)
        assert "Traceback" not in gateway.written


def test_the_worker_api_answers_as_it_says(engines):
    with launched("--worker-urls", *engines, *QUICK, workers=len(engines)) as gateway:
        fuzzer = Fuzzer(gateway.url, prepare=Helper(gateway.url, engines[0]), explained=EXPLAINED)
        assert fuzz(fuzzer, is_changing) - fuzzer.good() == set()
        assert "Traceback" not in gateway.written


def test_without_workers_every_route_answers_as_it_says():
    with launched(*QUICK) as gateway:
        fuzzer = Fuzzer(gateway.url, explained=EXPLAINED, excused=WITHOUT_WORKERS)
        fuzz(fuzzer, lambda operation: not is_changing(operation), bounds=False, examples=FEW)
        assert "Traceback" not in gateway.written


def test_prefill_and_decode_workers_answer_as_they_say(engines):
    legs = ["--pd-disaggregation", "--prefill", engines[0], "--decode", engines[0].replace("127.0.0.1", "localhost")]
    with launched(*legs, *QUICK, workers=2) as gateway:
        names = ("embeddings", "classify", "decisions", "audio_transcriptions")
        excused = OF_PROVIDERS | {f"{name}_not_supported" for name in names}
        fuzzer = Fuzzer(gateway.url, prepare=Helper(gateway.url), explained=EXPLAINED, excused=excused)
        fuzz(fuzzer, is_inference, bounds=False, examples=FEW)
        assert "Traceback" not in gateway.written


def test_bodies_that_pass_through_unread_are_answered_as_the_description_says(engines):
    unread = ["--disable-retries", "--policy", "round_robin"]
    with launched("--worker-urls", *engines, *QUICK, *unread, workers=len(engines)) as gateway:
        fuzzer = Fuzzer(
            gateway.url, prepare=Helper(gateway.url), explained=EXPLAINED, excused=OF_PROVIDERS, judges=False
        )
        fuzz(fuzzer, is_inference, bounds=False, examples=FEW)
        assert "Traceback" not in gateway.written


def test_hints_priorities_and_tenants_of_any_spelling_do_no_harm(engines):
    told = ["--priority-scheduler-enabled", "--trust-tenant-header", "--routing-key-override"]
    placing = ["--policy", "consistent_hashing"]
    with launched("--worker-urls", *engines, *told, *placing, *QUICK, workers=len(engines)) as gateway:
        # A target that nobody is, by consistent hashing.
        excused = OF_PROVIDERS | {"no_available_workers"}
        fuzzer = Fuzzer(gateway.url, prepare=Helper(gateway.url), explained=EXPLAINED, excused=excused)
        fuzz(fuzzer, is_inference, bounds=False, examples=FEW)
        assert "Traceback" not in gateway.written


@pytest.mark.parametrize(("key", "status"), [("nobody's", 401), (USER, 403)])
def test_what_asks_for_a_credential_lets_nobody_else_in(key, status):
    with launched(*LOCKED, *QUICK) as gateway:
        fuzzer = Fuzzer(gateway.url, headers={"Authorization": f"Bearer {key}"}, excused=WITHOUT_WORKERS)
        for needed, statuses in (({"controlPlane": ["admin"]}, {status}), ({"key": []}, {401})):
            asked = fuzz(
                fuzzer, lambda operation, needed=needed: security_of(operation) == [needed], bounds=False, examples=2
            )
            assert asked
            assert {answered for name, answered in fuzzer.answers if name in asked} == statuses
