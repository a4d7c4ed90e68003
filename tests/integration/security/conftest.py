"""An issuer of tokens on the stage."""

import pytest

from support.issuer import issuer_server


@pytest.fixture
async def issuer(stage):
    """An issuer that listens for as long as the stage stands."""
    return await stage.stack.enter_async_context(issuer_server())
