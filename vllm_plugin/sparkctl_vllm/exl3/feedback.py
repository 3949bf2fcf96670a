"""Feedback: rounds weights to the trellis sixteen inputs at a time, each told what the ones behind it missed, as inputs go together (LDLQ).

With H = E[x x'] of the inputs and H = L D L' in blocks of 16, the expected damage of an error E is tr(E' H E) = sum tr(e' D e) over the blocks
e of L'E. So the blocks are coded from the last to the first: what is coded of one is its weights plus L' times the errors behind it, and
e is only what the search itself misses (QuIP#, Tseng et al. 2024; the recipe of exllamav3 too).
"""

import torch

from sparkctl_vllm.exl3 import codebook, search, trellis
from sparkctl_vllm.refusal import demand

DAMPING = 0.025
"""Added to H's diagonal, of its mean. Ours, after exllamav3's default: without it directions that calibration never saw cost nothing."""


def coded(
    numbers: torch.Tensor, bits: int, name: str, hessian: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return words int16 [batch, in/16, out/16, 16 K] and what they hold, float32, for numbers [batch, in, out] and H [batch, in, in]."""
    table = codebook.table(name).float().to(numbers.device)
    rows = numbers.unflatten(1, (-1, trellis.SIDE))
    if hessian is None:
        found = _states(rows.flatten(0, 1), bits, name).unflatten(0, tuple(rows.shape[:2]))
        return trellis.words(found, bits), _held(found, table)
    lower = factor(hessian)
    off, words, held = torch.zeros_like(numbers), [], []
    for block in reversed(range(rows.shape[1])):
        here, behind = _block(block), slice((block + 1) * trellis.SIDE, None)
        wanted = rows[:, block] + lower[:, behind, here].transpose(1, 2) @ off[:, behind]
        found = _states(wanted, bits, name)
        words.append(trellis.words(found, bits))
        held.append(_held(found[:, None], table))
        off[:, here] = rows[:, block] - held[-1]
    return torch.stack(words[::-1], dim=1), torch.cat(held[::-1], dim=1)


def factor(hessian: torch.Tensor) -> torch.Tensor:
    """Return L of H = L D L' with unit blocks of 16, [batch, in, in], of H damped."""
    mean = hessian.diagonal(dim1=1, dim2=2).mean(1)
    demand(bool((mean > 0).all()), "Hessian", "all zero", "inputs that are not all zero")
    damped = hessian + DAMPING * mean[:, None, None] * torch.eye(hessian.shape[1], device=hessian.device)
    root, faults = torch.linalg.cholesky_ex(damped)
    demand(not bool(faults.any()), "Hessian", "not positive", "a sum of x x'", "NaN or infinite inputs?")
    lower = torch.empty_like(root)
    for block in range(hessian.shape[1] // trellis.SIDE):
        here = _block(block)
        lower[:, :, here] = torch.linalg.solve_triangular(root[:, here, here], root[:, :, here], upper=False, left=False)  # fmt: skip
    return lower


def _block(block: int) -> slice:
    return slice(block * trellis.SIDE, (block + 1) * trellis.SIDE)


def _states(rows: torch.Tensor, bits: int, name: str) -> torch.Tensor:
    """Return states [batch, out/16, 256] of one row of tiles each, [batch, 16, out]."""
    tiles = rows.unflatten(2, (-1, trellis.SIDE)).transpose(1, 2)
    numbers = tiles.flatten(2)[..., trellis.places().to(rows.device)]
    return search.walks(numbers.flatten(0, 1), bits, name).unflatten(0, (len(rows), -1))


def _held(states: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return numbers [batch, in, out] of states [batch, in/16, out/16, 256]."""
    return trellis.tile(table[states]).transpose(2, 3).flatten(3).flatten(1, 2)
