"""What the method takes for granted, held against the mini model: skew, cross terms, additivity, requantisation, rare experts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mini_moe_replies as replies
from mini_moe import Mini, rounded
from mini_moe_cuts import Reading, Uniform, company
from mini_moe_judge import predictions
from sparkctl_vllm.calibration import checkpoint, recording
from sparkctl_vllm.calibration.cost import Cost, shrunk
from sparkctl_vllm.calibration.moments import Moments, measured
from sparkctl_vllm.calibration.order import importance, order
from sparkctl_vllm.calibration.recording import Routed
from sparkctl_vllm.calibration.taps import tapped
from sparkctl_vllm.experts import TILE

PRIORS = (0.0, 4.0, 16.0, 64.0, 256.0)


def permute(model: Mini, places: Sequence[np.ndarray] | None) -> None:
    """Put every layer's neurons into this order of their original places, or back where they were."""
    for layer in model.layers:
        experts = layer.experts
        if not hasattr(experts, "original"):
            experts.original = {part: getattr(experts, part).data.clone() for part in ("w1", "w2", "w3")}
        for part, weight in experts.original.items():
            moved = weight
            if places is not None:
                index = torch.from_numpy(places[experts.layer]).to(weight.device)
                moved = torch.take_along_dim(
                    weight, index[:, None] if part == "w2" else index[..., None], dim=2 if part == "w2" else 1
                )
            getattr(experts, part).data.copy_(moved)


def calibration(moments: Mapping[int, Moments], costs: Mapping[int, Cost]) -> dict[str, Any]:
    """Tell each layer's skew, how router weight and activation go together, and its Fisher information."""
    answer = {}
    for layer, one in moments.items():
        energy = np.sort(costs[layer].energy, axis=1)[:, ::-1]
        share = np.cumsum(energy.mean(0)) / energy.mean(0).sum()
        logs = np.log(np.maximum(costs[layer].energy, 1e-30))
        mean = one.square / np.maximum(one.count, 1)[:, None]
        apart = (one.load[:, None] * mean * one.norm).sum()
        answer[f"layer {layer}"] = {
            "energy in the top 10 / 25 / 50 % of neurons": [
                float(share[int(len(share) * part) - 1]) for part in (0.1, 0.25, 0.5)
            ],
            "sigma of log drop cost inside experts": float(logs.std(axis=1).mean()),
            "energy of experts, largest over mean": float(energy.sum(1).max() / energy.sum(1).mean()),
            "picks, fewest / most over mean": [
                float(one.count.min() / one.count.mean()),
                float(one.count.max() / one.count.mean()),
            ],
            "E[r2 h2] over E[r2] E[h2]": float((one.weighted * one.norm).sum() / apart),
            "fisher, mean over channels": float(one.fisher.mean()),
            "fisher, largest channel over mean": float(one.fisher.max() / one.fisher.mean()),
            "diagonal over scalar, sum": float(costs[layer].diagonal.sum() / costs[layer].scalar.sum()),
            "aligned over scalar, sum": float(costs[layer].aligned.sum() / costs[layer].scalar.sum()),
        }
    return answer


