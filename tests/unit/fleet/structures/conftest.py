import pytest

from smg.fleet.worker import Worker


class ClosedBreaker:
    def admits(self, now):
        return True


@pytest.fixture
def fleet():
    """A maker of workers, as the tuple that selection hands out."""

    def make(count):
        return tuple(
            Worker(str(n), f"http://worker-{n}:8000", f"http://worker-{n}:8000", ClosedBreaker()) for n in range(count)
        )

    return make
