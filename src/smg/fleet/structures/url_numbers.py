"""Numbers that stand for URLs in tables of many entries.

A URL gets a new number each time it appears after it was forgotten. So a table whose entries name a worker by number
forgets it in constant time: what still bears its old number means nobody, even when the URL returns.
"""

from __future__ import annotations


class UrlNumbers:
    """The URLs at hand, both ways; `urls` and `numbers` are the caller's to read, not to change."""

    __slots__ = ("_last", "numbers", "urls")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.urls: dict[int, str] = {}
        self._last = 0

    def number(self, url: str) -> int:
        """The number of a URL; a new one if it is not at hand."""
        number = self.numbers.get(url)
        if number is None:
            self._last = number = self._last + 1
            self.numbers[url] = number
            self.urls[number] = url
        return number

    def forget(self, url: str) -> int | None:
        """Let a URL go and return the number it had, if it was at hand."""
        number = self.numbers.pop(url, None)
        if number is not None:
            del self.urls[number]
        return number
