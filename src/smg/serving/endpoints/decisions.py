"""POST /v1/decisions: served like a forwarded route, but by fewer workers, and with a translation on the way to some.

Its row is here. Who may serve it is the selector's affair (`fleet/selection.py`), how an engine is asked that of
`serving/upstreams/decisions.py`; the loop between them is the one of every route.
"""

from __future__ import annotations

from smg.protocol.decisions import DecisionsRequest
from smg.serving.call import Endpoint

ENDPOINTS = (Endpoint("decisions", "/v1/decisions", DecisionsRequest),)
