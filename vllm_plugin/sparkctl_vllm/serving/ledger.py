"""Ledger: the accounts of `damage` as tensors, so that they are read and charged where the model runs, without waiting for it.

All numbers are integers in units of 2^-24 nat and every rank charges the same rows in the same order: ranks keep equal accounts to the
last bit. `damage` is the definition; tests hold this against it.
"""

import numpy as np
import torch

from sparkctl_vllm import damage
from sparkctl_vllm.damage import NAT
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.serving.policy import squares


class Ledger:
    """Accounts [slots + 1]; the last one is of requests without an account and is always read whole."""

    def __init__(self, slots: int, bar: float, device: torch.device) -> None:
        self.bar = int(bar * NAT)
        self.owed = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self.eps = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self.whole = torch.zeros(slots + 1, dtype=torch.bool, device=device)
        self.whole[slots] = True

    def admit(self, slot: int, eps: float, *, whole: bool) -> None:
        """Open the account of a slot: it owes nothing, whoever had the slot before."""
        self.owed[slot] = 0
        self.eps[slot] = int(eps * NAT)
        self.whole[slot] = whole

    def leave(self, slot: int) -> None:
        """Close the account of a slot."""
        self.admit(slot, 0.0, whole=False)

    def floors(self, slots: torch.Tensor, tiles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return the least depth of what each row picks, int32 [ranks, rows]: 0, the deep floor above h, all above 2h or where asked.

        `slots` is [rows]; `tiles` are the deep floor and the whole of each rank's slice, [ranks].
        """
        owed = self.owed[slots]
        deep, spent = owed > self.bar, (owed > 2 * self.bar) | self.whole[slots]
        floor, every = (one[:, None] for one in tiles)
        return torch.where(spent, every, torch.where(deep, floor, 0)).int()

    def charge(
        self, cost: torch.Tensor, slots: torch.Tensor, starts: torch.Tensor, accepted: torch.Tensor, most: int
    ) -> None:
        """Charge a step: of each request, by slot, the first so many rows from its start; drafts that were refused are not.

        `cost` int64 [rows]; `slots`, `starts` and `accepted` [requests], each slot once; `most` rows of one request.
        """
        last = len(cost) - 1
        for place in range(most):
            before = self.owed[slots]
            after = (before + cost[(starts + place).clamp(max=last)] - self.eps[slots]).clamp(min=0)
            self.owed[slots] = torch.where(place < accepted, after, before)


class Tails:
    """What leaving out all tiles from a depth on costs, of every layer and rank: int64 [ranks, experts, most tiles + 1]."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        ranks = range(len(plan.meaning.widths))
        most = max(plan.meaning.widths) // plan.meaning.tile
        self.tables = []
        for layer in range(plan.meaning.layers):
            tails = [damage.tails(plan.importance(layer, rank)) for rank in ranks]
            wide = [np.pad(one, ((0, 0), (0, most + 1 - one.shape[1]))) for one in tails]
            self.tables.append(torch.from_numpy(np.stack(wide)).to(device))

    def cost(
        self,
        layer: int,
        picks: torch.Tensor,
        weights: torch.Tensor,
        depths: torch.Tensor,
    ) -> torch.Tensor:
        """Return each row's predicted damage in a layer, int64 [rows], over the slices of all ranks; `depths` is [ranks, experts]."""
        skipped = self.tables[layer].gather(2, depths.long()[..., None])[..., 0].sum(0)
        units = squares(weights) * skipped[picks]
        return ((units + (UNIT - 1)) // UNIT).sum(1)