def gains(model: Mini, talks: torch.Tensor, table: np.ndarray) -> list[float]:
    """Fit one number a layer: the measured KL over the predicted one where this layer alone is read to half its depth.

    The model's neurons lie in the order of the table. Give conversations that calibration may see.
    """
    tiles = model.shape.moe_intermediate_size // TILE
    whole = predictions(model, talks, None)
    found = []
    for layer in range(len(model.layers)):
        kl, told = _judged(model, talks, whole, _OneLayer(layer, tiles // 2, tiles), table)
        found.append(kl / told)
    return found


def assumptions(model: Mini, talks: torch.Tensor, found: Any) -> dict[str, Any]:
    """Measure cross terms, fresh against calibrated energy, additivity over layers, and what a new quantisation of w2 costs."""
    best = found.places("aligned")
    permute(model, best)
    with tapped(model) as caught:
        whole = predictions(model, talks, None)
    decoded = (torch.arange(talks.shape[1]) >= replies.PROMPT).repeat(len(talks))
    answer: dict[str, Any] = {
        "cross terms": {},
        "additivity": _additivity(model, talks, whole, found.table("aligned", best)),
    }
    for layer in model.layers:
        place = layer.experts.layer
        routed = caught.routed[place]
        routed = Routed(x=routed.x[decoded], picks=routed.picks[decoded], weights=routed.weights[decoded])
        fisher = torch.from_numpy(found.moments[place].fisher).to(talks.device)
        calibrated = np.take_along_axis(found.costs[place].energy, best[place], axis=1)
        answer["cross terms"][f"layer {place}"] = _cross(layer.experts, routed, fisher, calibrated)
    answer["measured over predicted with the picks of the whole model"] = _same_picks(
        model, talks, whole, caught, found.table("aligned", best)
    )
    answer["requantisation"] = _requantised(model, talks, whole, best)
    permute(model, None)
    return answer


def shrinkage(folder: Path, files: Path) -> dict[str, Any]:
    """Sort and cost one layer from few tokens, with priors of several weights, and judge by all tokens that were recorded."""
    held, opened = recording.opened(folder), checkpoint.opened(files)
    layer = opened.layers[len(opened.layers) // 2]
    routed = held.routed(layer)
    truth = measured(opened, layer, routed)
    exact = shrunk(truth, 0.0) * truth.norm if truth.count.min() > 0 else shrunk(truth) * truth.norm
    answer: dict[str, Any] = {"layer": layer}
    for tokens in (64, 256, 1024, 4096):
        if tokens * 2 > len(routed.x):
            break
        few = torch.linspace(0, len(routed.x) - 1, tokens).long()
        part = Routed(x=routed.x[few], picks=routed.picks[few], weights=routed.weights[few])
        seen = measured(opened, layer, part)
        answer[f"{tokens} tokens"] = {
            "picks of an expert, mean": float(seen.count.mean()),
            **{f"prior {prior:g}": _few(seen, exact, truth.count, prior) for prior in PRIORS},
        }
    return answer


def _cross(experts: Any, routed: Routed, fisher: torch.Tensor, calibrated: np.ndarray) -> dict[str, Any]:
    count, neurons = experts.w1.shape[:2]
    depths = range(TILE, neurons, TILE)
    names = ("together", "apart", "together, fisher", "apart, fisher", "calibrated", "constant")
    sums = {name: np.zeros(len(depths)) for name in names}
    for expert in range(count):
        mine = (routed.picks == expert).any(1)
        x = routed.x[mine].to(experts.w1.device).float()
        h = experts._hidden(x, _only(count, expert, len(x), x.device)).detach().double()  # noqa: SLF001 - the definition
        down = experts.w2[expert].detach().double()
        for place, depth in enumerate(depths):
            out = h[:, depth:] @ down[:, depth:].T
            each = h[:, depth:].square().sum(0)
            sums["together"][place] += float(out.square().sum())
            sums["constant"][place] += float(out.mean(0).square().sum()) * len(x) if len(x) else 0.0
            sums["apart"][place] += float(each @ down[:, depth:].square().sum(0))
            sums["together, fisher"][place] += float((out.square() @ fisher).sum())
            sums["apart, fisher"][place] += float(each @ (down[:, depth:].square().T @ fisher))
            sums["calibrated"][place] += len(x) * calibrated[expert, depth:].sum()
    return {
        "depths": [depth // TILE for depth in depths],
        "together over apart": list(sums["together"] / sums["apart"]),
        "likewise in fisher": list(sums["together, fisher"] / sums["apart, fisher"]),
        "of it constant": list(sums["constant"] / sums["together"]),
        "fresh over calibrated": list(sums["apart"] / sums["calibrated"]),
    }


def _only(count: int, expert: int, rows: int, device: torch.device) -> torch.Tensor:
    ends = torch.zeros(count, dtype=torch.int64, device=device)
    ends[expert:] = rows
    return ends


class _OneLayer:
    """A depth for one layer, whole reads of the others."""

    def __init__(self, layer: int | None, tiles: int, whole: int) -> None:
        self.layer, self.tiles, self.whole = layer, tiles, whole

    def __call__(self, layer: int, loads: torch.Tensor) -> torch.Tensor:
        """Return the depth of the layer."""
        cut = self.layer is None or layer == self.layer
        return Uniform(tiles=self.tiles if cut else self.whole)(layer, loads)


def _additivity(model: Mini, talks: torch.Tensor, whole: torch.Tensor, table: np.ndarray) -> dict[str, Any]:
    tiles = model.shape.moe_intermediate_size // TILE
    answer = {}
    for depth in range(tiles // 2, tiles):
        alone = [
            _judged(model, talks, whole, _OneLayer(layer, depth, tiles), table)
            for layer in range(len(model.layers))
        ]
        everywhere, predicted = _judged(model, talks, whole, _OneLayer(None, depth, tiles), table)
        answer[f"uniform {depth}/{tiles}"] = {
            "layers alone": [kl for kl, _ in alone],
            "measured over predicted, layers alone": [kl / told for kl, told in alone],
            "all at once": everywhere,
            "measured over predicted, all at once": everywhere / predicted,
            "all at once over the sum of layers alone": everywhere / sum(kl for kl, _ in alone),
            **{
                f"measured over predicted, one token in {apart}": _ratio(
                    *_judged(model, talks, whole, _OneLayer(None, depth, tiles), table, apart)
                )
                for apart in (16,)
            },
        }
    return answer


def _ratio(measured_: float, predicted: float) -> float:
    return measured_ / predicted


def _same_picks(
    model: Mini, talks: torch.Tensor, whole: torch.Tensor, caught: Any, table: np.ndarray
) -> dict[str, float]:
    """Tell measured over predicted where every router picks as if nothing had been cut: no gradient sees a pick change."""
    tiles = model.shape.moe_intermediate_size // TILE
    for layer in model.layers:
        layer.forced = caught.routed[layer.experts.layer].picks.long().to(talks.device)
    answer = {
        f"uniform {depth}/{tiles}": _ratio(
            *_judged(model, talks, whole, _OneLayer(None, depth, tiles), table)
        )
        for depth in range(1, tiles)
    }
    for layer in model.layers:
        layer.forced = None
    return answer


def _requantised(
    model: Mini, talks: torch.Tensor, whole: torch.Tensor, best: Sequence[np.ndarray]
) -> dict[str, Any]:
    tiles = model.shape.moe_intermediate_size // TILE
    cut = _kl_of(model, talks, whole, _OneLayer(None, tiles // 2, tiles))
    off = size = 0.0
    for layer in model.layers:
        kept = layer.experts.w2.data.clone()
        layer.experts.w2.data.copy_(rounded(kept))
        off += float((layer.experts.w2.data - kept).double().square().sum())
        size += float(kept.double().square().sum())
    answer = {
        "relative error of w2": (off / size) ** 0.5,
        "kl at full depth": _kl_of(model, talks, whole, _OneLayer(None, tiles, tiles)),
        f"kl at {tiles // 2}/{tiles}, uniform": _kl_of(
            model, talks, whole, _OneLayer(None, tiles // 2, tiles)
        ),
        f"kl at {tiles // 2}/{tiles} without it": cut,
    }
    permute(model, best)
    return answer


def _kl_of(model: Mini, talks: torch.Tensor, whole: torch.Tensor, depth: Any) -> float:
    return _judged(model, talks, whole, depth, None)[0]


def _judged(  # noqa: PLR0913, PLR0917 - what is read, how, and what is predicted of it
    model: Mini,
    talks: torch.Tensor,
    whole: torch.Tensor,
    depth: Any,
    table: np.ndarray | None,
    apart: int = 1,
) -> tuple[float, float]:
    """Return the KL of a token and what the importances predict of it (0 without them)."""
    shape = model.shape
    told = () if table is None else (torch.from_numpy(table).to(talks.device),)
    reading = Reading(
        company=company(len(talks), 16, 0, talks.device, apart), experts=shape.n_routed_experts,
        tiles=shape.moe_intermediate_size // TILE, depth=depth, predicting=told,
    )  # fmt: skip
    after = predictions(model, talks, reading)
    damage = float(reading.damage[0].view(len(talks), -1)[:, replies.PROMPT :].mean()) if told else 0.0
    return float(replies.divergence(whole, after).double().mean()), damage


def _few(seen: Moments, exact: np.ndarray, count: np.ndarray, prior: float) -> dict[str, float]:
    squares = shrunk(replace(seen), prior) if prior else seen.square / np.maximum(seen.count, 1)[:, None]
    guess = squares * seen.norm
    places = order(guess, (guess.shape[1],))
    mine, best = (importance(exact, one, 1) for one in (places, order(exact, (guess.shape[1],))))
    half = guess.shape[1] // 2
    off = np.abs(importance(guess, places, TILE) - importance(exact, places, TILE)).sum(1)
    return {
        "energy kept at half": float((count @ mine[:, :half].sum(1)) / (count @ mine.sum(1))),
        "at best": float((count @ best[:, :half].sum(1)) / (count @ best.sum(1))),
        "error of importances": float((count @ off) / (count @ exact.sum(1))),
    }
