"""Planning: from a survey and a recording's routing to a plan, ready to be written: sort, importances, prices, predicted damage. Pure but for reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.calibration import ladders, replay
from sparkctl_vllm.calibration.cost import UNCUT, cost
from sparkctl_vllm.calibration.moments import Moments
from sparkctl_vllm.calibration.order import importance, order
from sparkctl_vllm.calibration.recording import Recording, Routing
from sparkctl_vllm.loads import squared
from sparkctl_vllm.plan_file import Interval, Meaning, Plan
from sparkctl_vllm.refusal import demand

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Step sizes that are replayed. Ours: the sizes between lie within a factor of 1.5 of both neighbours and take the lower price."""

HELD = 64.0
"""Tokens' worth of eps that a request may run up before its experts are read deeper. Ours: a reply of 640 tokens then stays within 1.1 eps."""
MIN_TILES = 1
"""Tiles that every picked expert is read at least: depth 0 would drop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a plan is to hold."""

    widths: tuple[int, ...]
    tile: int = 64
    share: float = 0.5
    """Bytes that are read, of those of whole reads."""
    eps: float = 1e-3
    """Most predicted damage a token, in nats, on average over the steps of any one size."""
    steps: int = 64
    """Steps of each size that are replayed."""
    most_rows: int = 64
    fisher: str = "diagonal"
    """How the layer's output is weighed: a field of Cost in nats, aligned, diagonal or scalar."""
    seed: int = 0


