"""Budget: what one rank reads in the step that is running, and what that costs whom. One of these stands in each worker process.

A step is announced before its forward and closed after it; outside of that, as in prefills, profiling and captures, everything is read.
Which it is lies in tensors that keep their place: a graph that was captured while everything was read reads the next step as it is announced.
"""

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from sparkctl_vllm.damage import NAT
from sparkctl_vllm.serving import policy, roster, wishes
from sparkctl_vllm.serving.binding import Bound
from sparkctl_vllm.serving.figures import Figures
from sparkctl_vllm.serving.ledger import Ledger, Tails
from sparkctl_vllm.serving.policy import Policy, Routed, WaterFilled
from sparkctl_vllm.serving.roster import Batch, Roster, Work
from sparkctl_vllm.serving.running import Running

if TYPE_CHECKING:
    from sparkctl_vllm.serving.fused_depths import FusedDepths

log = logging.getLogger("vllm.sparkctl")

SAID = 1000
"""Steps after which a rank tells its accounts' checksum again; before that it does after 1, 10 and 100."""

SLOTS = 4
"""Accounts for each request that may run at once. Ours: those that were preempted and wait keep theirs."""


class Budget:
    """The plan of a rank at work: policy, accounts, and the step that is running."""

    def __init__(
        self, bound: Bound, named: str, most_requests: int, figures: Figures, device: torch.device
    ) -> None:
        meaning = bound.plan.meaning
        self.bound, self.named, self.figures, self.device = bound, named, figures, device
        self.policy: Policy = policy.named(named, bound.plan, device)
        self.tails = Tails(bound.plan, device)
        self.roster = Roster(capacity=SLOTS * most_requests)
        self.ledger = Ledger(self.roster.capacity, meaning.h, device)
        self.most_rows = bound.plan.tables["price"].shape[1] - 1
        counts = [width // meaning.tile for width in meaning.widths]
        self.tiles = torch.tensor(counts, dtype=torch.int32, device=device)
        self.deep = self.tiles.clamp(max=meaning.floor_tiles)
        self.least = self.tiles.clamp(max=meaning.min_tiles)
        self.tile_bytes = 0
        self.standing: set[int] = set()
        self.steps, self.checksum = 0, 0
        self.batch: Batch | None = None
        self.row_slots = torch.zeros(self.most_rows, dtype=torch.int64, device=device)
        self.running = Running(
            rows=torch.full((1,), self.most_rows, dtype=torch.int32, device=device),
            floors=self.tiles[:, None].repeat(1, self.most_rows),
            cost=torch.zeros(self.most_rows, dtype=torch.int64, device=device),
            read=torch.zeros(2, len(counts), dtype=torch.int64, device=device),
        )
        self.fused = _fused(self) if device.type == "cuda" else None

    def loaded(self, layer: int, tile_bytes: int) -> None:
        """Note a layer whose experts stand sorted; with the last one, say that budget reads are on."""
        self.tile_bytes = tile_bytes
        self.standing.add(layer)
        meaning = self.bound.plan.meaning
        if len(self.standing) == meaning.layers:
            log.info(
                "sparkctl budget reads: on, plan %s, %s, %d layers of %d experts in %d tiles, rank %d of %d, steps of up to %d rows, eps %g, h %g",
                meaning.tables[:12], self.named, meaning.layers, meaning.experts, int(self.tiles[self.bound.rank]), self.bound.rank, len(self.tiles),
                self.most_rows, meaning.eps, meaning.h,
            )  # fmt: skip

    def turnover(self, finished: Iterable[str], arrived: Mapping[str, Mapping[str, object] | None]) -> None:
        """Close the accounts of requests that ended and open those of new ones, by name with what they asked for."""
        self.roster, freed = roster.left(self.roster, finished)
        for slot in freed:
            self.ledger.leave(slot)
        for name, extra in arrived.items():
            self.roster, slot_ = roster.joined(self.roster, name)
            if slot_ is None:
                continue
            wish = wishes.read(extra, self.bound.plan.meaning.eps)
            if wish.fault:
                log.warning("sparkctl budget reads: request %s is read whole: %s", name, wish.fault)
            self.ledger.admit(slot_, wish.eps, whole=wish.whole)

    def begin(self, work: Sequence[Work]) -> None:
        """Announce the step whose forward follows."""
        found = roster.batch(self.roster, work, self.most_rows)
        self.batch = found if isinstance(found, Batch) else None
        if isinstance(found, str):
            self.figures.add(f"steps_whole_{found}", 1)
            return
        self.running.rows.fill_(found.rows)
        self.row_slots[: found.rows] = torch.tensor(found.row_slots(), device=self.device)
        self.running.floors.copy_(self.ledger.floors(self.row_slots, (self.deep, self.tiles)))
        self.running.cost.zero_()
        self.running.read.zero_()

    def depths(self, layer: int, picks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return int32 [experts] tiles of this rank's slice to read in a layer of the running step, and note what that costs each row."""
        if self.fused is not None:
            return self.fused(layer, picks, weights, self.running)
        running, count = self.running, len(picks)
        picks = picks.long()
        routed = Routed(
            layer=layer,
            picks=picks,
            weights=weights,
            rows=running.rows,
            loads=policy.loads(picks, weights, running.rows, self.bound.plan.meaning.experts),
        )
        alive = torch.arange(count, device=picks.device) < running.rows
        each = torch.where(alive, running.floors[:, :count], 0).repeat_interleave(picks.shape[1], dim=1)
        wanted = torch.maximum(self.policy.depths(routed), self.least[:, None])
        wanted = wanted.scatter_reduce(1, picks.flatten().expand(len(self.tiles), -1), each, "amax")
        picked = routed.loads > 0
        depths = torch.where(picked, torch.minimum(wanted, self.tiles[:, None]), 0)
        cost = self.tails.cost(layer, picks, weights, depths)
        running.cost[:count] += torch.where(alive, cost, 0)
        running.read[0] += depths.sum(1)
        running.read[1] += torch.where(picked, self.tiles[:, None], 0).sum(1)
        return depths[self.bound.rank]

    def close(self) -> Batch | None:
        """End the running step: what comes after it is read whole. Returns the step, whose accepted rows are still to be charged."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self.running.rows.fill_(self.most_rows)
            self.running.floors.copy_(self.tiles[:, None].expand_as(self.running.floors))
        return batch

    def charge(self, batch: Batch, accepted: Mapping[str, int]) -> None:
        """Charge each request of a closed step for as many of its rows as gave it a token."""
        made = [accepted.get(name, 0) for name in batch.requests]
        ends = (*batch.starts[1:], batch.rows)
        longest = max(end - start for start, end in zip(batch.starts, ends, strict=True))
        slots, starts, counts = (
            torch.tensor(one, device=self.device) for one in (batch.slots, batch.starts, made)
        )
        self._count(batch)
        self.ledger.charge(self.running.cost, slots, starts, counts, longest)
        self.ledger.owed[self.roster.nobody] = 0
        self._sum_up(batch)

    def _sum_up(self, batch: Batch) -> None:
        """Add the step to a checksum of all that was charged, and tell it now and then: ranks that agree tell the same."""
        for one in (self.running.cost[: batch.rows], self.ledger.owed):
            self.checksum = zlib.crc32(one.cpu().numpy().tobytes(), self.checksum)
        self.steps += 1
        if self.steps in {1, 10, 100} or self.steps % SAID == 0:
            log.info(
                "sparkctl budget reads: after %d steps the accounts sum up to %08x", self.steps, self.checksum
            )

    def _count(self, batch: Batch) -> None:
        owed = self.ledger.owed[self.row_slots[: batch.rows]]
        read, whole = self.running.read.tolist()
        self.figures.step(batch.rows, read, whole, self.tile_bytes)
        self.figures.add("rows_deepened", int((owed > self.ledger.bar).sum()))
        self.figures.add("nats", float(self.running.cost[: batch.rows].sum()) / NAT)
        self.figures.put("price", float(self.bound.plan.tables["price"][:, batch.rows].mean()))


def _fused(budget: Budget) -> "FusedDepths | None":
    """Return the depths in one launch, for the policy that has it."""
    from sparkctl_vllm.serving.fused_depths import FusedDepths  # noqa: PLC0415 - Triton is there where a GPU is

    if not isinstance(budget.policy, WaterFilled):
        return None
    return FusedDepths(budget.bound, budget.policy, budget.tails, budget.least, budget.tiles)
