"""Policies of depth at equal bytes on the mini model: what each costs in KL, in the worst reply, and in replies that collapse, with and without the alarm.

Usage: python benchmarks/mini_moe_policies.py CHECKPOINT PROMPTS -o RAW.json --plans FOLDER [--rows 16] [--replies 2048] [--healthy 4096]
           [--temperatures 1.0,0.7,0.0] [--seconds 100] [--after RAW.json] [--kept FOLDER]

PROMPTS is TOKENS.xz of mini_moe_text.py, its words beside it. FOLDER holds mini-90, mini-75, mini-60 and
mini-50, written by `sparkctl-vllm plan --share 0.9 ... --eps 50` (so that the bytes bind, not eps). Every reply is written by decoding in
steps of so many rows, in bf16 on a GPU. For each temperature the whole model writes 4,096 replies by which collapse and alarm are set, and as
many of other prompts on which both are checked; then each policy writes its own. A reply that raises the alarm is continued
with whole reads from that token on, as the proxy does it where nothing is held back. RAW.json grows part by part and ends in time: `--after` goes on where an earlier run
ended, by its limits and thresholds. `--kept` saves tokens and log-probabilities of replies, for mini_moe_alarms.py. `--talks FILE` (`--replies` of mini_moe_measure.py) tells no more than the KL along the last `--rows` of those
conversations, one forward a policy in float32: what a CPU can do. mini_moe_policies_report.py makes the result of it.
"""

import argparse
import json
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "vllm_plugin")]

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import mini_moe_claims as claims  # noqa: E402
import mini_moe_collapse as collapse  # noqa: E402
import mini_moe_restart  # noqa: E402
import mini_moe_steps as steps  # noqa: E402
import mini_moe_text  # noqa: E402
from mini_moe import Mini, loaded  # noqa: E402
from mini_moe_judge import predictions  # noqa: E402
from mini_moe_replies import PROMPT, divergence  # noqa: E402
from mini_moe_shares import SHARES, Named, policies, read_plans  # noqa: E402
from proxy import calibration  # noqa: E402

SHOWN = 256
"""Replies of a policy that are kept: so many that collapsed and so many that did not."""
SIZES = (1, 64)
"""Step sizes that KL alone is told of, beside the one that all is told of."""
FEW = (100, 75, 50)
"""Shares at temperatures other than 1, in their order: there is no time for all."""
FIRST = 512
"""Replies whose KL is told: all log-probabilities of each are kept while it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every run shares."""

    model: Mini
    held: torch.Tensor
    pool: Executor
    asked: argparse.Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """What the whole model's own replies set at a temperature: limits of collapse, and the threshold of the alarm."""

    temperature: float
    limits: collapse.Limits
    threshold: float


def main() -> int:
    """Write, judge, save."""
    asked = options()
    words = json.loads(asked.text.with_suffix(".words.json").read_text(encoding="utf-8"))
    pool = ProcessPoolExecutor(
        asked.workers, mp_context=get_context("fork"), initializer=collapse.speak, initargs=(words,)
    )
    list(pool.map(int, range(asked.workers)))  # forked before the GPU is touched
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.enable_cudnn_sdp(
        enabled=False
    )  # it plans anew for every length, and each token has another
    begin = time.monotonic()
    plans = read_plans(asked.checkpoint, asked.plans)
    model = loaded(asked.checkpoint).to(device)
    places = [
        plans[SHARES[0]].tables[f"perm.L{layer}"].astype(np.int64) for layer in range(len(model.layers))
    ]
    claims.permute(model, places)
    if device.type == "cuda" and not asked.talks:
        model.in_bfloat16()
    ground = Ground(model=model, held=_held(asked.text, device), pool=pool, asked=asked)
    earlier = json.loads(asked.after.read_text(encoding="utf-8"))["parts"] if asked.after else []
    result: dict[str, Any] = {"asked": _told(asked), "parts": earlier}
    known = {one["part"] for one in earlier}
    sets = {one["temperature"]: _set(one) for one in earlier if "limits" in one}
    for name, part in _parts(ground, policies(plans, device), sets):
        if name in known:
            continue
        spent = time.monotonic() - begin
        if spent > asked.seconds:
            print(f"{spent:.0f} s: stopped before {name}", flush=True)
            break
        result["parts"].append({"part": name, "device": _device(device), **part()})
        result["seconds"] = round(time.monotonic() - begin, 1)
        asked.path.write_text(json.dumps(result) + "\n", encoding="utf-8")
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    pool.shutdown()
    return 0


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--replies", type=int, default=2048)
    parser.add_argument("--healthy", type=int, default=4096)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument(
        "--temperatures", type=lambda text: [float(one) for one in text.split(",")], default=[1.0, 0.7, 0.0]
    )
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--talks", type=Path, help="conversations of the whole model; only KL along them")
    parser.add_argument("--kept", type=Path, help="folder for tokens and log-probabilities")
    parser.add_argument("--after", type=Path, help="RAW.json of an earlier run")
    return parser.parse_args()


