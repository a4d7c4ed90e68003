"""`smg launch`: one gateway process from its settings to its exit code."""

from __future__ import annotations

import asyncio
import gc
import os

import uvloop

from smg.app.compose import compose
from smg.app.lifecycle import serve_until_signalled
from smg.config.control_plane_keys import split_control_plane_key
from smg.config.settings import Settings
from smg.config.tenant_keys import split_tenant_key
from smg.telemetry.logs import start_logs

# Young objects between two passes of the garbage collector; Python's own value is 700.
_COLLECT_AFTER = 20_000


def run(settings: Settings) -> int:
    """Run a gateway until a signal ends it; returns the exit code. Raises ConfigError when it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings))


async def _main(settings: Settings) -> int:
    logs = start_logs(
        level=settings.log_level,
        json=settings.log_json,
        directory=settings.log_dir,
        directives=os.environ.get("RUST_LOG"),
        secrets=_secrets(settings),
    )
    try:
        gateway = compose(settings, logs)
        await gateway.start()
        _settle_memory()
        return await serve_until_signalled(gateway, settings.shutdown_grace_period_secs)
    finally:
        logs.close()


def _secrets(settings: Settings) -> list[str]:
    """Every key the settings hold: none of them may appear in the log."""
    tenants = [split_tenant_key(text)[1] for text in settings.tenant_api_key]
    admins = [split_control_plane_key(text).key for text in settings.control_plane_api_keys]
    return [key for key in (settings.api_key, *tenants, *admins) if key]


def _settle_memory() -> None:
    """Tell the garbage collector what is here to stay, and to look at the rest less often.

    Requests leave almost no cycles behind, so that most passes over young objects find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
