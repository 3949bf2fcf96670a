"""Layer: some experts of a layer at a time, from the checkpoint's weights to EXL3 tensors, their neurons put in the plan's order before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sparkctl_vllm.calibration.checkpoint import Checkpoint, Expert
from sparkctl_vllm.calibration.recording import Routed
from sparkctl_vllm.exl3 import codebook, encoder, hessian
from sparkctl_vllm.exl3.allocation import Priced
from sparkctl_vllm.exl3.matrix import Exl3Matrix

CODEBOOK = "mul1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One layer: where its weights are, what its routers saw (none: no Hessians), in which order its neurons go (none: as they are)."""

    checkpoint: Checkpoint
    layer: int
    routed: Routed | None
    order: NDArray[np.uint16] | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How far one expert is off; relative errors per weight, and proxy errors over what it read."""

    expert: int
    tokens: int
    error: Mapping[str, float]
    proxy: Mapping[str, float]


def coded(
    work: Work, numbers: Sequence[int], bits: Mapping[str, int]
) -> tuple[dict[str, torch.Tensor], tuple[Report, ...]]:
    """Return the tensors of these experts and how far they are off, gate and up at one rate, down at another."""
    experts = [_sorted(work, number) for number in numbers]
    asked = None if work.routed is None else hessian.asked(experts, numbers, work.routed)
    wide = torch.stack([torch.cat((one.gate, one.up)).T for one in experts])
    down = torch.stack([one.down.T for one in experts])
    seeds = [_seed(work, number) for number in numbers]
    pairs = encoder.together(wide, bits["gate_up"], seeds, asked and asked.hidden, CODEBOOK)
    downs = encoder.together(down, bits["down"], [one + 1 for one in seeds], asked and asked.activations, CODEBOOK)  # fmt: skip
    tensors: dict[str, torch.Tensor] = {}
    reports = []
    for place, (number, pair, lower) in enumerate(zip(numbers, pairs, downs, strict=True)):
        sides = encoder.parted(pair, [wide.shape[2] // 2] * 2)
        for part, one in zip(("gate", "up", "down"), (*sides, lower.matrix), strict=True):
            tensors |= stored(module(work.checkpoint, work.layer, number, part), one)
        report = Report(
            expert=number,
            tokens=0 if asked is None else asked.tokens[place],
            error={"gate_up": pair.error, "down": lower.error},
            proxy={"gate_up": pair.proxy, "down": lower.proxy},
        )
        reports.append(report)
    return tensors, tuple(reports)


def priced(work: Work, routed: Routed, numbers: Sequence[int], rates: Sequence[int]) -> Priced:
    """Return what each rate costs this layer, from a sample of its experts."""
    proxy: dict[str, dict[int, float]] = {"gate_up": {}, "down": {}}
    for bits in rates:
        _, reports = coded(work, numbers, {"gate_up": bits, "down": bits})
        weights = np.array([max(1, one.tokens) for one in reports], dtype=np.float64)
        for part, matrices in (("gate_up", 2), ("down", 1)):
            off = np.array([one.proxy[part] for one in reports])
            proxy[part][bits] = float(matrices * (weights @ off) / weights.sum())
    experts = [work.checkpoint.expert(work.layer, number) for number in numbers]
    gain = hessian.worth(experts, numbers, routed)
    return Priced(gain=gain, tokens=float(routed.picks.numel()), proxy=proxy)


def module(checkpoint: Checkpoint, layer: int, expert: int, part: str) -> str:
    """Return the name of a matrix without `.weight`."""
    return checkpoint.places[layer][expert][part, "weight"].name.removesuffix(".weight")


def stored(name: str, one: Exl3Matrix) -> dict[str, torch.Tensor]:
    """Return a matrix as tensors of a checkpoint."""
    number = codebook.MARKERS[one.codebook]
    marker = torch.tensor(number - (number >> 31 << 32), dtype=torch.int32)
    return {
        f"{name}.trellis": one.trellis.contiguous(),
        f"{name}.suh": one.suh.clone(),  # gate and up have one in common
        f"{name}.svh": one.svh,
        f"{name}.{one.codebook}": marker,
    }


def _sorted(work: Work, number: int) -> Expert:
    expert = work.checkpoint.expert(work.layer, number)
    if work.order is None:
        return expert
    order = torch.from_numpy(work.order[number].astype(np.int64)).to(expert.gate.device)
    return replace(expert, gate=expert.gate[order], up=expert.up[order], down=expert.down[:, order])


def _seed(work: Work, expert: int) -> int:
    # Of the place alone: experts that are coded in another run, or after one that broke off, get the same signs.
    return 2 * (work.seed * 1_000_003 + work.layer * 4096 + expert)
