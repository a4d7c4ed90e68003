"""Where each key of a session went: at most two workers a key, the first its home, the second its substitute.

Bounds: `MAX_KEYS` keys, the least recently used leaving first; keys idle for longer than the given time leave
as well, a few with every new key and the rest when swept. Which worker a key is given is the policy's
business.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from smg.fleet.structures.url_numbers import UrlNumbers

MAX_KEYS = 524_288
MAX_HOMES = 2
LONGEST_KEY = 128
"""Longer keys are remembered by their digest, so that keys bound memory by their number alone."""
_EXPIRED_PER_NEW_KEY = 2

_Pin = tuple[tuple[int, ...], int, float]
"""The memory of a key: its homes in order of preference, where it went last, and when (in seconds).

Homes are numbers (see `UrlNumbers`), so that forgetting a worker takes no walk over the keys. Plain tuples of numbers,
because the garbage collector does not look into those.
"""


class PlacementMap:
    """Keys to worker URLs. `max_idle_secs` of 0 keeps idle keys until the bound is reached."""

    def __init__(self, max_idle_secs: float, max_keys: int = MAX_KEYS) -> None:
        self._max_idle_secs = max_idle_secs
        self._max_keys = max_keys
        self._pins: OrderedDict[str, _Pin] = OrderedDict()
        self._workers = UrlNumbers()
        self._keys: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._pins)

    def recall(self, key: str) -> list[str] | None:
        """The workers a key remembers and that still exist, the preferred one first; None for a new key."""
        pin = self._pins.get(_bounded(key))
        if pin is None:
            return None
        urls = self._workers.urls
        return [urls[home] for home in pin[0] if home in urls]

    def settle(self, key: str, url: str, now: float, *, lead: bool = False) -> None:
        """Note that a key went to `url` just now.

        A worker it does not remember is put behind those it does; of more than two the oldest is dropped. With `lead`
        the worker becomes the key's home instead, and the home before it the substitute.
        """
        key, known = _bounded(key), self._workers.urls
        home = self._workers.number(url)
        pin = self._pins.get(key)
        if pin is None:
            self._make_room(now)
            homes: tuple[int, ...] = (home,)
        else:
            homes = pin[0]
            self._uncount(pin)
            if lead:
                homes = (home, *[other for other in homes if other in known and other != home])[:MAX_HOMES]
            elif home not in homes:
                homes = (*[other for other in homes if other in known], home)[-MAX_HOMES:]
        self._pins[key] = (homes, home, now)
        self._pins.move_to_end(key)
        self._keys[home] = self._keys.get(home, 0) + 1

    def keys_at(self, url: str) -> int:
        """How many remembered keys went to this worker last."""
        home = self._workers.numbers.get(url)
        return 0 if home is None else self._keys[home]

    def forget(self, url: str) -> None:
        """Make every key forget a removed worker at once, in constant time."""
        home = self._workers.forget(url)
        if home is not None:
            del self._keys[home]

    def evict_idle(self, now: float, most: int | None = None) -> None:
        """Drop keys that were idle for too long, `most` of them at most."""
        if not self._max_idle_secs:
            return
        pins, oldest_use = self._pins, now - self._max_idle_secs
        for _ in range(len(pins) if most is None else most):
            if not pins or next(iter(pins.values()))[2] >= oldest_use:
                return
            self._uncount(pins.popitem(last=False)[1])

    def _make_room(self, now: float) -> None:
        self.evict_idle(now, most=_EXPIRED_PER_NEW_KEY)
        if len(self._pins) >= self._max_keys:
            self._uncount(self._pins.popitem(last=False)[1])

    def _uncount(self, pin: _Pin) -> None:
        if pin[1] in self._keys:
            self._keys[pin[1]] -= 1


def _bounded(key: str) -> str:
    if len(key) <= LONGEST_KEY:
        return key
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