def _parts(ground: Ground, known: list[Named], sets: dict[float, Set]) -> Any:
    """Give name and work of each part, the most telling first."""
    if ground.asked.talks:
        talks = load_file(str(ground.asked.talks))["tokens"][-ground.asked.rows :].long()
        talks = talks.to(ground.held.device)
        whole = predictions(ground.model, talks, None)
        for one in known[1:]:
            yield f"{one.name} {one.share} along given replies", lambda p=one: along(ground, p, talks, whole)
        return
    for temperature in ground.asked.temperatures:
        yield f"healthy at {temperature:g}", lambda t=temperature: healthy(ground, t, sets)
        if temperature == 1 and ground.held.device.type == "cuda":
            yield "restart floor", lambda: restart(ground)
        few = known if temperature == 1 else [one for share in FEW for one in known if one.share == share]
        for one in few:
            yield (
                f"{one.name} {one.share} at {temperature:g}",
                lambda t=temperature, p=one: told(ground, p, sets[t]),
            )
    if 1 in ground.asked.temperatures:
        for rows, one in product(SIZES, (one for one in known if one.share in {75, 100})):
            yield f"{one.name} {one.share}, {rows} rows", lambda r=rows, p=one: of_size(ground, p, r)


def healthy(ground: Ground, temperature: float, sets: dict[float, Set]) -> dict[str, Any]:
    """Let the whole model write, set limits and threshold, and check both on other prompts."""
    asked, answer = ground.asked, {}
    for kind, seed in (("calibration", 11), ("held out", 12)):
        chance = torch.Generator(ground.held.device).manual_seed(seed)
        begun = steps.prompts(ground.held, asked.healthy, seed)
        one = steps.written(ground.model, begun, cut=None, temperature=temperature, chance=chance)
        losses, _ = steps.judged(ground.model, one)
        replies = one.talks[:, PROMPT:]
        shape = collapse.shape(losses, replies)
        if kind == "calibration":
            marks = collapse.watched(ground.pool, replies, one.logprobs, float("-inf"))
            depths = sorted(depth for _, why, depth in marks if why != "loop")
            found = calibration.calibrate(
                "mini", {temperature: depths}, {temperature: len(marks) - len(depths)}
            )
            sets[temperature] = Set(
                temperature=temperature, limits=collapse.limits(shape), threshold=found.at(temperature)
            )
            answer["row"] = [asdict(one) for one in found.thresholds]
        else:
            marks = collapse.watched(ground.pool, replies, one.logprobs, sets[temperature].threshold)
        collapsed = shape.collapsed(sets[temperature].limits)
        answer[kind] = {"replies": len(marks), "collapsed": int(collapsed.sum()), **_alarms(marks, collapsed)}
        answer[kind]["loss"] = float(losses.mean())
        keep(
            asked.kept,
            f"healthy-{temperature:g}-{kind}",
            one,
            losses=losses,
            shown=np.arange(len(marks)),
            collapsed=collapsed,
        )
    return {**answer, **asdict(sets[temperature])}


def told(ground: Ground, one: Named, of: Set) -> dict[str, Any]:
    """Let a policy write, raise the alarm, go on with whole reads behind it, and judge both."""
    asked = ground.asked
    chance = torch.Generator(ground.held.device).manual_seed(21)
    begun = steps.prompts(ground.held, asked.replies, 21)
    cut = one.cut(asked.rows) if one.cut else None
    served = steps.written(
        ground.model, begun, cut=cut, temperature=of.temperature, chance=chance, first=asked.first
    )
    losses, kl = steps.judged(ground.model, served)
    replies = served.talks[:, PROMPT:]
    marks = collapse.watched(ground.pool, replies, served.logprobs, of.threshold)
    collapsed = collapse.shape(losses, replies).collapsed(of.limits)
    mended = _mended(ground, served, losses, marks, of)
    shown = np.concatenate((np.flatnonzero(collapsed)[:SHOWN], np.flatnonzero(~collapsed)[:SHOWN]))
    keep(
        asked.kept,
        f"{one.name}-{one.share}-{of.temperature:g}",
        served,
        losses=losses,
        shown=shown,
        collapsed=collapsed,
    )
    answer = {
        "policy": one.name, "share": one.share, "temperature": of.temperature, "rows": asked.rows,
        "bytes": cut.share if cut else 1.0, "loss": float(losses.mean()), "replies": len(marks),
        "collapsed": int(collapsed.sum()), **_alarms(marks, collapsed),
        "collapsed with the alarm": int(mended.sum()),
        "collapsed only with the alarm": int((mended & ~collapsed).sum()),
    }  # fmt: skip
    return {**answer, **_of_replies(kl, collapsed[: len(kl)])}


