"""Fields: values out of a foreign document, each of the type that is wanted or a ValueError that names it. Pure.

Further keys do no harm: other versions of a tool have them. A key that is null or missing is None where that is allowed.
"""

import math
from collections.abc import Mapping
from typing import TypeGuard


def at(value: object, key: str) -> object:
    """Return what stands under a key; None where there is no such key, or nothing with keys at all."""
    return value.get(key) if isinstance(value, Mapping) else None


def number(value: object, key: str) -> float | None:
    """Return a finite number, or None where there is none."""
    found = at(value, key)
    if found is None:
        return None
    if not _is_number(found):
        raise ValueError(f"{key}: wanted a number, found {found!r:.60}")
    return found


def needed(value: object, key: str) -> float:
    """Return a number that must be there."""
    found = number(value, key)
    if found is None:
        raise ValueError(f"{key}: missing, wanted a number")
    return found


def count(value: object, key: str) -> int | None:
    """Return a whole number from 0, or None where there is none."""
    found = number(value, key)
    if found is not None and (found != int(found) or found < 0):
        raise ValueError(f"{key}: wanted a count, found {found!r}")
    return None if found is None else int(found)


def needed_count(value: object, key: str) -> int:
    """Return a whole number that must be there."""
    found = count(value, key)
    if found is None:
        raise ValueError(f"{key}: missing, wanted a count")
    return found


def text(value: object, key: str) -> str:
    """Return a text, '' where there is none."""
    found = at(value, key)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{key}: wanted text, found {found!r:.60}")
    return found or ""


def items(value: object, key: str) -> tuple[object, ...]:
    """Return the items of a list, none where there is no such key."""
    found = at(value, key)
    if found is not None and not isinstance(found, list):
        raise ValueError(f"{key}: wanted a list, found {found!r:.60}")
    return tuple(found or ())


def _is_number(found: object) -> TypeGuard[float]:
    return isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
