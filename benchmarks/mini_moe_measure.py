"""What budget reads cost in quality, measured on the mini model: KL against bytes, predicted against measured, and what the method takes for granted.

Usage: python benchmarks/mini_moe_measure.py CHECKPOINT TOKENS.xz -o RESULT.json [--conversations 256] [--sizes 16,64,4,1] [--work FOLDER]
           [--replies FILE] [--judged 256]

CHECKPOINT is what mini_moe_train.py wrote; TOKENS.xz the text it learnt, whose held-out part gives the prompts. Half of the conversations are
for calibration (recorded, surveyed and priced by sparkctl_vllm.calibration), the other half for judging. All of it in float32 on the MXFP4
weights, so that a KL is that of the cut; only the restart floor is measured in bf16, on a GPU. RESULT.json grows part by part.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import mini_moe_claims as claims  # noqa: E402
import mini_moe_replies as replies  # noqa: E402
import mini_moe_restart  # noqa: E402
import mini_moe_text  # noqa: E402
from mini_moe import Mini, loaded  # noqa: E402
from mini_moe_cuts import Oracle, Priced, Uniform  # noqa: E402
from mini_moe_judge import CHUNK, Policy, judge  # noqa: E402
from sparkctl_vllm import price  # noqa: E402
from sparkctl_vllm.calibration import checkpoint, curve, recording, replay, survey  # noqa: E402
from sparkctl_vllm.calibration.cost import Cost, cost  # noqa: E402
from sparkctl_vllm.calibration.moments import Moments  # noqa: E402
from sparkctl_vllm.calibration.order import importance, order  # noqa: E402
from sparkctl_vllm.calibration.record import recorded  # noqa: E402

TILE, NO_CAP = 64, 1e9
KINDS = ("aligned", "diagonal", "scalar")
FEW = 4
"""Rows below which a step has too few experts for the oracle's choice to differ, and there are too many steps to search each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What calibration found: moments and costs by layer, and the recorded routing."""

    moments: Mapping[int, Moments]
    costs: Mapping[int, Cost]
    routing: recording.Routing

    def places(self, kind: str, group: int = 1) -> list[np.ndarray]:
        """Return the order of every layer's neurons by a kind of cost: energy, scalar or diagonal; natural for group 0."""
        costs = [getattr(self.costs[layer], kind) for layer in sorted(self.costs)]
        if group:
            return [order(one, (one.shape[1],), group) for one in costs]
        return [np.broadcast_to(np.arange(one.shape[1]), one.shape).copy() for one in costs]

    def table(self, kind: str, places: list[np.ndarray]) -> np.ndarray:
        """Return importances [layers, experts, tiles] by a kind of cost, for an order."""
        costs = [getattr(self.costs[layer], kind) for layer in sorted(self.costs)]
        return np.stack([importance(one, place, TILE) for one, place in zip(costs, places, strict=True)])


def main() -> int:
    """Measure and write."""
    asked = options()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = loaded(asked.checkpoint).to(device)
    config = json.loads((asked.checkpoint / "config.json").read_text(encoding="utf-8"))
    talks = _conversations(model, asked)
    result = Result(asked.path, {"device": str(device), "conversations": len(talks), "model": config})
    half = len(talks) // 2
    found = calibrated(model, talks[:half], asked)
    judged = talks[half : half + asked.judged]
    gains = fitted(model, talks[: min(half, asked.judged, CHUNK)], found)
    parts: dict[str, Callable[[], Any]] = {
        "curves": lambda: _curves(found),
        "calibration": lambda: claims.calibration(found.moments, found.costs),
        "gains": lambda: gains,
        "restart floor": lambda: mini_moe_restart.restart_floor(model, judged[:128]),
        **{f"rows {rows}": partial(of_size, model, judged, found, rows) for rows in asked.sizes},
        "assumptions": lambda: claims.assumptions(model, judged[:CHUNK], found),
        "sorts": lambda: of_orders(model, judged, found, asked.sizes[0], gains),
        "rare experts": lambda: claims.shrinkage(asked.work / "recording", asked.checkpoint),
    }
    for name, part in parts.items():
        if name in asked.parts if asked.parts else name != "restart floor" or device.type == "cuda":
            result.add(name, part())
    return 0


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("mini-calibration"))
    parser.add_argument(
        "--replies",
        type=Path,
        help="conversations: read if the file is there (the text then is not), else written",
    )
    parser.add_argument("--conversations", type=int, default=512)
    parser.add_argument("--judged", type=int, default=256)
    parser.add_argument(
        "--sizes", type=lambda text: [int(one) for one in text.split(",")], default=[16, 64, 4, 1]
    )
    parser.add_argument(
        "--parts", type=lambda text: text.split(","), help="only these, as 'rows 16,sorts'; all by default"
    )
    return parser.parse_args()


