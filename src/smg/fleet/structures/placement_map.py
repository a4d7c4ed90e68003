"""Where each key of a session went: at most two workers a key, the first its home and the second its
substitute.

Bounds: `MAX_KEYS` keys, the least recently used leaving first; keys idle for longer than the given time leave
as well, a few with every new key and the rest when swept. Placing a key is the policy's business.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

MAX_KEYS = 1_000_000
MAX_HOMES = 2
LONGEST_KEY = 128
"""Longer keys are remembered by their digest, so that keys bound memory by their number alone."""
_EXPIRED_PER_PIN = 2


class Home:
    """A worker that keys point to. Forgetting a worker marks it gone, however many keys still point to it."""

    __slots__ = ("gone", "keys", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = 0
        self.gone = False


class Pin:
    """The memory of one key: its homes in order of preference, where it went last, and when (in seconds)."""

    __slots__ = ("current", "homes", "used_at")

    def __init__(self, home: Home, used_at: float) -> None:
        self.homes = [home]
        self.current = home
        self.used_at = used_at

    def urls(self) -> list[str]:
        """The remembered workers that still exist, the preferred one first."""
        return [home.url for home in self.homes if not home.gone]


class PlacementMap:
    """Keys to workers. `max_idle_secs` of 0 keeps keys until the bound is reached."""

    __slots__ = ("_homes", "_max_idle_secs", "_max_keys", "_pins")

    def __init__(self, max_idle_secs: float, max_keys: int = MAX_KEYS) -> None:
        self._max_idle_secs = max_idle_secs
        self._max_keys = max_keys
        self._pins: OrderedDict[str, Pin] = OrderedDict()
        self._homes: dict[str, Home] = {}

    def __len__(self) -> int:
        return len(self._pins)

    def find(self, key: str, now: float) -> Pin | None:
        """The memory of `key`, which counts as a use of it."""
        key = _bounded(key)
        pin = self._pins.get(key)
        if pin is not None:
            self._pins.move_to_end(key)
            pin.used_at = now
        return pin

    def pin(self, key: str, url: str, now: float) -> None:
        """Remember a new key's home."""
        pins = self._pins
        self.evict_idle(now, most=_EXPIRED_PER_PIN)
        if len(pins) >= self._max_keys:
            self._release(pins.popitem(last=False)[1])
        home = self._home(url)
        home.keys += 1
        pins[_bounded(key)] = Pin(home, now)

    def follow(self, pin: Pin, url: str) -> None:
        """Note that a known key went to one of its homes."""
        if pin.current.url != url or pin.current.gone:
            self._settle(pin, next(home for home in pin.homes if home.url == url and not home.gone))

    def append(self, pin: Pin, url: str) -> None:
        """Give a known key another home behind those it has; the oldest one is dropped."""
        home = self._home(url)
        alive = [known for known in pin.homes if not known.gone and known is not home]
        pin.homes = [*alive[-(MAX_HOMES - 1) :], home]
        self._settle(pin, home)

    def keys_at(self, url: str) -> int:
        """How many remembered keys went to this worker last."""
        home = self._homes.get(url)
        return 0 if home is None else home.keys

    def forget(self, url: str) -> None:
        """Make every key forget a removed worker at once, in constant time."""
        home = self._homes.pop(url, None)
        if home is not None:
            home.gone = True

    def evict_idle(self, now: float, most: int | None = None) -> None:
        """Drop keys that were idle for too long, `most` of them at most."""
        if not self._max_idle_secs:
            return
        pins, oldest_use = self._pins, now - self._max_idle_secs
        budget = len(pins) if most is None else most
        while pins and budget > 0:
            pin = next(iter(pins.values()))
            if pin.used_at >= oldest_use:
                return
            pins.popitem(last=False)
            self._release(pin)
            budget -= 1

    def _home(self, url: str) -> Home:
        home = self._homes.get(url)
        if home is None:
            home = self._homes[url] = Home(url)
        return home

    def _settle(self, pin: Pin, home: Home) -> None:
        pin.current.keys -= 1
        home.keys += 1
        pin.current = home

    def _release(self, pin: Pin) -> None:
        pin.current.keys -= 1


def _bounded(key: str) -> str:
    if len(key) <= LONGEST_KEY:
        return key
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
