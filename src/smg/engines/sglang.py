"""SGLang: metadata from its server and model info routes, which older versions spell with `get_`."""

from __future__ import annotations

from smg.engines.engine import Capabilities, Engine
from smg.engines.gauges import Gauges
from smg.engines.info import MODEL_INFO_FIELDS, SERVER_INFO_FIELDS, card_labels
from smg.engines.labels import Labels, pick
from smg.engines.plan import Plan

_SERVER, _OLD_SERVER = "/server_info", "/get_server_info"
_MODEL, _OLD_MODEL = "/model_info", "/get_model_info"
_MODELS = "/v1/models"
_OLDER = {_SERVER: _OLD_SERVER, _MODEL: _OLD_MODEL}
_NOT_FOUND = 404


def read_labels() -> Plan[Labels]:
    """Server info first, then model info; the model list fills what both leave out."""
    answers = yield (_SERVER, _MODEL, _MODELS)
    older = tuple(old for new, old in _OLDER.items() if answers[new].status == _NOT_FOUND)
    if older:
        answers = {**answers, **(yield older)}
    server = answers[_OLD_SERVER if _OLD_SERVER in older else _SERVER].members
    model = answers[_OLD_MODEL if _OLD_MODEL in older else _MODEL].members
    return {
        **card_labels(answers[_MODELS]),
        **pick(model, MODEL_INFO_FIELDS),
        **pick(server, SERVER_INFO_FIELDS),
    }


# Its metrics are prefixed with a colon; where they were renamed on the way, that is an underscore.
_GAUGES = tuple(
    [
        Gauges(
            running=f"{prefix}num_running_reqs",
            waiting=f"{prefix}num_queue_reqs",
            usage=(f"{prefix}token_usage",),
            throughput=f"{prefix}gen_throughput",
        )
        for prefix in ("sglang:", "sglang_")
    ]
)

SGLANG = Engine(
    "sglang",
    read_labels,
    Capabilities(
        pause_modes=("abort", "retract", "in_place"),
        update_from=("disk", "tensor", "distributed"),
        abort=True,
        flush_cache=True,
        sleep_wake=True,
        reports_weight_version=True,
    ),
    load_gauges=_GAUGES,
    decisions="system one",
)
