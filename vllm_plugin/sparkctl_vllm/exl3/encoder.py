"""A small encoder of EXL3, for fixtures: a tail-biting Viterbi search for each tile, no error feedback between tiles.

It is slow and only as good as a plain trellis search; a quantiser for models needs calibration and feedback (exllamav3 has both).
"""

import torch

from sparkctl_vllm.exl3 import codebook, trellis
from sparkctl_vllm.exl3.matrix import Exl3Matrix, turned
from sparkctl_vllm.refusal import demand

SEAM = 40
"""Positions on either side of a ring's seam that decide it. Ours: a state lives for 16 bits, at most 16 positions."""


def encoded(weight: torch.Tensor, bits: int, name: str = "mul1", seed: int = 0) -> Exl3Matrix:
    """Return an EXL3 matrix close to a weight [in, out], both multiples of 128, at an integer rate."""
    demand(
        weight.ndim == 2 and not any(side % 128 for side in weight.shape),
        "weight",
        tuple(weight.shape),
        "two multiples of 128",
    )
    demand(1 <= bits <= 4, "bits", bits, "1 to 4: a search over 2^16 states is for fixtures")
    made = torch.Generator().manual_seed(seed)
    suh = (1 - 2 * torch.randint(0, 2, weight.shape[:1], generator=made)).double()
    # Outputs are scaled behind their Hadamard matrix, so each is brought to the same size before; a dead one stays exactly 0.
    table = codebook.table(name).float()
    svh = (weight.double().square().mean(0).sqrt() / table.double().std()).half()
    level = torch.where(svh > 0, weight.double() / torch.where(svh > 0, svh.double(), 1), 0)
    rotated = turned(turned((level * suh[:, None]).T).T)
    tiles = rotated.unflatten(0, (-1, 16)).unflatten(2, (-1, 16)).transpose(1, 2).flatten(2)
    numbers = tiles[..., trellis.places()].float()
    found = torch.stack([walk(one, bits, table) for one in numbers.flatten(0, 1)])
    words = trellis.words(found, bits).unflatten(0, tuple(numbers.shape[:2]))
    return Exl3Matrix(trellis=words, suh=suh.half(), svh=svh, codebook=name)


def walk(numbers: torch.Tensor, bits: int, table: torch.Tensor) -> torch.Tensor:
    """Return the states whose numbers are closest, around the ring: the overlap at its seam is found on a stretch around it, then held."""
    stretch = torch.cat((numbers[-SEAM:], numbers[:SEAM]))
    before = int(_best(stretch, bits, table, start=None)[SEAM - 1])
    return _best(numbers, bits, table, start=before & ((1 << 16 - bits) - 1))


def _best(numbers: torch.Tensor, bits: int, table: torch.Tensor, start: int | None) -> torch.Tensor:
    """Return the best walk; with a start, one that begins behind those 16 - bits bits and ends on them."""
    edges, kept = 1 << bits, 1 << 16 - bits
    cost = torch.full((kept,), 0.0 if start is None else torch.inf)
    if start is not None:
        cost[start] = 0.0
    came = []
    for number in numbers:
        # state = (overlap << bits) | code; the next overlap is the state's low 16 - bits bits: states that share them are rows apart.
        total = ((table - number).square() + cost.repeat_interleave(edges)).view(edges, kept)
        cost, chosen = total[0], torch.zeros(kept, dtype=torch.int16)
        for edge in range(1, edges):  # far faster here than a minimum over the first dimension
            better = total[edge] < cost
            cost, chosen = torch.where(better, total[edge], cost), torch.where(better, edge, chosen)
        came.append(chosen)
    end = int(cost.argmin()) if start is None else start
    states = []
    for chosen in reversed(came):
        state = int(chosen[end]) * kept + end
        states.append(state)
        end = state >> bits
    return torch.tensor(states[::-1])
