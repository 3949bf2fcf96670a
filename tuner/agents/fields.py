"""One JSON object read with types in mind: a faulty key gives a stand-in and a line in the list of faults, so that all come at once.

What is wrong is told as `place: $.key: wanted ..., found ...`; a key that nobody asked for is a fault too.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

Read = Callable[[object], T]
"""Takes a value as it is or raises ValueError with what was wanted."""


_SMALL = tuple(range(1 << 16))
"""Numbers that lists share: a corpus names the blocks of its prompts some hundred million times, each a small number."""


class Fields:
    """The keys of one object, taken one by one."""

    def __init__(self, raw: object, place: str, faults: list[str]) -> None:
        self._place = place
        self._faults = faults
        self._left: dict[str, object] = dict(raw) if isinstance(raw, dict) else {}
        self.is_object = isinstance(raw, dict)
        if not self.is_object:
            faults.append(f"{place}: wanted an object, found {_shown(raw)}")

    def need(self, key: str, read: Read[T], stand_in: T) -> T:
        """Return the value of a key that must be there."""
        if key not in self._left:
            if self.is_object:
                self.fault(key, "is missing")
            return stand_in
        return self.have(key, read, stand_in)

    def have(self, key: str, read: Read[T], missing: T) -> T:
        """Return the value of a key, or `missing` where it is not there."""
        if key not in self._left:
            return missing
        value = self._left.pop(key)
        try:
            return read(value)
        except ValueError as wanted:
            self.fault(key, f"wanted {wanted}, found {_shown(value)}")
            return missing

    def fault(self, key: str, said: str) -> None:
        """Note what is wrong with a key."""
        self._faults.append(f"{self._place}: $.{key}: {said}")

    def close(self) -> None:
        """Name the keys that nobody asked for."""
        self._faults += [f"{self._place}: $.{key}: unknown key" for key in self._left]


def decoded(text: str, place: str, faults: list[str]) -> object:
    """Return the JSON of one line; None and a fault where it is none or a key stands twice."""
    try:
        found: object = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as fault:
        faults.append(f"{place}: not JSON: {fault.msg} (column {fault.colno})")
    except (RecursionError, ValueError) as fault:
        faults.append(f"{place}: not JSON: {fault}")
    else:
        return found
    return None


def text(value: object) -> str:
    """Take text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("text")
    return value


def word(value: object) -> str:
    """Take text, which may be empty."""
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def whole(value: object) -> int:
    """Take a whole number of 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number of 0 or more")
    return value


def positive(value: object) -> int:
    """Take a whole number of 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number of 1 or more")
    return value


def seconds(value: object) -> float:
    """Take a finite number of 0 or more."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("a number of 0 or more")
    return float(value)


def wholes(value: object) -> tuple[int, ...]:
    """Take a list of whole numbers of 0 or more."""
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise ValueError("a list of whole numbers of 0 or more")
    return tuple(_SMALL[one] if one < len(_SMALL) else one for one in value)


def texts(value: object) -> tuple[str, ...]:
    """Take a list of texts."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("a list of texts")
    return tuple(value)


def mapping(value: object) -> Mapping[str, object]:
    """Take an object as it is."""
    if not isinstance(value, dict):
        raise ValueError("an object")
    return value


def items(value: object) -> tuple[object, ...]:
    """Take a list as it is."""
    if not isinstance(value, list):
        raise ValueError("a list")
    return tuple(value)


def optional(read: Read[T]) -> Read[T | None]:
    """Take null as well."""
    return lambda value: None if value is None else read(value)


def one_of(*known: str) -> Read[str]:
    """Take one of these texts."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return value

    return read


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the key {next(_twice(pairs))} stands twice")
    return found


def _twice(pairs: list[tuple[str, object]]) -> Iterator[str]:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            yield name
        seen.add(name)


def _shown(value: object) -> str:
    told = json.dumps(value, ensure_ascii=False, default=str)
    return told if len(told) <= 60 else f"{told[:57]}..."
