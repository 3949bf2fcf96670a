"""What EXL3 costs the mini model in quality, whole and cut: NLL and KL against the bytes that a step reads, beside MXFP4.

Usage: python benchmarks/mini_moe_exl3.py CHECKPOINT REPLIES.safetensors -o RESULT.json [--held-out FILE.safetensors] [--work FOLDER]
           [--conversations 512] [--bits 3,3.5] [--also 2,2.5,4] [--targets 4.25,3.5,3,2.5,2]

CHECKPOINT is what mini_moe_train.py wrote, REPLIES what mini_moe_measure.py --replies did: half of them calibrate (recording, plan with tiles of 128,
Hessians), the other half judges. --held-out: tokens int32 [windows, positions] of text that was not learnt. The reference is the checkpoint as
it is, its MXFP4 numbers exactly, in float32; EXL3 checkpoints are written by `sparkctl_vllm.exl3.conversion`, read by our decoder and run dense.
Steps have 16 rows; what a step leaves unread is zeroed for it, expert by expert. RESULT.json grows part by part.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import mini_moe_replies as replies  # noqa: E402
import mini_moe_weights as weights  # noqa: E402
from mini_moe import Mini, loaded  # noqa: E402
from mini_moe_cuts import Priced, Reading, company  # noqa: E402
from sparkctl_vllm import plan_file, price  # noqa: E402
from sparkctl_vllm.calibration import checkpoint, planning, recording, replay, survey  # noqa: E402
from sparkctl_vllm.calibration.record import recorded  # noqa: E402
from sparkctl_vllm.exl3 import codebook, encoder, search  # noqa: E402
from sparkctl_vllm.exl3.conversion import Conversion, Wanted  # noqa: E402

ROWS, CHUNK, STEPS = 16, 64, 48
TILES = {"mxfp4": 64, "exl3": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What calibration found: the recording, and a plan a format, each with its own tile."""

    held: recording.Recording
    files: checkpoint.Checkpoint
    plans: Mapping[str, plan_file.Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Weights under a name, and the plan by which they may be cut."""

    name: str
    weights: weights.Weights
    plan: plan_file.Plan | None = None


def main() -> int:
    """Measure and write."""
    asked = options()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = loaded(asked.checkpoint).to(device)
    talks = load_file(str(asked.replies))["tokens"].long().to(device)[: asked.conversations]
    half = len(talks) // 2
    result = Result(asked.path, {"device": _named(device), "calibration": half, "judged": len(talks) - half})
    result.add("search", searched(device, asked.gaussian))
    found = calibrated(model, talks[:half], asked.checkpoint, asked.work, str(device.type))
    result.add("calibrated", {"tokens": found.held.header.tokens})
    first = weights.own(model)
    orders = [found.plans["mxfp4"].tables[f"perm.L{layer}"] for layer in range(len(model.layers))]
    resorted = Served(name="MXFP4, sorted", weights=weights.in_order(first, orders), plan=found.plans["mxfp4"])  # fmt: skip
    served, made = [Served(name="MXFP4", weights=first), resorted], {}
    for bits, by_plan in [*product(asked.bits, (True, False)), *product(asked.also, (True,))]:
        name = f"EXL3 {bits:g}, {'sorted' if by_plan else 'unsorted'}"
        folder = asked.work / name.replace(", ", "-").replace(" ", "-")
        made[name] = quantised(found, bits, folder, by_plan=by_plan)
        plan = found.plans["exl3"] if by_plan else None
        served.append(Served(name=name, weights=weights.decoded(folder, device), plan=plan))
        result.add("quantised", made)
    if asked.held_out:
        text = load_file(str(asked.held_out))["tokens"].long().to(device)
        result.add("NLL of held-out text", nll(model, text, served))
    result.add("KL of replies", judged(model, talks[half:], served, found.held.routing(), asked.targets))
    return 0


def options() -> argparse.Namespace:
    """Read the command line."""

    def several(text: str) -> list[float]:
        return [float(one) for one in text.split(",") if one]

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("replies", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("mini-exl3"))
    parser.add_argument("--conversations", type=int, default=512)
    parser.add_argument("--bits", type=several, default=[3.0, 3.5], help="made sorted and unsorted")
    parser.add_argument("--also", type=several, default=[2.0, 2.5, 4.0], help="made sorted")
    parser.add_argument("--targets", type=several, default=[4.25, 3.5, 3.0, 2.5, 2.0, 1.5], help="bits read")
    parser.add_argument(
        "--gaussian", type=int, default=2048, help="side of the random weight that is searched"
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


def searched(device: torch.device, side: int) -> dict[str, Any]:
    """Code a Gaussian weight without a Hessian at every rate: relative error and weights a second, and that walks are as cheap as those of torch."""
    torch.manual_seed(0)
    weight, answer = torch.randn(1, side, side, device=device), {}
    few = torch.randn(4, 256)
    for bits in (2, 3, 4):
        table = codebook.table("mul1").float()
        costs = [
            (table[walk] - few).square().sum(1)
            for walk in (search.plain(few, bits), search.walks(few.to(device), bits).cpu())
        ]
        tiles = torch.randn(side * side // 256, 256, device=device)
        search.walks(tiles, bits)
        _wait(device)
        begin = time.monotonic()
        search.walks(tiles, bits)
        _wait(device)
        taken = time.monotonic() - begin
        one = encoder.together(weight, bits, [0])[0]
        answer[str(bits)] = {
            "error": one.error,
            "weights_per_s": tiles.numel() / taken,
            "cost_over_torch": float((costs[1] / costs[0]).max()),
        }
    return answer


def calibrated(model: Mini, talks: torch.Tensor, folder: Path, work: Path, device: str) -> Calibrated:
    """Record, survey and plan, once for each format's tile."""
    held = recorded(model, model, list(talks.split(32)), work / "recording", prompt=replies.PROMPT)
    files = checkpoint.opened(folder, device)
    moments = dict(survey.surveyed(files, held, files.layers, work / "survey"))
    _, neurons, _ = files.shape(files.layers[0])
    plans = {}
    for name, tile in TILES.items():
        wanted = planning.Wanted(widths=(neurons,), tile=tile, most_rows=ROWS, steps=8)
        plan = planning.planned(
            moments, held, wanted, model=files.model, format_=files.format, checkpoint=files.hashes(), commit="benchmark",
        )  # fmt: skip
        plan_file.write(plan, work / f"plan-{tile}")
        plans[name] = plan_file.read(work / f"plan-{tile}", files.hashes())
    return Calibrated(held=held, files=files, plans=plans)


def quantised(found: Calibrated, bits: float, folder: Path, *, by_plan: bool) -> dict[str, Any]:
    """Write an EXL3 checkpoint and return its report with the time it took."""
    begin = time.monotonic()
    wanted = Wanted(bits=bits, rates=(int(bits),) if bits == int(bits) else (2, 3, 4), together=64)
    plan = found.plans["exl3"] if by_plan else None
    report = Conversion(checkpoint=found.files, recording=found.held, plan=plan, wanted=wanted, out=folder, tell=print).run()  # fmt: skip
    return {"seconds": time.monotonic() - begin, **report}


def nll(model: Mini, text: torch.Tensor, served: Sequence[Served]) -> dict[str, Any]:
    """Return the NLL a token of each, and by how much it exceeds that of the first, paired by window, with 95 % intervals."""
    each = {}
    for one in served:
        one.weights.into(model)
        with torch.no_grad():
            parts = [model(part[:, :-1]).float().log_softmax(-1).gather(2, part[:, 1:, None])[..., 0] for part in text.split(CHUNK)]  # fmt: skip
        each[one.name] = -torch.cat(parts).double().mean(1).cpu().numpy()
    first = each[served[0].name]
    return {name: {"nll": _interval(of), "more": _interval(of - first)} for name, of in each.items()}


def judged(
    model: Mini,
    talks: torch.Tensor,
    served: Sequence[Served],
    routing: recording.Routing,
    targets: Sequence[float],
) -> dict[str, Any]:
    """Return KL a reply token against the first, of each read whole and cut to so many bits of a weight read, with the bits that were."""
    steps = replay.drawn(routing, model.shape.n_routed_experts, ROWS, STEPS, seed=1)
    served[0].weights.into(model)
    whole = [_logs(model, part, None) for part in talks.split(CHUNK)]
    answer = {}
    for one in served:
        one.weights.into(model)
        held = float(np.mean(one.weights.bits))
        answer[one.name] = {"bits": held, "held": held, "kl": _divergence(model, talks, whole, None)[0]}
        for target in targets:
            if one.plan is not None and target < 0.99 * held:
                depth = _depth(one.plan, target / held, steps, talks.device)
                kl, read = _divergence(model, talks, whole, (one.plan, depth))
                name = f"{one.name}, cut to {target:.3g}"
                answer[name] = {"bits": held * read, "held": held, "kl": kl}
    return answer


def _divergence(
    model: Mini,
    talks: torch.Tensor,
    whole: Sequence[torch.Tensor],
    cut: tuple[plan_file.Plan, Priced] | None,
) -> tuple[dict[str, float], float]:
    """Return the KL against `whole` and the share of the bytes that was read."""
    kl, read = [], []
    for number, (part, before) in enumerate(zip(talks.split(CHUNK), whole, strict=True)):
        reading = None
        if cut is not None:
            (plan, depth), together = cut, company(len(part), ROWS, number, talks.device)
            tiles = sum(plan.meaning.widths) // plan.meaning.tile
            reading = Reading(company=together, experts=plan.meaning.experts, tile=plan.meaning.tile, tiles=tiles, depth=depth)  # fmt: skip
        kl.append(replies.divergence(before, _logs(model, part, reading)).double().mean(1).cpu())
        read.append(1.0 if reading is None else reading.share)
    return _interval(torch.cat(kl).numpy()), float(np.mean(read))


def _depth(plan: plan_file.Plan, share: float, steps: np.ndarray, device: torch.device) -> Priced:
    """Return the depth at which every layer reads this share of itself, by a price of its own."""
    table = np.stack([plan.importance(layer, 0) for layer in range(steps.shape[1])])
    tiles = table.shape[2]
    budgets = [float((steps[:, layer] > 0).sum(1).mean()) * tiles * share for layer in range(len(table))]
    prices = tuple(price.fixed(list(steps[:, layer]), table[layer], budgets[layer]) for layer in range(len(table)))  # fmt: skip
    return Priced(importance=torch.from_numpy(table).to(device), prices=prices)


def _logs(model: Mini, talks: torch.Tensor, cut: Reading | None) -> torch.Tensor:
    model.cut_by(cut)
    with torch.no_grad():
        logs = model(talks)[:, replies.PROMPT :].float().log_softmax(-1)
    model.cut_by(None)
    return logs


def _interval(each: np.ndarray) -> dict[str, float]:
    """Return the mean with its 95 % interval by bootstrap over conversations or windows."""
    chance = np.random.default_rng(0)
    means = [float(each[chance.integers(len(each), size=len(each))].mean()) for _ in range(1000)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"estimate": float(each.mean()), "low": float(low), "high": float(high)}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _named(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    sys.exit(main())
