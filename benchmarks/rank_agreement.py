"""Do ranks that never talk about depths agree on them? Random steps, every rank on its own, compared bit for bit at the end.

Each rank plans its own reads where its kernel does, works out every other rank's depths and the damage that all cuts together are predicted to
cost, and keeps the accounts of the requests. What has to be equal: a rank's planned depths and what every other rank took them to be; the
accounts of all ranks after every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from rank_layouts import Layout, importances, routing
from sparkctl_vllm import damage, price, waterfill
from sparkctl_vllm.loads import loads

SLOTS = 32
CHUNK = 500
"""Steps whose routing is drawn at once."""
LAYER, SKEW = 0, 0.6
SCALE = np.float32(2e-4)
DEEP = 8
"""Tiles that a step reads at least while a request in it owes more than the bar; 1 else."""

Planned = Callable[[NDArray[np.int32], NDArray[np.float32], int, float, int], NDArray[np.int32]]
"""Picks and weights [rows, top-k] as the rank counts them, valid rows, price and floor to the depths [experts of the rank] that it plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one rank saw: hashes over all steps, to be equal on all ranks, and its own errors."""

    steps: int
    depths: str
    """Of every rank's depths in every step."""
    ledger: str
    """Of all accounts after every step."""
    wrong: int
    """Steps in which the rank's kernel planned other depths than this rank took all others to plan."""
    owed: int
    """Largest account, in units of 2^-24 nat: above 0, or nothing was at stake."""
    deep: int
    """Steps that read deeper for a request above the bar."""


def tables(layout: Layout, seed: int) -> tuple[NDArray[np.float32], ...]:
    """Return every rank's importances, scaled so that a token's predicted damage is of the order of what it may cost."""
    return tuple(one * SCALE for one in importances(layout, LAYER, seed))


def agreement(  # noqa: PLR0913, PLR0917 - what is compared, and on what
    layout: Layout, rank: int, planned: Planned, steps: int, rows: int, seed: int
) -> Seen:
    """Run random steps of 1 to `rows` valid rows on one rank; requests come and go, drafts are refused at random."""
    scaled = tables(layout, seed)
    cost = _price(layout, scaled, rows, seed)
    tails = tuple(damage.tails(one) for one in scaled)
    accounts = damage.opened(SLOTS, bar=0.02)
    depths, ledger = sha256(), sha256()
    wrong, owed, deep = 0, 0, 0
    for number, (picks, weights, chance) in enumerate(_steps(layout, steps, rows, seed)):
        accounts = _visited(accounts, chance)
        valid = int(chance.integers(1, rows + 1))
        slots = chance.permutation(SLOTS)[:rows].astype(np.int32)
        above = bool(accounts.deep[slots[:valid]].any())
        floor = DEEP if above else 1
        deep += above
        units = np.zeros(rows, dtype=np.int64)
        for other, (table, tail) in enumerate(zip(scaled, tails, strict=True)):
            mine = layout.local(picks, other)
            found = waterfill.cleared(loads(mine, weights, len(table), valid), table, cost, floor).astype(
                np.int32
            )
            units += damage.of_rows(mine, weights, found, tail, valid)
            depths.update(found.tobytes())
            if other == rank:
                wrong += not np.array_equal(planned(mine, weights, valid, cost, floor), found)
        accepted = (chance.random(rows) < 0.7) & (np.arange(rows) < valid)
        accounts = damage.charge(accounts, slots, units, accepted)
        ledger.update(accounts.owed.tobytes())
        owed = max(owed, int(accounts.owed.max()))
        if number + 1 == steps:
            break
    return Seen(
        steps=steps, depths=depths.hexdigest(), ledger=ledger.hexdigest(), wrong=wrong, owed=owed, deep=deep
    )


def agreed(seen: list[Seen]) -> bool:
    """Return whether all ranks saw the same, none planned otherwise, and something was at stake."""
    first = seen[0]
    same = all((one.depths, one.ledger) == (first.depths, first.ledger) for one in seen)
    return same and not any(one.wrong for one in seen) and first.owed > 0 and first.deep > 0


def _steps(layout: Layout, steps: int, rows: int, seed: int):  # noqa: ANN202 - a generator of triples
    for begin in range(0, steps, CHUNK):
        picks, weights = routing(min(CHUNK, steps - begin), rows, layout, SKEW, seed + 1 + begin)
        for place in range(len(picks)):
            yield picks[place], weights[place], np.random.default_rng([seed, begin + place])


def _visited(accounts: damage.Accounts, chance: np.random.Generator) -> damage.Accounts:
    """Return the accounts after one request came or went."""
    slot = int(chance.integers(SLOTS))
    if accounts.free[slot] or chance.random() < 0.9:
        return damage.admit(accounts, slot, eps=0.015) if accounts.free[slot] else accounts
    return damage.leave(accounts, slot)


def _price(layout: Layout, tables: tuple[NDArray[np.float32], ...], rows: int, seed: int) -> float:
    """Return one price for all ranks, at which other steps read about half of rank 0's tiles."""
    picks, weights = routing(32, rows, layout, SKEW, seed)
    replayed = [
        loads(layout.local(one, 0), weight, len(tables[0]), rows)
        for one, weight in zip(picks, weights, strict=True)
    ]
    whole = np.mean([(one > 0).sum() for one in replayed]) * layout.tiles(0)
    return price.fixed(replayed, tables[0], 0.5 * whole)
