"""Ladders: which depths the ranks of a router's order get, so that replayed steps read their budget and are predicted to lose least. Pure.

Bytes and predicted damage of a ladder are sums over the ranks, so every ladder there is can be judged from two small tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.calibration.replay import Steps
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.router_rank import Ladder, ladders


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbed:
    """A ladder with what it reads, in mean tiles a step, and loses, in nats a token."""

    ladder: Ladder
    tiles: float
    damage: float


def best(  # noqa: PLR0913 - all named; what a ladder is judged by
    steps: tuple[Steps, Steps],
    table: NDArray[np.float32],
    *,
    top_k: int,
    share: float,
    rows: int,
    eps: float = np.inf,
    floor: int = 1,
) -> Climbed:
    """Return the ladder of one layer that reads at most `share` of the bytes and loses least; where none may, that which reads least.

    Args:
        steps: loads and best ranks of the same replayed steps, each [steps, experts]; the rank is top-k where nobody picked the expert.
        table: importance, [experts, tiles].
        top_k: experts that a row picks.
        share: of the bytes of whole reads.
        rows: of a step.
        eps: most that a token may lose on average, in nats.
        floor: least tiles of an expert that is read.

    """
    demand(0 < share <= 1, "share of the bytes", share, "more than 0, at most 1")
    loads, ranks = steps
    _check(loads, ranks, top_k)
    tiles = table.shape[1]
    read = np.array([(ranks == rank).sum() for rank in range(top_k)]) / len(ranks)
    tails = np.flip(np.cumsum(np.flip(table.astype(np.float64), 1), 1), 1)
    tails = np.hstack([tails, np.zeros((len(tails), 1))]) / (1 << 20) / rows / len(loads)
    lost = np.stack([np.where(ranks == rank, loads, 0).sum(0) @ tails for rank in range(top_k)])
    known = np.array(ladders(top_k, tiles, floor))
    bytes_ = known @ read
    damage = lost[np.arange(top_k), known].sum(1)
    within = damage <= eps
    fits = within & (bytes_ <= share * tiles * read.sum() + 1e-9)
    least = np.where(fits, damage, np.inf) if fits.any() else np.where(within, bytes_, np.inf)
    chosen = int(np.argmin(least))
    return Climbed(
        ladder=tuple(known[chosen].tolist()), tiles=float(bytes_[chosen]), damage=float(damage[chosen])
    )


def table(found: Mapping[int, Ladder], most_rows: int) -> NDArray[np.uint8]:
    """Return a layer's ladder for every step size, [most rows + 1, top-k]; row 0 is for nothing.

    A size that was not replayed takes, rank by rank, the deeper of its neighbours, so it is cut no deeper than either.
    """
    sizes = sorted(found)
    demand(bool(sizes) and sizes[-1] >= most_rows, "replayed step sizes", sizes, f"up to {most_rows} rows")
    answer = np.zeros((most_rows + 1, len(found[sizes[0]])), dtype=np.uint8)
    for rows in range(1, most_rows + 1):
        below = max((size for size in sizes if size <= rows), default=sizes[0])
        above = min(size for size in sizes if size >= rows)
        answer[rows] = np.maximum(found[below], found[above])
    return answer


def _check(loads: Steps, ranks: Steps, top_k: int) -> None:
    demand(loads.shape == ranks.shape, "best ranks", ranks.shape, f"those of the same steps, {loads.shape}")
    same = bool(((loads > 0) == (ranks < top_k)).all()) and bool((ranks <= top_k).all())
    demand(same, "best ranks", "of other steps", "of the loads' steps")
