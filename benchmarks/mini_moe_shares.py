"""The policies that are compared at equal bytes, each at every share, from the plan files of that share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

import mini_moe_steps as steps
from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration import checkpoint
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.policy import Policy, RouterRank, WaterFilled, router_rank

SHARES = (90, 75, 60, 50)
FEWER = {90: 5, 75: 4, 60: 3, 50: 2}
"""Picks of six that come nearest to a share of the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A policy at a share of the bytes; `cut` None reads whole."""

    name: str
    share: int
    cut: Callable[[int], steps.Steps] | None
    """Rows of a step to the cut."""


def read_plans(files: Path, folder: Path) -> dict[int, Plan]:
    """Read the plans of a folder, held against the checkpoint."""
    hashes = checkpoint.opened(files).hashes()
    return {share: plan_file.read(folder / f"mini-{share}", hashes) for share in SHARES}


def policies(plans: Mapping[int, Plan], device: torch.device) -> list[Named]:
    """Return every policy at every share, the whole reads first."""
    found = [Named(name="full", share=100, cut=None)]
    for share, plan in plans.items():
        found += [
            Named(name=name, share=share, cut=_cut(plan, share, kind, device))
            for name, kind in (
                ("uniform", "even"),
                ("water-filled", "price"),
                ("router rank", "ladder"),
                ("fewer experts", "fewer"),
            )
        ]
    return found


def _cut(plan: Plan, share: int, kind: str, device: torch.device) -> Callable[[int], steps.Steps]:
    experts, tiles = plan.meaning.experts, sum(plan.meaning.widths) // plan.meaning.tile

    def made(rows: int) -> steps.Steps:
        def policy(layer: int, side_by_side: int) -> Policy:
            if kind == "price":
                table = torch.from_numpy(plan.importance(layer, 0)).to(device).repeat(side_by_side, 1)
                return WaterFilled(importance=table, price=plan.price(layer, rows))
            if kind == "ladder":
                one = router_rank(plan.ladder(layer, rows), experts, tiles, device)
                return RouterRank(ladder=one.ladder, experts=experts * side_by_side, tiles=tiles)
            part = share / 100 if kind == "even" else 1.0
            depth = torch.tensor(steps.even(part, experts, tiles), dtype=torch.int32, device=device)
            return steps.Even(depth=depth.repeat(side_by_side), tiles=tiles)

        return steps.Steps(
            rows=rows, experts=experts, made=policy, picks=FEWER[share] if kind == "fewer" else None
        )

    return made
