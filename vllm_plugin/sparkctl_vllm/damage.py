"""Damage: what a step's cuts are predicted to cost each row, and the account of it that every request has.

After each accepted token a request's account is S <- max(0, S + d - eps): d is the token's predicted damage (nats of KL), eps what
a token may cost on the mean. While S is above h the experts that the request picks are read deeper on all layers. A reply of n tokens
then has a mean predicted damage of at most eps + (h + d_max) / n, if every token decoded above h costs at most eps.
Source: the method's description of budget reads, Proposition 5 (docs/budget-reads.md).

All sums are of integers in units of 2^-24 nat, so every rank keeps the same accounts to the last bit. Values in, values out.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.loads import UNIT, squared
from sparkctl_vllm.refusal import demand

NAT = 1 << 24
"""Units of a nat. Ours: a step of 2^-24 nat is far below what restarts change, and 64 nats a pick still fit into int64 sums."""
MOST_NATS = 64.0
"""Largest predicted damage of one expert at weight 1; more than this is no second-order model any more."""

T = TypeVar("T", bound=np.generic)

Units = NDArray[np.int64]


def tails(importance: NDArray[np.float32]) -> Units:
    """Return what leaving out all tiles from a depth on costs at router weight 1: [experts, tiles + 1], rounded up.

    `importance` is [experts, tiles] in nats, one layer's; column 0 leaves out everything, the last nothing.
    """
    demand(
        bool(np.isfinite(importance).all()) and bool((importance >= 0).all()),
        "importance",
        "NaN, infinite or negative",
        "0 or more",
    )
    whole = importance.astype(np.float64)
    summed = np.flip(np.cumsum(np.flip(whole, axis=1), axis=1), axis=1)
    most = float(summed.max(initial=0.0))
    demand(most <= MOST_NATS, "damage of a whole expert", most, f"at most {MOST_NATS:g} nats")
    return np.hstack([np.ceil(summed * NAT), np.zeros((len(whole), 1))]).astype(np.int64)


def of_rows(
    picks: NDArray[np.int32], weights: NDArray[np.float32], depths: NDArray[np.int32], tail: Units, valid: int
) -> Units:
    """Return each row's predicted damage in one layer, [rows]; padding rows cost nothing, another rank's experts neither.

    `depths` are tiles read of each expert in this step, `tail` comes from `tails`.
    """
    demand(0 <= valid <= len(picks), "valid rows", valid, f"0 to {len(picks)}")
    demand(
        bool(((depths >= 0) & (depths < tail.shape[1])).all()),
        "depths",
        int(depths.max(initial=0)),
        f"0 to {tail.shape[1] - 1} tiles",
    )
    here = picks[:valid] >= 0
    chosen = np.where(here, picks[:valid], 0)
    units = squared(np.where(here, weights[:valid], 0)).astype(np.int64) * tail[chosen, depths[chosen]]
    cost = np.zeros(len(picks), dtype=np.int64)
    cost[:valid] = np.where(here, (units + UNIT - 1) // UNIT, 0).sum(axis=1)
    return cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """An account for each request slot, [slots]: what is owed, what a token may cost, and who reads everything.

    `free` marks slots without a request; nothing is charged to those.
    """

    owed: Units
    eps: Units
    whole: NDArray[np.bool_]
    free: NDArray[np.bool_]
    bar: int
    """h, in units."""

    @property
    def deep(self) -> NDArray[np.bool_]:
        """Slots whose experts are read deeper in the next step."""
        return ~self.free & ((self.owed > self.bar) | self.whole)

    @property
    def spent(self) -> NDArray[np.bool_]:
        """Slots whose experts are read whole in the next step: those that ask for it, and those whose account passed twice the bar.

        A floor of tiles may still cost more than eps; whole reads cost nothing. So no account passes 2 h by more than one token, and the
        bound holds with 2 h in the place of h whatever the floor costs.
        """
        return ~self.free & ((self.owed > 2 * self.bar) | self.whole)


def opened(slots: int, bar: float) -> Accounts:
    """Return accounts of so many free slots; `bar` is h in nats."""
    demand(slots >= 1, "slots", slots, "at least 1")
    demand(bar >= 0, "bar h", bar, "0 nats or more")
    return Accounts(
        owed=np.zeros(slots, dtype=np.int64),
        eps=np.zeros(slots, dtype=np.int64),
        whole=np.zeros(slots, dtype=bool),
        free=np.ones(slots, dtype=bool),
        bar=int(bar * NAT),
    )


def admit(accounts: Accounts, slot: int, eps: float, *, whole: bool = False) -> Accounts:
    """Return the accounts with a request in a slot: it owes nothing, whoever had the slot before.

    A request that was preempted and comes back is admitted anew; `resume` gives it what it owed.
    """
    _known(accounts, slot)
    demand(0 <= eps <= MOST_NATS, "eps", eps, f"0 to {MOST_NATS:g} nats a token")
    return replace(
        accounts,
        owed=_set(accounts.owed, slot, 0),
        eps=_set(accounts.eps, slot, int(eps * NAT)),
        whole=_set(accounts.whole, slot, whole),
        free=_set(accounts.free, slot, 0),
    )


def resume(accounts: Accounts, slot: int, owed: int) -> Accounts:
    """Return the accounts with what a preempted request owed put back to its name."""
    _known(accounts, slot)
    demand(
        not bool(accounts.free[slot]),
        "slot",
        f"{slot}, which is free",
        "a slot with a request",
        "admit it first",
    )
    demand(owed >= 0, "owed", owed, "0 units or more")
    return replace(accounts, owed=_set(accounts.owed, slot, owed))


def leave(accounts: Accounts, slot: int) -> Accounts:
    """Return the accounts with a slot free again."""
    _known(accounts, slot)
    return replace(
        accounts,
        owed=_set(accounts.owed, slot, 0),
        eps=_set(accounts.eps, slot, 0),
        whole=_set(accounts.whole, slot, 0),
        free=_set(accounts.free, slot, 1),
    )


def charge(
    accounts: Accounts, slots: NDArray[np.int32], cost: Units, accepted: NDArray[np.bool_]
) -> Accounts:
    """Return the accounts after a step: each accepted row, in order, is charged to its slot; drafts that were refused are not.

    `slots`, `cost` and `accepted` are [rows]; a negative slot is padding.
    """
    demand(
        len(slots) == len(cost) == len(accepted),
        "rows",
        (len(slots), len(cost), len(accepted)),
        "as many of each",
    )
    demand(bool((cost >= 0).all()), "damage", int(cost.min(initial=0)), "0 units or more")
    demand(
        bool((slots < len(accounts.owed)).all()),
        "slots",
        int(slots.max(initial=0)),
        f"below {len(accounts.owed)}",
    )
    owed = accounts.owed.copy()
    for slot, units in zip(slots[accepted], cost[accepted], strict=True):
        if slot >= 0 and not accounts.free[slot]:
            owed[slot] = max(0, owed[slot] + units - accounts.eps[slot])
    return replace(accounts, owed=owed)


def floors(
    accounts: Accounts,
    slots: NDArray[np.int32],
    picks: NDArray[np.int32],
    experts: int,
    tiles: tuple[int, int, int],
) -> NDArray[np.int32]:
    """Return the least depth of each expert in a step, [experts]: `tiles` are the least of all, of a request above the bar, and whole.

    `slots` is [rows], `picks` [rows, top-k]; an expert that both a deep and a plain request picked is read deep.
    """
    least, deep, whole = tiles
    demand(1 <= least <= deep <= whole, "tiles", tiles, "the least, then the deep, then all")
    found = np.full(experts, least, dtype=np.int32)
    for row, slot in enumerate(slots):
        if slot >= 0 and accounts.deep[slot]:
            chosen = picks[row][picks[row] >= 0]
            found[chosen] = np.maximum(found[chosen], whole if accounts.spent[slot] else deep)
    return found


def _known(accounts: Accounts, slot: int) -> None:
    demand(0 <= slot < len(accounts.owed), "slot", slot, f"0 to {len(accounts.owed) - 1}")


def _set(values: NDArray[T], place: int, value: float) -> NDArray[T]:
    changed = values.copy()
    changed[place] = value
    return changed
