"""Inherit: a recipe that says only how it differs from another, and the whole one that it means. Pure; plain data in and out."""

from collections.abc import Mapping
from typing import Any

OWN = ("name", "about", "sources")
"""Keys that a recipe never takes over: they say what it is itself."""


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with what `own` says instead: mappings key by key, all else as a whole; null takes a key away.

    The key `base` itself is dropped, and what a recipe says of itself must be its own.
    """
    kept = {key: value for key, value in base.items() if key not in OWN}
    return _over(kept, {key: value for key, value in own.items() if key != "base"})


def _over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = _over(below, value)
        else:
            found[key] = value
    return found
