"""Replay: steps of a server put together from recorded routing, and the prices at which they read their budget or stay under the cap. Pure.

A step of T rows takes one token of each of T conversations, as decoding does. All layers that are given together get one price: their
tiles cost the same bytes and their worth is in nats. A layer that is given alone reads a budget of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.calibration.recording import Routing
from sparkctl_vllm.caps import Capped, capped
from sparkctl_vllm.loads import loads
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.router_rank import ranks
from sparkctl_vllm.waterfill import cleared, lost

Steps = NDArray[np.int32]
"""Loads [steps, layers, experts]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Importances of all layers, rank by rank: [layers, experts, tiles of all ranks], and the tiles of each rank."""

    table: NDArray[np.float32]
    tiles: tuple[int, ...]

    def stacked(self) -> NDArray[np.float32]:
        """Return one row a layer, rank and expert, [layers * ranks * experts, most tiles]; what a narrow rank lacks is worth 0."""
        most, begin, parts = max(self.tiles), 0, []
        for count in self.tiles:
            part = self.table[:, :, begin : begin + count]
            parts.append(np.pad(part, ((0, 0), (0, 0), (0, most - count))))
            begin += count
        return np.stack(parts, axis=1).reshape(-1, most)

    def spread(self, step: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return a step's loads [layers, experts], one a row of `stacked`: every rank sees the same."""
        return np.repeat(step[:, None], len(self.tiles), axis=1).reshape(-1)

    def whole(self, step: NDArray[np.int32]) -> int:
        """Return the tiles that a step reads where nothing is cut."""
        return int((step > 0).sum()) * sum(self.tiles)


def drawn(routing: Routing, experts: int, rows: int, steps: int, seed: int) -> Steps:
    """Draw steps of so many rows, each row a random token of another conversation."""
    answer = np.empty((steps, len(routing.picks), experts), dtype=np.int32)
    for step, at in enumerate(_tokens(routing, rows, steps, seed)):
        for layer in range(len(routing.picks)):
            answer[step, layer] = loads(routing.picks[layer, at], routing.weights[layer, at], experts, rows)
    return answer


def ranked(routing: Routing, experts: int, rows: int, steps: int, seed: int) -> Steps:
    """Return each expert's best rank in the steps that `drawn` draws, [steps, layers, experts]; top-k where nobody picked it."""
    answer = np.empty((steps, len(routing.picks), experts), dtype=np.int32)
    for step, at in enumerate(_tokens(routing, rows, steps, seed)):
        for layer in range(len(routing.picks)):
            answer[step, layer] = ranks(routing.picks[layer, at], routing.weights[layer, at], experts, rows)
    return answer


def _tokens(routing: Routing, rows: int, steps: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Give the tokens of each step."""
    _, inverse, counts = np.unique(routing.conversation, return_inverse=True, return_counts=True)
    demand(rows <= len(counts), "rows of a step", rows, f"at most {len(counts)}, the recorded conversations")
    tokens = np.argsort(inverse, kind="stable")
    begins = np.cumsum(counts) - counts
    chance = np.random.default_rng([seed, rows])
    for _ in range(steps):
        chosen = chance.permutation(len(counts))[:rows]
        yield tokens[begins[chosen] + (chance.random(rows) * counts[chosen]).astype(np.int64)]


def priced(
    steps: Mapping[int, Steps], slices: Slices, share: float, eps: float, floor: int
) -> dict[int, Capped]:
    """Return for each step size the one price of all layers: that which reads `share` of the bytes, or a lower one where eps binds."""
    demand(0 < share <= 1, "share of the bytes", share, "more than 0, at most 1")
    budgets = {
        rows: share * float(np.mean([slices.whole(step) for step in of])) for rows, of in steps.items()
    }
    replayed = {rows: [slices.spread(step) for step in of] for rows, of in steps.items()}
    return capped(replayed, slices.stacked(), budgets, eps, floor)


def table(prices: Mapping[int, float], layers: int, most_rows: int) -> NDArray[np.float32]:
    """Return the price of every layer and step size, [layers, most rows + 1].

    A size that was not replayed takes the lower price of its neighbours, so it is cut no deeper than either; nothing lies beyond the last.
    """
    sizes = sorted(prices)
    demand(sizes and sizes[-1] >= most_rows, "replayed step sizes", sizes, f"up to {most_rows} rows")
    row = np.zeros(most_rows + 1, dtype=np.float32)
    for rows in range(1, most_rows + 1):
        below = max((size for size in sizes if size <= rows), default=sizes[0])
        above = min(size for size in sizes if size >= rows)
        row[rows] = min(prices[below], prices[above])
    return np.tile(row, (layers, 1))


def damages(steps: Steps, slices: Slices, price: float, rows: int, floor: int) -> NDArray[np.float64]:
    """Return the predicted damage a token of each step, in nats."""
    important = slices.stacked()
    answer = []
    for step in steps:
        spread = slices.spread(step)
        answer.append(lost(spread, important, cleared(spread, important, price, floor)) / rows)
    return np.array(answer)


def worst_token(slices: Slices, heaviest: Sequence[float], floor: int) -> float:
    """Return the most that one token can lose, in nats.

    In every layer its squared router weights are `heaviest` [top-k], and it picks the experts whose cut to the floor costs most.
    """
    begin, tails = 0, np.zeros(slices.table.shape[:2])
    for count in slices.tiles:
        tails += slices.table[:, :, begin + floor : begin + count].sum(2)
        begin += count
    worst = -np.sort(-tails, axis=1)[:, : len(heaviest)]
    return float((worst @ np.sort(np.asarray(heaviest))[::-1]).sum())
