"""Reading plain JSON with a type in mind: each function takes a value as it is or says what was wanted and found.

The door at the edge does the same for files from outside; this one is for the ledger's own rows, whose folds do no I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ledger.entry import Body, Json, RowFault
from tuner.lever import Setting
from tuner.metrics import Metric

T = TypeVar("T")


def get(body: Body, key: str, read: Callable[[Json], T]) -> T:
    """Read one key of a mapping.

    Raises:
        RowFault: the key is missing, or `read` refuses its value; the text starts with the key.

    """
    try:
        return read(body[key])
    except KeyError:
        raise RowFault(f"{key}: the key is missing") from None
    except RowFault as fault:
        raise RowFault(f"{key}: {fault}") from fault


def text(found: Json) -> str:
    """Take text."""
    if not isinstance(found, str):
        raise _wanted("text", found)
    return found


def text_or_null(found: Json) -> str | None:
    """Take text, or null for absent."""
    return None if found is None else text(found)


def flag(found: Json) -> bool:
    """Take true or false."""
    if not isinstance(found, bool):
        raise _wanted("true or false", found)
    return found


def whole(found: Json) -> int:
    """Take a whole number."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise _wanted("a whole number", found)
    return found


def number(found: Json) -> float:
    """Take a number."""
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise _wanted("a number", found)
    return float(found)


def number_or_null(found: Json) -> float | None:
    """Take a number, or null for absent."""
    return None if found is None else number(found)


def setting(found: Json) -> Setting:
    """Take a scalar that a recipe key can be set to."""
    if not isinstance(found, Setting):
        raise _wanted("text, a number, true or false", found)
    return found


def settings_of(found: Json) -> Mapping[str, Setting]:
    """Take recipe keys with what each is set to."""
    body = mapping(found)
    return {key: get(body, key, setting) for key in body}


def names(found: Json) -> Mapping[str, str]:
    """Take keys with text."""
    body = mapping(found)
    return {key: get(body, key, text) for key in body}


def mapping(found: Json) -> Body:
    """Take keys with values."""
    # The type that JSON is read into is asked first: an abstract class costs ten times as much, a hundred thousand times.
    if type(found) is dict or isinstance(found, Mapping):
        return found
    raise _wanted("keys with values", found)


def each(found: Json, read: Callable[[Json], T]) -> tuple[T, ...]:
    """Take a list and read each of its items; a fault names the position from 0."""
    if type(found) is not list and (not isinstance(found, Sequence) or isinstance(found, str)):
        raise _wanted("a list", found)
    items: list[T] = []
    try:
        for item in found:
            items.append(read(item))  # noqa: PERF401 - how many were read says which is wrong
    except RowFault as fault:
        raise RowFault(f"[{len(items)}]: {fault}") from fault
    return tuple(items)


def texts(found: Json) -> tuple[str, ...]:
    """Take a list of texts."""
    return each(found, text)


def metric(found: Json) -> Metric:
    """Take a metric: name, value, unit and what it was taken over."""
    body = mapping(found)
    return Metric(
        name=get(body, "name", text),
        value=get(body, "value", number),
        unit=get(body, "unit", text),
        n=get(body, "n", whole),
    )


def _wanted(what: str, found: Json) -> RowFault:
    return RowFault(f"wanted {what}, found {found!r:.60}")
