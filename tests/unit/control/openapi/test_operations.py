"""The two tables of descriptions, as one."""

from smg.control.openapi.operations import OPERATIONS as OWN
from smg.errors import ERROR_KINDS
from smg.protocol.openapi.document import _CODES
from smg.protocol.openapi.inference import OPERATIONS as INFERENCE
from smg.protocol.openapi.operation import JSON
from smg.protocol.requests import Request
from smg.serving.endpoints import decisions, forwarded, realtime, realtime_http, transcriptions

ALL = OWN | INFERENCE
ENDPOINTS = [
    *forwarded.ENDPOINTS,
    *decisions.ENDPOINTS,
    *transcriptions.ENDPOINTS,
    *realtime.ENDPOINTS,
    *realtime_http.CREATING,
    *realtime_http.CALLING,
]
# Of no route, answered without a code, or never sent.
ELSEWHERE = {"unknown_url", "method_not_allowed", "unauthorized", "forbidden", "scheduler_client_cancelled"}


def test_no_route_is_described_twice():
    assert not OWN.keys() & INFERENCE.keys()


def test_every_operation_has_an_id_of_its_own():
    ids = [operation.id for operation in ALL.values()]
    assert sorted(set(ids)) == sorted(ids)


def test_a_body_is_described_as_the_type_that_it_is_decoded_into():
    kinds = {(row.method, row.path): row.kind for row in ENDPOINTS if row.kind is not Request}
    described = {key: INFERENCE[key].body.content[JSON] for key in kinds}
    assert described == kinds


def test_a_route_whose_body_may_pass_through_unread_says_so():
    saying = {key for key, operation in INFERENCE.items() if "may pass through unread" in operation.description}
    assert saying == {(row.method, row.path) for row in ENDPOINTS if row.may_stream_body}


def test_every_code_that_a_route_can_answer_with_is_one_of_a_route():
    named = {code for operation in ALL.values() for code in operation.codes}.union(*_CODES.values())
    named |= {"request_body_aborted", "request_body_stalled"}
    assert set(ERROR_KINDS) - named == ELSEWHERE


def test_every_parameter_of_a_path_is_described():
    for (method, path), operation in ALL.items():
        in_path = {parameter.name for parameter in operation.parameters if parameter.place == "path"}
        spelled = {part.strip("{*}") for part in path.split("/") if part.startswith("{")}
        assert in_path == spelled, (method, path)
