"""Tables that hold names instead of objects: what a name stands for is imported on first use.

That keeps the start quick and the memory small: a gateway loads the engine, policy or transport it uses and no other.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def resolve(reference: str) -> Any:
    """The object behind `module:attribute`. Raises ImportError or AttributeError as an import would."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
