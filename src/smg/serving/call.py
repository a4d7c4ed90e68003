"""What is known of one inference request once it is parsed: the value the later steps hand on."""

from __future__ import annotations

from typing import NamedTuple

from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.worker import Worker
from smg.net.routes import Handler, Route
from smg.net.upload import SpooledUpload
from smg.protocol.error_styles import ErrorStyle
from smg.protocol.requests import Request
from smg.services.tenant_limits import Charge
from smg.serving.session import Session
from smg.serving.upstreams.provider_headers import CredentialStyle

# Model labels of requests without a model, and of those whose model no worker serves.
NO_MODEL = "unknown"
UNSERVED_MODEL = "other"


class Endpoint(NamedTuple):
    """One inference route, which has the same path at the workers.

    `name` is its label in metrics, `kind` the request type its body is parsed as, `id_prefix` begins generated request
    ids, `may_stream_body` says that large bodies can pass through unparsed, and `splits` that a prefill/decode pair can
    serve it together. `method` is that of the route, `mode` is how metrics name its connections, `policy` what places
    its calls if that is not the model's policy, and `content_type` what its worker is told of its body. `credentials`
    says which of a client's go to an external provider, `output_limit` which member bounds an answer's tokens, and
    `errors` in whose words errors are told.
    """

    name: str
    path: str
    kind: type[Request]
    id_prefix: str = "req-"
    may_stream_body: bool = False
    splits: bool = True
    method: str = "POST"
    mode: str = "http"
    policy: str = ""
    content_type: bytes = b"application/json"
    credentials: CredentialStyle = "bearer"
    output_limit: str = "max_tokens"
    errors: ErrorStyle = "openai"

    def route(self, handler: Handler) -> Route:
        """The row of the route table."""
        return Route(self.method, self.path, handler, "serving", self.id_prefix, errors=self.errors)


class Call:
    """One request on its way to a worker.

    `model` is canonical, None when the request names none; `label` is how metrics name it: a name that nobody serves is
    not worth a series. `body` holds the bytes to send; None when the client's body passes through as it comes, which
    allows a single attempt, or is kept as `upload`, which has one too, as has a `session`, which is no body at all.
    `stream` is what the request asked for. `charge` is what its tenant has been charged, where there are limits; the
    answer settles it. `charged` are the workers whose breakers it has told of a failure. `batch_size` and `choices` are
    worked out for pairs only.
    """

    __slots__ = (
        "batch_size",
        "body",
        "charge",
        "charged",
        "choices",
        "endpoint",
        "hints",
        "label",
        "model",
        "session",
        "stream",
        "upload",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        body: bytes | None,
        model: str | None,
        label: str,
        *,
        stream: bool = False,
        hints: Hints = NO_HINTS,
        charge: Charge | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.body = body
        self.model = model
        self.label = label
        self.stream = stream
        self.hints = hints
        self.charge = charge
        self.charged: tuple[Worker, ...] = ()
        self.batch_size: int | None = None
        self.choices = 1
        self.upload: SpooledUpload | None = None
        self.session: Session | None = None