class Result:
    """The result on disk, written anew with every part, so that a run that is cut short has what it measured."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path, self.parts, self.begin = path, head, time.monotonic()

    def add(self, name: str, part: Any) -> None:
        """Add a part and write."""
        self.parts[name] = part
        self.path.write_text(json.dumps(self.parts, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {time.monotonic() - self.begin:.0f} s", flush=True)


def calibrated(model: Mini, talks: torch.Tensor, asked: argparse.Namespace) -> Calibrated:
    """Record, survey and cost, as an owner would."""
    held = recorded(model, model, list(talks.split(32)), asked.work / "recording", prompt=replies.PROMPT)
    files = checkpoint.opened(asked.checkpoint, model.embed.device.type)
    moments = dict(survey.surveyed(files, held, files.layers, asked.work / "survey"))
    return Calibrated(
        moments=moments, costs={layer: cost(one) for layer, one in moments.items()}, routing=held.routing()
    )


def fitted(model: Mini, talks: torch.Tensor, found: Calibrated) -> list[float]:
    """Fit one factor a layer to what a cut of this layer alone costs, on conversations of the calibration."""
    best = found.places("aligned")
    claims.permute(model, best)
    gains = claims.gains(model, talks, found.table("aligned", best))
    claims.permute(model, None)
    return gains


def of_size(model: Mini, talks: torch.Tensor, found: Calibrated, rows: int) -> dict[str, Any]:
    """Judge every policy at one step size, sorted by what weighs each neuron along what it writes: bytes, KL, what was predicted."""
    best = found.places("aligned")
    tables = {kind: found.table(kind, best) for kind in KINDS}
    claims.permute(model, best)
    answer = judge(model, talks, rows, _policies(found, tables["aligned"], rows), tables)
    claims.permute(model, None)
    return answer


def of_orders(
    model: Mini, talks: torch.Tensor, found: Calibrated, rows: int, gains: list[float]
) -> dict[str, Any]:
    """Judge other sorts and other weights at one step size: coarser Fisher information, factors fitted a layer, coarser groups."""
    best = found.places("aligned")
    scaled = found.table("aligned", best) * np.array(gains, dtype=np.float32)[:, None, None]
    claims.permute(model, best)
    answer = judge(model, talks, rows, _named(_filled(found, scaled, rows), "fitted"), {"fitted": scaled})
    groups = {"diagonal": 1, "scalar": 1, "as shipped": 0, "groups of 32": 32, "blocks of 128": 128}
    for name, group in groups.items():
        kind = name if name in KINDS else "energy"
        places = found.places(kind, group)
        claims.permute(model, places)
        told = {one: found.table(one, places) for one in KINDS}
        tiles = told["aligned"].shape[2]
        cuts = [Policy(name=f"uniform {k}/{tiles}", depth=Uniform(tiles=k)) for k in range(1, tiles)]
        cuts = _filled(found, told[name], rows) if name in KINDS else cuts
        answer |= judge(model, talks, rows, _named(cuts, name), told)
    claims.permute(model, None)
    return answer


def _named(policies: list[Policy], sort: str) -> list[Policy]:
    return [replace(one, name=f"{one.name}, {sort}") for one in policies]


def _policies(found: Calibrated, table: np.ndarray, rows: int) -> list[Policy]:
    tiles, top_k = table.shape[2], found.routing.picks.shape[2]
    uniform = [Policy(name=f"uniform {k}/{tiles}", depth=Uniform(tiles=k)) for k in range(1, tiles)]
    fewer = [
        Policy(name=f"fewer experts {k}/{top_k}", depth=Uniform(tiles=tiles), picks=k)
        for k in range(1, top_k)
    ]
    return [*uniform, *_filled(found, table, rows), *_by_layer(found, table, rows), *fewer]


def _filled(found: Calibrated, table: np.ndarray, rows: int) -> list[Policy]:
    """Return water-filled reads at the bytes of every uniform depth, at one price for all layers."""
    layers, experts, tiles = table.shape
    steps = {rows: replay.drawn(found.routing, experts, rows, 128, seed=1)}
    slices = replay.Slices(table=table, tiles=(tiles,))
    on = torch.from_numpy(table).to("cuda" if torch.cuda.is_available() else "cpu")
    prices = {k: replay.priced(steps, slices, k / tiles, NO_CAP, 1)[rows].price for k in range(1, tiles)}
    return [
        Policy(name=f"water-filled {k}/{tiles}", depth=Priced(importance=on, prices=(one,) * layers))
        for k, one in prices.items()
    ]


def _by_layer(found: Calibrated, table: np.ndarray, rows: int) -> list[Policy]:
    """Return half the bytes of every layer for itself: at a price a layer, and as the oracle would read in every step."""
    layers, experts, tiles = table.shape
    steps = replay.drawn(found.routing, experts, rows, 128, seed=1)
    on = torch.from_numpy(table).to("cuda" if torch.cuda.is_available() else "cpu")
    half = [float((steps[:, layer] > 0).sum(1).mean()) * tiles / 2 for layer in range(layers)]
    each = tuple(price.fixed(list(steps[:, layer]), table[layer], half[layer]) for layer in range(layers))
    made = [Policy(name="half of each layer, priced", depth=Priced(importance=on, prices=each))]
    if rows >= FEW:
        best = Oracle(importance=on, budgets=tuple(round(one) for one in half))
        made.append(Policy(name="half of each layer, oracle", depth=best))
    return made


def _curves(found: Calibrated) -> dict[str, Any]:
    answer = {}
    for layer, one in found.costs.items():
        neurons = one.energy.shape[1]
        drawn = curve.curve(one.energy, found.moments[layer].count, (neurons,), TILE)
        answer[f"layer {layer}"] = {"read": drawn.read, **drawn.kept}
    return answer


def _conversations(model: Mini, asked: argparse.Namespace) -> torch.Tensor:
    device = model.embed.device
    if asked.replies and asked.replies.is_file():
        return load_file(str(asked.replies))["tokens"].long().to(device)
    corpus, tokens = mini_moe_text.read(asked.text)
    held = torch.from_numpy(tokens[-corpus.held_out :].astype(np.int32)).to(device)
    model.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    talks = replies.written(model, held, asked.conversations, 128, seed=3)
    model.dtype = torch.float32
    if asked.replies:
        save_file({"tokens": talks.int().cpu()}, str(asked.replies))
    return talks


if __name__ == "__main__":
    sys.exit(main())
