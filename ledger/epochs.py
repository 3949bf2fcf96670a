"""Epochs: what a line was made of when it booted, and where that changed. Pure.

The fingerprint of a boot is what the parity gates measured on every node (kernel, driver, firmware, image, NCCL, patches, files of the
model) and the engine's own version. Boots of two epochs differ in more than a lever, so no verdict rests on both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.entry import Body, Json
from ledger.fields import each, get, mapping, text, texts

PARITY = "-parity"
FOLLOWS_LEVERS = frozenset({"environment-parity"})
"""What a lever may change by itself, and so is no epoch of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Boots in a row with one fingerprint; `boots` are their ids, `changed` what became otherwise at its first."""

    number: int
    fingerprint: Mapping[str, str]
    boots: tuple[str, ...]
    changed: tuple[str, ...]


def fingerprint(boot: Body) -> Mapping[str, str]:
    """Return what a boot's row, read whole, tells of the line: by noun what all nodes say, or each node's own word."""
    said: dict[str, dict[str, str]] = {}
    for gate, node, measured in (
        get(boot, "findings", lambda found: each(found, _finding)) if "findings" in boot else ()
    ):
        if gate.endswith(PARITY) and gate not in FOLLOWS_LEVERS:
            said.setdefault(gate.removesuffix(PARITY), {})[node] = measured
    ranks = get(boot, "evidence", mapping) if "evidence" in boot else {}
    for node in ranks:
        if (
            version := get(get(ranks, node, mapping), "version", texts)
            if "version" in get(ranks, node, mapping)
            else ()
        ):
            said.setdefault("engine", {})[node] = ", ".join(version)
    return {noun: _folded(nodes) for noun, nodes in sorted(said.items())}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return what two fingerprints tell apart, as text; what only one of them tells is not known to have changed."""
    both = [noun for noun in before if noun in after]
    return tuple(
        f"{noun}: {before[noun]} before, {after[noun]} after" for noun in both if before[noun] != after[noun]
    )


def epochs(boots: Sequence[tuple[str, Mapping[str, str]]]) -> tuple[Epoch, ...]:
    """Cut a line's boots, in their order, where the fingerprint changes; a boot that tells nothing belongs to the one before."""
    found: list[Epoch] = []
    for boot, told in boots:
        changed = changes(found[-1].fingerprint, told) if found else ()
        if found and not changed:
            last = found[-1]
            found[-1] = Epoch(
                number=last.number,
                fingerprint={**told, **last.fingerprint},
                boots=(*last.boots, boot),
                changed=last.changed,
            )
        else:
            found.append(Epoch(number=len(found) + 1, fingerprint=told, boots=(boot,), changed=changed))
    return tuple(found)


def _finding(found: Json) -> tuple[str, str, str]:
    body = mapping(found)
    return get(body, "gate", text), get(body, "node", text), get(body, "measured", text)


def _folded(nodes: Mapping[str, str]) -> str:
    words = set(nodes.values())
    return (
        words.pop()
        if len(words) == 1
        else "; ".join(f"{node} {word}" for node, word in sorted(nodes.items()))
    )
