"""Differences: which nodes of a line say otherwise than the others, key by key. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from bootcheck.findings import Verdict
from bootcheck.gates.gate import Seen
from sparkctl.line import Node

_MOST = 6  # named in one finding; the rest is counted

Table = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key of which a node says otherwise; None is a key that is not there."""

    key: str
    own: str | None
    others: tuple[str | None, ...]


def commonest(values: Collection[str | None]) -> tuple[str | None, bool]:
    """Return the value that most have, and whether another is as common: then nobody is in the right."""
    (first, times), *rest = Counter(values).most_common()
    return first, bool(rest) and rest[0][1] == times


def differences(tables: Mapping[Node, Table], *, absent_counts: bool) -> dict[Node, tuple[Difference, ...]]:
    """Return what each node says otherwise than most; `absent_counts` makes a missing key a value like others."""
    found: dict[Node, list[Difference]] = {node: [] for node in tables}
    for key in sorted({key for table in tables.values() for key in table}):
        told = {node: table.get(key) for node, table in tables.items() if absent_counts or key in table}
        if len(set(told.values())) == 1:
            continue
        common, is_tied = commonest(told.values())
        for node, own in told.items():
            if is_tied or own != common:
                others = tuple(sorted(set(told.values()) - {own}, key=str)) if is_tied else (common,)
                found[node].append(Difference(key=key, own=own, others=others))
    return {node: tuple(each) for node, each in found.items()}


def judge(
    tables: Mapping[Node, Table],
    *,
    verdict: Verdict,
    absent_counts: bool,
    tell: Callable[[Node], str],
    show: Callable[[str, str], str] = lambda _, value: value,
) -> Iterator[tuple[Node, Seen]]:
    """Give each node's finding: `tell` says what was read where nothing differs, `show` how a key's value is shown."""
    for node, found in differences(tables, absent_counts=absent_counts).items():
        if not found:
            yield node, Seen(verdict="pass", measured=tell(node))
            continue
        told = [_say(one, show) for one in found[:_MOST]]
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        yield node, Seen(verdict=verdict, measured="; ".join(told) + more)


def _say(one: Difference, show: Callable[[str, str], str]) -> str:
    def shown(value: str | None) -> str:
        return "not there" if value is None else show(one.key, value)

    return f"{one.key}: {shown(one.own)}, elsewhere {' or '.join(shown(value) for value in one.others)}"
