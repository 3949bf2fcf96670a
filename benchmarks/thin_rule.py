"""Simulates ladders under the rule of tuner/evidence.py: how often it errs, what it finds, how many boots it takes.

    .venv/bin/python benchmarks/thin_rule.py [--ladders 2000] [--seed 1] [--boots 3 6]

Every figure is a simulation: boots are drawn, none is run. The noise of a boot is that of a disciplined line (relaunch
before every run, cool, no other client): 1.0 % on one stream and 3.0 % on six (reported,
tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks); 1.5 % on prefill and a correlation of 0.45 are ours, assumed. So is what the
`drift` lines add: a random walk of 0.5 % a boot and, one boot in fifty, a step of 3 %.
Prints one JSON object.
"""

import argparse
import json
import math
import time
from dataclasses import replace

import numpy as np

from sparkctl import content, edge
from tuner.climb import Climb, climb
from tuner.course import Course
from tuner.lever import Boots, Ladder
from tuner.metrics import Metric
from tuner.steps import Boot, Trial

NAMES = ("c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s")
BASE = (57.0, 178.0, 1400.0)
"""About what four GB10 nodes give (reported: 57.1 tok/s on one stream, tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark;
178.7 on six and 1,363 to 1,440 at 47K, bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark); ratios alone decide."""

NOISE = (0.010, 0.030, 0.015)
CORRELATION = 0.45
WALK, STEP, STEP_CHANCE = 0.005, 0.03, 0.02
COURSE = Course(design="ladder", rule="proof", seed=1, plan=None)
BROKEN = None

Effects = dict[str, tuple[float, float, float] | None]

NULL = (0.0, 0.0, 0.0)
# Effects of the demo's levers: +5.8 and +10.7 % for the channels (reported, tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark,
# E01) and +9 % for async scheduling (reported, bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark); the others are made up.
LADDERS: dict[str, Effects] = {
    "demo": {
        "nccl-channels": (0.058, 0.107, 0.0),
        "async-scheduling": (0.09, 0.0, 0.0),
        "nccl-threads": NULL,
        "b12x-mxfp8": BROKEN,
    },
    "null": dict.fromkeys(("nccl-channels", "async-scheduling", "nccl-threads", "b12x-mxfp8"), NULL),
    "small": {
        "nccl-channels": (0.04, 0.04, 0.0),
        "async-scheduling": (0.04, 0.0, 0.0),
        "nccl-threads": (0.0, 0.04, 0.0),
        "b12x-mxfp8": (-0.03, -0.03, 0.0),
    },
    "costly": {
        "nccl-channels": (0.09, 0.09, -0.08),
        "async-scheduling": (0.09, 0.0, -0.08),
        "nccl-threads": NULL,
        "b12x-mxfp8": BROKEN,
    },
}


class Line:
    """A line whose boots are drawn from the model above."""

    def __init__(self, effects: Effects, seed: tuple[int, ...], *, drifts: bool) -> None:
        """Start a line at its nominal speed."""
        self.effects, self.drifts = effects, drifts
        self.random = np.random.default_rng(seed)
        self.level = 0.0
        matrix = np.full((3, 3), CORRELATION)
        np.fill_diagonal(matrix, 1.0)
        self.root = np.linalg.cholesky(matrix)

    def measure(self, boot: Boot) -> Trial:
        """Draw one boot."""
        on = [self.effects[name] for name in boot.on]
        if self.drifts:
            self.level += WALK * self.random.standard_normal()
            if self.random.random() < STEP_CHANCE:
                self.level += STEP * self.random.choice((-1, 1))
        if BROKEN in on:
            return Trial(boot=str(boot.number), arm=boot.on, outcome="failed", why="corrupt text")
        noise = self.root @ self.random.standard_normal(3)
        logs = [
            math.log(BASE[at])
            + sum(math.log1p(effect[at]) for effect in on if effect)
            + NOISE[at] * noise[at]
            + self.level
            for at in range(3)
        ]
        metrics = tuple(
            Metric(name=name, value=math.exp(log), unit="tok/s", n=1)
            for name, log in zip(NAMES, logs, strict=True)
        )
        return Trial(boot=str(boot.number), arm=boot.on, outcome="measured", metrics=metrics)


def good(effect: tuple[float, float, float] | None) -> bool:
    """Whether a lever ought to be accepted: some gain on a primary, and prefill within its guard."""
    return effect is not None and max(effect[:2]) > 0 and effect[2] >= -0.05


def tally(climbs: list[Climb], effects: Effects) -> dict[str, object]:
    """Count verdicts of each lever, wrong accepts of each ladder, and boots."""
    levers = {
        name: {
            outcome: sum(v.verdict == outcome for c in climbs for v in c.verdicts if v.lever == name)
            / len(climbs)
            for outcome in ("accept", "reject", "inconclusive")
        }
        | {
            "seed_rule_accepts": sum(
                v.seed_rule == "accept" for c in climbs for v in c.verdicts if v.lever == name
            )
            / len(climbs),
            "boots": sum(v.boots for c in climbs for v in c.verdicts if v.lever == name) / len(climbs),
        }
        for name in effects
    }
    wrong = sum(any(not good(effects[name]) for name in c.stack) for c in climbs)
    seeds = sum(
        any(v.seed_rule == "accept" and not good(effects[v.lever]) for v in c.verdicts) for c in climbs
    )
    boots = sorted(len(c.trials) for c in climbs)
    return {
        "wrong_accept_a_ladder": wrong / len(climbs),
        "wrong_accept_95": wilson(wrong, len(climbs)),
        "seed_rule_wrong_accept_a_ladder": seeds / len(climbs),
        "boots_mean": sum(boots) / len(boots),
        "boots_p10_p50_p90": [boots[len(boots) * tenth // 10] for tenth in (1, 5, 9)],
        "levers": levers,
    }


def wilson(hits: int, n: int) -> list[float]:
    """Return Wilson's 95 % interval of a share."""
    z = 1.96
    share = hits / n
    middle = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return [round((middle + sign * reach) / (1 + z * z / n), 4) for sign in (-1, 1)]


def main() -> None:
    """Simulate every kind of ladder with and without drift and print the tallies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ladders", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--boots", type=int, nargs=2, metavar=("LEAST", "MOST"))
    chosen = parser.parse_args()
    ladder = edge.read(content.ladder("demo"), Ladder)
    if chosen.boots:
        ladder = replace(ladder, boots=Boots(least=chosen.boots[0], most=chosen.boots[1]))
    begin = time.perf_counter()
    results: dict[str, object] = {}
    for kind, (name, effects) in enumerate(LADDERS.items()):
        for drifts in (False, True):
            climbs = [
                climb(
                    ladder,
                    COURSE,
                    (),
                    Line(effects, (chosen.seed, kind, drifts, at), drifts=drifts).measure,
                    lambda _: None,
                )
                for at in range(chosen.ladders)
            ]
            results[f"{name}{', drift' if drifts else ''}"] = tally(climbs, effects)
    shown = {
        "simulation": True,
        "ladders": chosen.ladders,
        "seed": chosen.seed,
        "boots": [ladder.boots.least, ladder.boots.most],
        "seconds": round(time.perf_counter() - begin, 1),
        "results": results,
    }
    print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()