def planned(  # noqa: PLR0913 - what a plan is made of
    moments: Mapping[int, Moments],
    recording: Recording,
    wanted: Wanted,
    *,
    model: str,
    format_: str,
    checkpoint: Mapping[str, str],
    commit: str,
) -> Plan:
    """Return the plan of all layers. Layers are numbered from 0 in the order of the checkpoint's routed layers."""
    demand(
        recording.header.gradients,
        "recording",
        "without gradients",
        "one with gradients: a plan's damages are in nats",
        "record with gradients, or look at the energy curve alone: sparkctl-vllm probe",
    )
    demand(
        tuple(sorted(moments)) == recording.header.layers,
        "layers",
        sorted(moments),
        str(list(recording.header.layers)),
    )
    tables = _tables(moments, wanted)
    layers, experts = len(moments), len(tables["count.L0"])
    slices = replay.Slices(
        table=np.stack([tables[f"D.L{layer}"] for layer in range(layers)]),
        tiles=tuple(width // wanted.tile for width in wanted.widths),
    )
    routing = recording.routing()
    rare = np.stack([cost(moments[place]).rare for place in sorted(moments)])
    steps = _steps(routing, wanted, experts)
    prices = _prices(steps, slices, wanted, _highest(routing, slices, rare))
    tables["price"] = np.concatenate([replay.table(one, 1, max(one)) for one in prices])
    if len(set(wanted.widths)) == 1:
        tables["ladder"] = _ladders(routing, steps, slices, wanted)
    tables["fisher"] = np.array([moments[layer].fisher.mean() for layer in sorted(moments)], dtype=np.float32)
    common = replace(slices, table=np.where(rare[:, :, None], np.float32(0), slices.table))
    heaviest = np.sort(routing.weights.astype(np.float64) ** 2, axis=2).max(axis=(0, 1))
    meaning = Meaning(
        model=model, checkpoint=checkpoint, experts=experts, layers=layers, widths=wanted.widths, tile=wanted.tile,
        format=format_, applied=False, eps=wanted.eps, h=HELD * wanted.eps,
        d_max=replay.worst_token(common, list(heaviest), MIN_TILES), floor_tiles=max(1, min(slices.tiles) // 3), min_tiles=MIN_TILES,
        corpus=recording.header.text, corpus_tokens=recording.header.tokens, predicted=_predicted(steps, slices, prices), commit=commit,
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def _tables(moments: Mapping[int, Moments], wanted: Wanted) -> dict[str, NDArray[np.generic]]:
    tables: dict[str, NDArray[np.generic]] = {}
    for layer, place in enumerate(sorted(moments)):
        of = cost(moments[place])
        nats = getattr(of, wanted.fisher)
        places = order(nats, wanted.widths)
        tables[f"perm.L{layer}"] = places.astype(np.uint16)
        tables[f"D.L{layer}"] = importance(nats, places, wanted.tile, of.rare)
        tables[f"count.L{layer}"] = moments[place].count.astype(np.uint32)
    return tables


def _steps(routing: Routing, wanted: Wanted, experts: int) -> dict[int, replay.Steps]:
    sizes: Sequence[int] = [size for size in SIZES if size < wanted.most_rows] + [wanted.most_rows]
    return {rows: replay.drawn(routing, experts, rows, wanted.steps, wanted.seed) for rows in sizes}


def _ladders(
    routing: Routing, steps: Mapping[int, replay.Steps], slices: replay.Slices, wanted: Wanted
) -> NDArray[np.uint8]:
    """Return each layer's ladder at every step size, as its price is found; the damages of all slices are added tile by tile."""
    layers, experts, _ = slices.table.shape
    top_k = routing.picks.shape[2]
    table = slices.table.reshape(layers, experts, len(slices.tiles), -1).sum(2)
    found: list[dict[int, tuple[int, ...]]] = [{} for _ in range(layers)]
    for rows, of in steps.items():
        ranks = replay.ranked(routing, experts, rows, wanted.steps, wanted.seed)
        for layer, one in enumerate(found):
            mine = (of[:, layer], ranks[:, layer])
            eps = wanted.eps / layers
            chosen = ladders.best(
                mine, table[layer], top_k=top_k, share=wanted.share, rows=rows, eps=eps, floor=MIN_TILES
            )
            one[rows] = chosen.ladder
    return np.stack([ladders.table(one, wanted.most_rows) for one in found])


def _highest(routing: Routing, slices: replay.Slices, rare: NDArray[np.bool_]) -> float:
    """Return the price below which every tile of a rare expert is read, whatever router weight was recorded."""
    if not rare.any():
        return float("inf")
    lightest = np.float32(squared(routing.weights).min())
    return float(np.nextafter(lightest * np.float32(UNCUT / slices.table.shape[2]), np.float32(0)))


def _prices(
    steps: Mapping[int, replay.Steps], slices: replay.Slices, wanted: Wanted, highest: float
) -> list[dict[int, float]]:
    """Return each layer's price at every step size: it reads its share of the layer, or less where an equal part of eps binds.

    One price over all layers would be best if damages were right between layers; on the mini model those of the first layers are told
    several times too small, and a price a layer lost a third less at the same bytes (docs/calibration.md).
    """
    layers = len(slices.table)
    answer = []
    for layer in range(layers):
        mine = {rows: of[:, layer : layer + 1] for rows, of in steps.items()}
        found = replay.priced(mine, _only(slices, layer), wanted.share, wanted.eps / layers, MIN_TILES)
        answer.append({rows: min(one.price, highest) for rows, one in found.items()})
    return answer


def _predicted(
    steps: Mapping[int, replay.Steps], slices: replay.Slices, prices: Sequence[Mapping[int, float]]
) -> dict[str, Interval]:
    """Return the mean damage a token of each step size with its 95 % interval over replayed steps."""
    answer = {}
    for rows, of in steps.items():
        each = np.zeros(len(of))
        for layer, price in enumerate(prices):
            mine = of[:, layer : layer + 1]
            each += replay.damages(mine, _only(slices, layer), price[rows], rows, MIN_TILES)
        mean, reach = float(each.mean()), 1.96 * float(each.std(ddof=1)) / len(each) ** 0.5
        answer[str(rows)] = Interval(estimate=mean, low=max(0.0, mean - reach), high=mean + reach)
    return answer


def _only(slices: replay.Slices, layer: int) -> replay.Slices:
    return replace(slices, table=slices.table[layer : layer + 1])
