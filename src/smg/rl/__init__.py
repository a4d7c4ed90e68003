"""Client library for the RL control plane: discover engines, call one, fan out to many, pause a fleet around a refit.

    rl = RL("http://gateway:30000", api_key=token)
    with paused(rl, "engine=sglang"):
        rl.fanout("update_weights_from_disk", {"model_path": path}, selector="engine=sglang")

A trainer may copy this package or install the gateway for it alone: it imports the standard library and nothing else,
so it runs where none of the gateway's dependencies is installed. `smg.rl.aio` offers the same to coroutines.

Engines keep their own route names and bodies; this package translates none of them. It opens one connection a request
and goes straight to the gateway: no proxy of the environment, no redirect, no retry, because a refit that ran twice is
another refit and the key opens every engine.

What can be raised, beside ValueError and TypeError for arguments that make no request:

    OSError          nothing complete came back: refused, cut, malformed, or late (TimeoutError)
    RlError          the gateway answered, and not with a result: `status`, `code`, `payload`
      FanoutError    a fan-out in which some workers failed: `result` says which
"""

from smg.rl.client import RL
from smg.rl.errors import FanoutError, RlError
from smg.rl.pausing import paused
from smg.rl.results import CallResult, FanoutFailure, FanoutResult, Worker

__all__ = ["RL", "CallResult", "FanoutError", "FanoutFailure", "FanoutResult", "RlError", "Worker", "paused"]
