"""Policies of depth at equal bytes on the mini model: what each costs in KL, in the worst reply, and in replies that collapse, with and without the alarm.

Usage: python benchmarks/mini_moe_policies.py CHECKPOINT PROMPTS -o RAW.json --plans FOLDER [--rows 16] [--replies 2048] [--healthy 4096]
           [--temperatures 1.0,0.7,0.0] [--seconds 100] [--after RAW.json] [--kept FOLDER]

PROMPTS is TOKENS.xz of mini_moe_text.py, its words beside it. FOLDER holds mini-90, mini-75, mini-60 and
mini-50, written by `sparkctl-vllm plan --share 0.9 ... --eps 50` (so that the bytes bind, not eps). Every reply is written by decoding in
steps of so many rows, in bf16 on a GPU. For each temperature the whole model writes 4,096 replies by which collapse and alarm are set, and as
many of other prompts on which both are checked; then each policy writes its own. The proxy's alarm on improbable tokens, alone and with that on the mean beside
it, watches the same replies; one that raises it is taken up with whole reads as the proxy does it, where nothing is held back and where 64 tokens are. RAW.json grows part by part and ends in time: `--after` goes on where an earlier run
ended, by its limits and thresholds. `--kept` saves tokens and log-probabilities of replies, for mini_moe_alarms.py. `--talks FILE` (`--replies` of mini_moe_measure.py) tells no more than the KL along the last `--rows` of those
conversations, one forward a policy in float32: what a CPU can do. mini_moe_policies_report.py makes the result of it.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
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
import mini_moe_text  # noqa: E402
from mini_moe import loaded  # noqa: E402
from mini_moe_judge import predictions  # noqa: E402
from mini_moe_parts import Ground, Set, along, healthy, of_size, restart, told  # noqa: E402
from mini_moe_shares import SHARES, Named, policies, read_plans  # noqa: E402
from proxy.thresholds import Limits  # noqa: E402

SIZES, SIZED = (1, 64), {"water-filled", "router rank", "fewer experts"}
"""Step sizes that KL alone is told of, beside the one that all is told of, and policies that read other bytes in them, at 75 %."""
FIRST_TOLD, FEW = (50, 60, 75, 100), (50, 75, 100)
"""Shares at temperature 1 and at others, in their order: where replies collapse first, 90 % last, and there is no time for all."""
FIRST = 512
"""Replies whose KL is told: all log-probabilities of each are kept while it is written."""


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
        yield from _rows(ground, known, sets, temperature, FIRST_TOLD if temperature == 1 else FEW)
    if 1 not in ground.asked.temperatures:
        return
    for one, rows in product((one for one in known if one.share == 75 and one.name in SIZED), SIZES):
        yield f"{one.name} {one.share}, {rows} rows", lambda r=rows, p=one: of_size(ground, p, r)
    yield from _rows(ground, known, sets, 1.0, (90,))
    if ground.held.device.type == "cuda":
        yield "restart floor", lambda: restart(ground)


def _rows(
    ground: Ground, known: list[Named], sets: dict[float, Set], temperature: float, shares: tuple[int, ...]
) -> Any:
    """Give the policies of these shares at a temperature."""
    for one in (one for share in shares for one in known if one.share == share):
        yield f"{one.name} {one.share} at {temperature:g}", lambda p=one: told(ground, p, sets[temperature])


def _held(path: Path, device: torch.device) -> torch.Tensor:
    corpus, tokens = mini_moe_text.read(path)
    return torch.from_numpy(tokens[-corpus.held_out :].astype(np.int32)).to(device)


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "CPU"


def _set(part: dict[str, Any]) -> Set:
    return Set(
        temperature=part["temperature"], limits=collapse.Limits(**part["limits"]),
        watches={name: Limits(**one) for name, one in part["watches"].items()},
    )  # fmt: skip


def _told(asked: argparse.Namespace) -> dict[str, Any]:
    return {name: one.name if isinstance(one, Path) else one for name, one in vars(asked).items()}


if __name__ == "__main__":
    sys.exit(main())
