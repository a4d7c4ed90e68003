"""A gateway in front of engines, and forms for it."""

from contextlib import AsyncExitStack

import pytest

from support.calm import calm_loop
from support.forms import FORM
from support.nameless import nameless_files
from support.stage import Stage
from support.waiting import until

PATH = "/v1/audio/transcriptions"


class Studio(Stage):
    """A stage with forms. `spooled` are the files that wait for a worker now."""

    path = PATH

    def __init__(self, stack):
        super().__init__(stack)
        self._before = nameless_files()

    async def gateway(self, *engines, **settings):
        gateway = await super().gateway(*engines, **settings)
        self._before = nameless_files()  # its log is one too
        return gateway

    @property
    def spooled(self):
        return nameless_files() - self._before

    async def transcribe(self, gateway, body, *headers):
        return await gateway.post(PATH, body, [FORM, *headers])

    async def swept(self):
        """Wait until no upload is left on disk."""
        await until(lambda: not self.spooled, "the end of all temporary files")


@pytest.fixture
async def stage():
    """Engines and gateways; at the end everything is at rest, no upload is kept, and nothing went wrong unseen."""
    async with calm_loop(), AsyncExitStack() as stack:
        studio = Studio(stack)
        yield studio
        await studio.swept()
