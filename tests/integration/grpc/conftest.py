import pytest

from support.grpc_engine import grpc_engines


@pytest.fixture
async def start_engine():
    async with grpc_engines() as start:
        yield start
