"""Does the plug-in, inside real vLLM on a GPU, say what stock vLLM says, with CUDA graphs and without? A TINY RANDOM MODEL is served.

Usage: python benchmarks/plugin_gpu.py WORK [--formats bf16,mxfp4,exl3] [--modes eager,graph,default,piecewise] [--ways ...]
           [--together 6] [--steps 0] [--tokens 64] [-o FILE.json] [sizes as of plugin_gpu_models.py]

WORK holds the checkpoints that plugin_gpu_models.py makes, those that are there are kept, and everything said. Each case
is a process of its own: stock vLLM in float32 and bf16, and the plug-in at full depth, at the half that speaks, and at the silent half
(wrong). Stock vLLM in float32 says a reply of its own; all others are made to say the same, so that every token can be compared. Among the
prompts is one of 300 tokens. --steps times as many decode steps at 1, 4 and 8 requests at once; cases then run one after the other.
This proves that the same is said and counted. It proves nothing about quality, and times are those of two small layers, not of a model.
Exit code 1 where something is not as it must be.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import plugin_gpu_models as models
from plugin_gpu_cases import FORMATS, MODES, WAYS, Case, Wish, installed, talked
from plugin_gpu_report import compared, faults, table

LONG = 300
PROMPTS = (9, 40, LONG, 23, 64)
"""Tokens of each prompt: five requests, which a graph for eight rows is padded to."""
ROWS = (1, 4, 8)
REFERENCES = ("stock", "native", "plain")
"""What is not read by a plan is asked eager and as vLLM does by default, where these are asked for; stock is always asked eager."""
TOLD = "A tiny model of random weights was served: that the same is said and counted is proved, quality and speed of a real model are not."


def main() -> int:
    """Make, talk, compare."""
    asked = options()
    home, begin = asked.work, time.monotonic()
    size = models.Size(hidden=asked.hidden, layers=asked.layers, experts=asked.experts, neurons=asked.neurons)
    models.made(home, size, asked.bits if "exl3" in asked.formats else None, asked.device)
    print(f"models after {time.monotonic() - begin:.0f} s", flush=True)
    installed(home)
    answers = answered(asked)
    wrong = faults(answers)
    if asked.path:
        said = {name: str(one) if isinstance(one, Path) else one for name, one in vars(asked).items()}
        kept = {name: {key: told for key, told in one.items() if key != "replies"} for name, one in answers.items()}  # fmt: skip
        document = {"told": TOLD, "machine": machine(), "asked": said, "faults": wrong, "compared": compared(answers), "cases": kept}  # fmt: skip
        asked.path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for name, one in answers.items():
        if "failed" in one:
            print(f"--- {name}\n{one['failed'][-1500:]}")
    print(f"{table(answers, wrong)}\n{TOLD}\n{time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


def answered(asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what every case said: first float32, whose replies are then given to all others of its format."""
    wish = Wish(prompts=prompts(), tokens=asked.tokens)
    timed = replace(wish, steps=asked.steps, rows=ROWS if asked.steps else ())
    firsts = [Case(format=form, way="exact", mode="eager") for form in references(asked.formats)]
    exact = told([(one, wish) for one in firsts], asked.work, asked.together)
    answers: dict[str, dict[str, Any]] = {}
    others: list[tuple[Case, Wish]] = []
    for form in asked.formats:
        first = exact[f"{reference(form)}-exact-eager"]
        answers[f"{form}-exact-eager"] = first
        if "failed" not in first:
            forced = [one["tokens"] for one in first["replies"]]
            others += [(case, replace(timed, forced=forced)) for case in cases(form, asked)]
    return answers | told(others, asked.work, 1 if asked.steps else asked.together)


def options() -> argparse.Namespace:
    """Read the command line."""

    def among(allowed: Sequence[str]) -> Any:
        def several(text: str) -> list[str]:
            found = [one for one in text.split(",") if one]
            if unknown := [one for one in found if one not in allowed]:
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; allowed: {', '.join(allowed)}")
            return found

        return several

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--formats", type=among(FORMATS), default=list(FORMATS))
    parser.add_argument("--modes", type=among(tuple(MODES)), default=list(MODES))
    parser.add_argument("--ways", type=among(WAYS), default=list(WAYS))
    parser.add_argument("--together", type=int, default=6, help="processes at once")
    parser.add_argument("--steps", type=int, default=0, help="timed decode steps; cases run one by one then")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"), help="where EXL3 is coded")
    for name, default in (("hidden", 5120), ("layers", 2), ("experts", 8), ("neurons", 256), ("bits", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


def prompts() -> list[list[int]]:
    """Return the prompts, in a fixed draw."""
    draw = np.random.default_rng(5)
    return [draw.integers(0, models.VOCABULARY, length).tolist() for length in PROMPTS]


def reference(form: str) -> str:
    """Return the format whose plain weights a format is compared with: MXFP4 holds the numbers of bf16."""
    return "exl3" if form == "exl3" else "bf16"


def references(forms: Sequence[str]) -> list[str]:
    """Return these, each once."""
    return sorted({reference(form) for form in forms})


def cases(form: str, asked: argparse.Namespace) -> list[Case]:
    """Return what is asked of a format; what was asked of all is left out where it makes no sense."""
    answer = []
    for way in asked.ways:
        if way == "exact" or (way == "native" and form != "mxfp4") or (way == "plain" and form != "exl3"):
            continue
        modes = asked.modes
        if way in REFERENCES:
            modes = [one for one in MODES if (one == "eager" and way == "stock") or (one in {"eager", "default"} and one in modes)]  # fmt: skip
        if way == "wrong":
            modes = modes[-1:]
        answer += [Case(format=form, way=way, mode=mode) for mode in modes]
    return answer


def told(asked: Sequence[tuple[Case, Wish]], home: Path, together: int) -> dict[str, dict[str, Any]]:
    """Run cases, some at once, and return what each answered."""

    def one(case: Case, wish: Wish) -> dict[str, Any]:
        begin = time.monotonic()
        answer = talked(case, home, wish)
        print(f"{case.name}: {'FAILED' if 'failed' in answer else 'said'} after {time.monotonic() - begin:.0f} s", flush=True)  # fmt: skip
        return answer

    with ThreadPoolExecutor(together) as pool:
        return dict(
            zip([case.name for case, _ in asked], pool.map(lambda pair: one(*pair), asked), strict=True)
        )


def machine() -> dict[str, str]:
    """Return what it ran on."""
    named = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu"
    return {"device": named, "torch": torch.__version__, "python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())
