"""The same client for coroutines.

    from smg.rl.aio import RL, paused

    async with paused(rl, "engine=sglang"):
        await rl.fanout("update_weights_from_disk", {"model_path": path}, selector="engine=sglang")

The names are those of `smg.rl`, so that moving code from one to the other is one import line and some awaits; results
and errors are the very same classes. Cancelling a call closes its connection at once, upon which the gateway cancels
the engine calls that are still in flight.
"""

from smg.rl.aio.client import RL
from smg.rl.aio.pausing import paused
from smg.rl.errors import FanoutError, RlError
from smg.rl.results import CallResult, FanoutFailure, FanoutResult, Worker

__all__ = ["RL", "CallResult", "FanoutError", "FanoutFailure", "FanoutResult", "RlError", "Worker", "paused"]
