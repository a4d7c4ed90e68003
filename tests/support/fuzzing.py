"""Requests made from a gateway's own description, and what is wrong with the answers to them.

schemathesis makes the requests: at the bounds of what the description says, at random within it, and at random beyond
it. Its checks hold the answers against the description; what this gateway promises besides is checked here.
"""

import copy
import json
import os
import re
from collections import Counter

import jsonschema_rs
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

from smg.protocol.openapi.inference import OPERATIONS, WORKERS_OWN
from smg.protocol.rules import RULES

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
"""Random requests to each route, within what it takes and beyond it. Making them is what takes the time."""
FEW = max(4, EXAMPLES // 3)

_TIMEOUT_SECS = 20
_CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
_REFUSALS = {400, 422}
# JSON Schema takes 1.0 for an integer; the gateway does not, as engines do not.
_INTEGRAL_FLOAT = re.compile(r"Expected `int[^`]*`, got `float`")
# Further members of these depend on their code.
_OPEN = {"ControlRefusal", "FailedEngine"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@schemathesis.serializer("application/sdp")
def _sdp(_context, value):
    return value if isinstance(value, bytes) else str(value).encode()


class Fuzzer:
    """Asks the gateway at `url`. `prepare(case)` may change a request before it is sent.

    `excused` are codes, and ids of operations, whose answers of 5xx the gateway's situation explains. `explained` says
    by operation what a refusal may name that the description cannot say of a request. A gateway that does not read all
    bodies is none that `judges`: it may hand on what the description rules out.
    """

    def __init__(self, url, *, prepare=lambda case: None, excused=(), explained=None, headers=None, judges=True):
        self._url = url
        self._prepare = prepare
        self._excused = set(excused)
        self._explained = explained or {}
        self._headers = headers or {}
        self._session = requests.Session()
        load_all_checks()
        by_name = {check.__name__: check for check in CHECKS.get_all()}
        self._checks = [by_name[name] for name in _CHECKS if judges or name != "negative_data_rejection"]
        self.schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=self._headers)
        rejection = self.schema.config.checks.negative_data_rejection
        rejection.expected_statuses = [*rejection.expected_statuses, "426"]
        self.schema.config.generation.with_security_parameters = False
        self._document = self.schema.raw_schema
        self._strict = _closed(self._document["components"]["schemas"])
        self.answers = Counter()
        self.complaints = {}

    def run(self, wanted, *, bounds=True, examples=EXAMPLES):
        """Ask every wanted operation; returns the complaints, one of a kind.

        That is at all the bounds of its description, unless `bounds` is false, and at random, so many times within it
        and beyond it.
        """
        for found in self.schema.get_all_operations():
            operation = found.ok()
            if wanted(operation):
                if bounds:
                    self._cover(operation)
                for mode in GenerationMode:
                    self._draw(operation, mode, examples)
        return list(self.complaints.values())

    def good(self):
        """The operations that answered well at least once, by id."""
        return {name for name, status in self.answers if status < 300}

    def _cover(self, operation):
        config = self.schema.config.generation
        for case in self.schema.iter_coverage_cases(
            operation, generation_modes=list(GenerationMode), generation_config=config
        ):
            self._ask(case)

    def _draw(self, operation, mode, examples):
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # every complaint is kept, so there is nothing to find again or to make smaller
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def draw(case):
            self._ask(case)

        try:
            draw()
        except Unsatisfiable:  # what takes no parameter can be given no wrong one
            assert mode is GenerationMode.NEGATIVE

    def _ask(self, case):
        self._prepare(case)
        headers = dict(self._headers)
        if case.headers and "Connection" in case.headers:  # which the client would overwrite with its own
            headers["Connection"] = case.headers["Connection"]
        answer = case.call(base_url=self._url, session=self._session, headers=headers, timeout=_TIMEOUT_SECS)
        operation = id_of(case.operation)
        self.answers[operation, answer.status_code] += 1
        for text in self._wrong(case, operation, answer):
            kind = (operation, answer.status_code, text.partition("\n")[0])
            request = f"{case.as_curl_command()[:600]}\n{answer.status_code} {answer.text[:300]!r}"
            self.complaints.setdefault(kind, f"{case.operation.label}: {text}\n{request}")

    def _wrong(self, case, operation, answer):
        """What is wrong with an answer, in words."""
        try:
            case.validate_response(answer, checks=self._checks)
        except FailureGroup as group:
            yield from (f"{failure.title}: {failure.message}" for failure in group.exceptions)
        if case.method != case.operation.method.upper():
            return
        code = _first(answer, "x-smg-error-code")
        if answer.status_code >= 500 and operation not in self._excused and code not in self._excused:
            yield "a fault of the server"
        routed = _first(answer, "x-smg-routed-worker-id") is not None
        if not routed and not self._may_be_relayed(case, code):
            yield from self._own(case, answer)
        if not routed and answer.status_code in _REFUSALS and code != "prefill_bad_request" and _is_valid(case):
            says = self._explained.get(operation, []) + _prose(case)
            if not _INTEGRAL_FLOAT.search(answer.text) and not any(text in answer.text for text in says):
                yield "a request that the description allows is refused"

    def _may_be_relayed(self, case, code):
        """Whether an answer that names no worker can be one's all the same: these routes do not name them."""
        responses = self._responses(case)
        return (case.method, case.operation.path) not in OPERATIONS and "default" in responses and code is None

    def _own(self, case, answer):
        """What is wrong with an answer of the gateway's own: it must be declared as such, and have no other members."""
        declared = self._responses(case).get(str(answer.status_code))
        if declared is None:
            yield "the gateway's own status is declared nowhere"
            return
        media_type = (_first(answer, "content-type") or "").partition(";")[0]
        if not media_type and not answer.content:
            return
        schema = declared.get("content", {}).get(media_type, {}).get("schema")
        branches = [s for s in (schema or {}).get("anyOf", [schema]) if s not in (None, WORKERS_OWN)]
        if not branches:
            yield "the gateway's own answer is of a type that is declared nowhere"
            return
        value = json.loads(answer.content) if media_type == "application/json" else answer.text
        validator = jsonschema_rs.Draft202012Validator(
            {"$schema": _DIALECT, "anyOf": branches, "components": {"schemas": self._strict}}
        )
        if not validator.is_valid(value):
            yield "the gateway's own answer has another shape"

    def _responses(self, case):
        responses = self._document["paths"][case.operation.path][case.method.lower()]["responses"]
        return {status: self._resolved(response) for status, response in responses.items()}

    def _resolved(self, response):
        reference = response.get("$ref")
        return response if reference is None else self._document["components"]["responses"][reference.split("/")[-1]]


def id_of(operation):
    """The `operationId` of an operation."""
    return operation.definition.raw["operationId"]


def _closed(schemas):
    """The schemas without further members, where a handler's rows have none."""
    closed = copy.deepcopy(schemas)
    for name, schema in closed.items():
        if name not in _OPEN and schema.get("additionalProperties") is True:
            schema["additionalProperties"] = False
    return closed


def _first(answer, name):
    """A header's value, None without."""
    values = answer.headers.get(name)
    return values[0] if values else None


def _is_valid(case):
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE


def _prose(case):
    """What the rules of a route's body say that its schema does not."""
    described = OPERATIONS.get((case.method, case.operation.path))
    kinds = described.body.content.values() if described is not None and described.body is not None else ()
    return [rule.says for kind in kinds if isinstance(kind, type) for rule in RULES.get(kind, ()) if not rule.schema]
