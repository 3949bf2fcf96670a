"""Encoder: weights to EXL3 matrices, some of one shape together, and how far each is off.

Rotated by Hadamard 128 on both sides behind random signs, so that any weight looks Gaussian; every output is brought to the codebook's size first.
With a Hessian of the inputs the errors are fed back (`feedback`), so that what is off in one input makes up for another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sparkctl_vllm.exl3 import codebook, feedback
from sparkctl_vllm.exl3.matrix import BLOCK, Exl3Matrix, turned
from sparkctl_vllm.refusal import demand

SIZE = {1: 1.0, 2: 1.0, 3: 1.06, 4: 1.1}
"""By how much the codebook is stretched over the weights at each rate. Ours: of 0.9 to 1.15 the least error on Gaussian tiles, 1 to 4 % of its square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A matrix and how far it is off."""

    matrix: Exl3Matrix
    error: float
    """||W' - W|| / ||W||."""
    proxy: float
    """E||x W' - x W||^2 / E||x W||^2 over the inputs of the Hessian; error squared without one."""


def encoded(weight: torch.Tensor, bits: int, name: str = "mul1", seed: int = 0) -> Exl3Matrix:
    """Return an EXL3 matrix close to a weight [in, out], both multiples of 128, at an integer rate, without a Hessian."""
    demand(weight.ndim == 2, "weight", tuple(weight.shape), "[in, out]")
    return together(weight[None], bits, [seed], name=name)[0].matrix


def together(
    weights: torch.Tensor,
    bits: int,
    seeds: Sequence[int],
    hessians: torch.Tensor | None = None,
    name: str = "mul1",
) -> tuple[Encoded, ...]:
    """Return EXL3 matrices of weights [batch, in, out] with the Hessians E[x x'] of their inputs, [batch, in, in], and a seed each for signs."""
    demand(
        weights.ndim == 3 and not any(side % BLOCK for side in weights.shape[1:]),
        "weight",
        tuple(weights.shape[1:]),
        f"two multiples of {BLOCK}",
        "EXL3 mixes 128 neighbours on either side",
    )
    demand(bits in SIZE, "bits", bits, ", ".join(map(str, SIZE)))
    weights = weights.float()
    suh, svh = _scales(weights, seeds, name, SIZE[bits])
    alive = (svh != 0)[:, None]
    level = torch.where(alive, weights / torch.where(alive, svh.float()[:, None], 1), 0)
    rotated = turned(_turned_rows(level * suh.float()[..., None]))
    seen = None if hessians is None else _rotated(hessians.float(), suh.float())
    words, held = feedback.coded(rotated, bits, name, seen)
    off = turned(held - rotated) * svh.float()[:, None]
    whole = turned(rotated) * svh.float()[:, None]
    answer = []
    for place, (one, missed, all_of) in enumerate(zip(words, off, whole, strict=True)):
        made = Exl3Matrix(trellis=one.cpu(), suh=suh[place].cpu(), svh=svh[place].cpu(), codebook=name)
        error = _share(missed, all_of, None) ** 0.5
        proxy = _share(missed, all_of, None if seen is None else seen[place])
        answer.append(Encoded(matrix=made, error=error, proxy=proxy))
    return tuple(answer)


def parted(one: Encoded, sizes: Sequence[int]) -> tuple[Exl3Matrix, ...]:
    """Return what was encoded side by side as matrices of so many outputs each, multiples of 128."""
    answer, begin = [], 0
    for size in sizes:
        answer.append(one.matrix.outputs(begin, begin + size))
        begin += size
    return tuple(answer)


def _scales(
    weights: torch.Tensor, seeds: Sequence[int], name: str, stretch: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return suh [batch, in], signs, and svh [batch, out], signed sizes of the outputs; a dead output stays exactly 0."""
    inputs, outputs = weights.shape[1:]
    drawn = [torch.randint(0, 2, (inputs + outputs,), generator=torch.Generator().manual_seed(one)) for one in seeds]  # fmt: skip
    suh, turns = (1 - 2 * torch.stack(drawn)).half().to(weights.device).split([inputs, outputs], dim=1)
    size = stretch * weights.square().mean(1).sqrt() / codebook.table(name).float().std().to(weights.device)
    demand(bool((size < torch.finfo(torch.half).max).all()), "weight", "beyond float16", "finite scales")
    return suh.contiguous(), size.half() * turns


def _turned_rows(numbers: torch.Tensor) -> torch.Tensor:
    return turned(numbers.transpose(-1, -2)).transpose(-1, -2)


def _rotated(hessians: torch.Tensor, suh: torch.Tensor) -> torch.Tensor:
    return turned(_turned_rows(hessians * suh[:, :, None] * suh[:, None]))


def _share(missed: torch.Tensor, whole: torch.Tensor, hessian: torch.Tensor | None) -> float:
    off, all_of = (
        (one * (one if hessian is None else hessian @ one)).sum(dtype=torch.float64)
        for one in (missed, whole)
    )
    return float(off / all_of) if all_of > 0 else 0.0