def keep(  # noqa: PLR0913 - what is kept of a part
    folder: Path | None,
    name: str,
    one: steps.Written,
    *,
    losses: torch.Tensor,
    shown: np.ndarray,
    collapsed: np.ndarray,
) -> None:
    """Save tokens, log-probabilities as served and losses by the whole model of the replies `shown`, and which of them collapsed."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    at = torch.from_numpy(shown).to(one.talks.device)
    tokens = one.talks[at, PROMPT:].cpu().numpy().astype(np.uint16)
    told, judged = (each[at].half().cpu().numpy() for each in (one.logprobs, losses))
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.npz"
    np.savez_compressed(path, tokens=tokens, logprobs=told, losses=judged, collapsed=collapsed[shown])


def of_size(ground: Ground, one: Named, rows: int) -> dict[str, Any]:
    """Tell the KL of a policy at another step size, at temperature 1."""
    chance = torch.Generator(ground.held.device).manual_seed(31)
    begun = steps.prompts(ground.held, ground.asked.first, 31)
    cut = one.cut(rows) if one.cut else None
    served = steps.written(
        ground.model, begun, cut=cut, temperature=1.0, chance=chance, first=ground.asked.first
    )
    _, kl = steps.judged(ground.model, served)
    answer = {"policy": one.name, "share": one.share, "rows": rows, "bytes": cut.share if cut else 1.0}
    return {**answer, **_of_replies(kl, np.zeros(len(kl), dtype=bool))}


def along(ground: Ground, one: Named, talks: torch.Tensor, whole: torch.Tensor) -> dict[str, Any]:
    """Tell the KL of a policy along replies of the whole model, all of them one step at each place."""
    if one.cut is None:
        raise ValueError(f"{one.name} reads whole: its KL along given replies is 0")
    neurons = ground.model.shape.moe_intermediate_size
    cut = steps.Aligned(steps=one.cut(len(talks)), conversations=len(talks), neurons=neurons)
    kl = divergence(whole, predictions(ground.model, talks, cut))
    answer = {"policy": one.name, "share": one.share, "rows": len(talks), "bytes": cut.steps.share}
    return {**answer, **_of_replies(kl, np.zeros(len(kl), dtype=bool))}


def restart(ground: Ground) -> dict[str, Any]:
    """Decode replies of the whole model again in other company."""
    chance = torch.Generator(ground.held.device).manual_seed(41)
    begun = steps.prompts(ground.held, 128, 41)
    one = steps.written(ground.model, begun, cut=None, temperature=1.0, chance=chance)
    floor = mini_moe_restart.restart_floor(ground.model, one.talks)
    ground.model.dtype = torch.bfloat16
    return {"floor": floor}


def _mended(
    ground: Ground, served: steps.Written, losses: torch.Tensor, marks: list[collapse.Marks], of: Set
) -> np.ndarray:
    """Return which replies collapse where each is read whole from its alarm on."""
    at = torch.tensor([one for one, _, _ in marks], device=served.talks.device)
    raised = (at > 0).nonzero().flatten()
    talks, losses = served.talks.clone(), losses.clone()
    if len(raised):
        chance = torch.Generator(at.device).manual_seed(22)
        again = steps.written(
            ground.model, talks[raised], cut=None, temperature=of.temperature, chance=chance, given=at[raised]
        )
        talks[raised] = again.talks
        losses[raised], _ = steps.judged(ground.model, again)
    return collapse.shape(losses, talks[:, PROMPT:]).collapsed(of.limits)


def _alarms(marks: list[collapse.Marks], collapsed: np.ndarray) -> dict[str, Any]:
    raised = np.array([at > 0 for at, _, _ in marks])
    places = [at for at, _, _ in marks if at]
    return {
        "alarms": int(raised.sum()), "loop alarms": sum(why == "loop" for _, why, _ in marks),
        "alarms on collapsed": int((raised & collapsed).sum()),
        "median token of the alarm": float(np.median(places)) if places else None,
    }  # fmt: skip


def _of_replies(kl: torch.Tensor, collapsed: np.ndarray) -> dict[str, Any]:
    """Tell each reply's mean KL, so that intervals can be drawn and the worst be seen."""
    each = kl.double().mean(1).cpu().numpy()
    return {
        "reply kl": [round(float(one), 6) for one in each],
        "reply collapsed": [int(place) for place in np.flatnonzero(collapsed)],
    }


def _held(path: Path, device: torch.device) -> torch.Tensor:
    corpus, tokens = mini_moe_text.read(path)
    return torch.from_numpy(tokens[-corpus.held_out :].astype(np.int32)).to(device)


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "CPU"


def _set(part: dict[str, Any]) -> Set:
    return Set(
        temperature=part["temperature"], threshold=part["threshold"], limits=collapse.Limits(**part["limits"])
    )


def _told(asked: argparse.Namespace) -> dict[str, Any]:
    return {name: one.name if isinstance(one, Path) else one for name, one in vars(asked).items()}


if __name__ == "__main__":
    sys.exit(main())
