"""What one test puts up: engines, and gateways in front of them. All of it comes down in the right order."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from smg.sim.engine import SimEngine
from smg.sim.options import SimOptions
from support.bodies import MODEL
from support.gateway import running_gateway
from support.raw_engine import raw_engine


@dataclass
class Stage:
    """Builders whose products live as long as the test."""

    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def engine(self, *faults, **options):
        """A simulated engine."""
        return await self.stack.enter_async_context(
            SimEngine(SimOptions(**{"model": MODEL, "faults": faults, **options}))
        )

    async def engines(self, count, **options):
        return [await self.engine(**options) for _ in range(count)]

    async def raw_engine(self, *script, **options):
        """An engine that follows a script, or the test itself."""
        return await self.stack.enter_async_context(raw_engine(*script, **options))

    async def gateway(self, *engines, **settings):
        """A gateway in front of engines."""
        return await self.stack.enter_async_context(running_gateway(*engines, **settings))
