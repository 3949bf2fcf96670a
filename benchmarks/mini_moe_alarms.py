"""Could another alarm see the replies of the mini model that collapse? Rules over log-probabilities and tokens, each at the same rate of false alarms.

Usage: python benchmarks/mini_moe_alarms.py KEPT -o RESULT.json [--temperature 1]

KEPT is what `mini_moe_policies.py --kept` saved. A rule gives every token a score from what a client has seen until then; its threshold is set on
half of the whole model's replies so that surely fewer than 1 % of them reach it (proxy.calibration's bound), and its false alarms are counted on the
other half. Told are the collapsed replies of each policy that reach it, and those that do before the first window that is a collapse has ended.
The last rule is what `sparkctl proxy` does with log-probabilities: its own watches, both thresholds as its own calibration sets them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - found beside the packages
from numpy.lib.stride_tricks import sliding_window_view  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from proxy import calibration  # noqa: E402
from proxy.depth import Depths  # noqa: E402
from proxy.said import Said  # noqa: E402
from proxy.thresholds import Limits  # noqa: E402
from proxy.watch import Watch  # noqa: E402

Scores = NDArray[np.float32]
"""[replies, tokens]: the higher, the odder."""
COLLAPSE = 64
"""Tokens of the window by which mini_moe_collapse.py judges."""
CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Replies as they were saved: tokens, log-probabilities as served and losses by the whole model, [replies, tokens]; who collapsed."""

    tokens: NDArray[np.uint16]
    surprise: Scores
    losses: Scores
    collapsed: NDArray[np.bool_]


Rule = Callable[[Kept], Scores]
Alarms = Callable[[Kept], NDArray[np.int64]]
"""Gives the token at which each reply raises an alarm, beyond the last where it raises none: [replies]."""


def main() -> int:
    """Read, set, count, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("kept", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    parser.add_argument("--temperature", default="1")
    asked = parser.parse_args()
    known, checked = (
        _read(asked.kept / f"healthy-{asked.temperature}-{kind}.npz") for kind in ("calibration", "held-out")
    )
    policies = {
        path.stem: _read(path)
        for path in sorted(asked.kept.glob(f"*-{asked.temperature}.npz"))
        if not path.stem.startswith("healthy")
    }
    limits = _limits(known)
    answer = {
        name: {"threshold": set_to, **told(alarms, checked, policies, limits)}
        for name, set_to, alarms in (*by_scores(known), *by_proxy(known))
    }
    asked.path.write_text(json.dumps(answer) + "\n", encoding="utf-8")
    for name, one in answer.items():
        every = one["collapsed"].values()
        caught, early, total = (sum(each[place] for each in every) for place in range(3))
        print(
            f"{name:<40} false {100 * one['false alarms']:.2f} %, caught {caught}, in time {early} of {total}"
        )
    return 0


def rules() -> Iterator[tuple[str, Rule]]:
    """Give the rules by name."""
    for window in (32, 64, 128):
        for count in (1, 2, 3, 5, 8):
            yield f"{count} improbable in {window}", lambda of, w=window, k=count: lowest(of.surprise, w, k)
        yield f"mean surprise of {window}", lambda of, w=window: lowest_mean(of.surprise, w)
        yield f"the same, full windows only, {window}", lambda of, w=window: full_mean(of.surprise, w)
    for drift in (1.5, 2.0, 2.5, 3.0, 4.0):
        yield f"sum of surprise beyond {drift:g}", lambda of, c=drift: summed(of.surprise, c)
    for window in (32, 48, 64):
        yield f"repeated triples in {window}", lambda of, w=window: repeated(of.tokens, w)


def by_scores(known: Kept) -> Iterator[tuple[str, float, Alarms]]:
    """Set each rule's threshold on healthy replies."""
    for name, rule in rules():
        worst = np.sort(rule(known).max(1))[::-1]
        threshold = float(worst[calibration.cuts(len(worst)) - 1])
        yield name, threshold, lambda of, r=rule, limit=threshold: _first(r(of) > limit)


def by_proxy(known: Kept) -> Iterator[tuple[str, dict[str, Any], Alarms]]:
    """Set the proxy's thresholds as its `--calibrate` does, with other shares too; loops are text, and not looked at."""
    depths = [heard(one, Limits())[0] for one in known.surprise]
    for every in (2, calibration.EVERY, 8):
        (row,) = calibration.calibrate("mini", {1.0: depths}, every=every).thresholds
        limits = Limits(logprob=row.logprob, surprise=row.surprise)
        yield (
            f"the proxy's, 1 cut of {every}",
            asdict(row),
            lambda of, limits=limits: np.array([heard(one, limits)[1] for one in of.surprise]),
        )


def told(
    alarms: Alarms, checked: Kept, policies: dict[str, Kept], limits: tuple[float, float]
) -> dict[str, Any]:
    """Count false alarms on healthy replies, and who is seen of those that collapse."""
    answer: dict[str, Any] = {
        "false alarms": float((alarms(checked) < checked.tokens.shape[1]).mean()),
        "collapsed": {},
    }
    for name, of in policies.items():
        first = alarms(of)
        seen = first < of.tokens.shape[1]
        before = seen & (first < _fallen(of, limits))
        answer["collapsed"][name] = [int((one & of.collapsed).sum()) for one in (seen, before)]
        answer["collapsed"][name].append(int(of.collapsed.sum()))
    return answer


def heard(surprise: NDArray[np.float32], limits: Limits) -> tuple[Depths, int]:
    """Feed the proxy's watch token by token; return a reply's depths, and the token at which it raised an alarm, its length if never."""
    watch, first = Watch(limits=limits), len(surprise)
    for place, one in enumerate(surprise.tolist()):
        if watch.feed(Said(logprobs=(-one,))) and first == len(surprise):
            first = place
    return watch.depths, first


def lowest(surprise: Scores, window: int, count: int) -> Scores:
    """Return the surprise that `count` tokens of the last `window` reach: the proxy's rule for 3 of 128."""
    return _windowed(surprise, window, lambda part: np.partition(part, -count, axis=2)[:, :, -count])


def lowest_mean(surprise: Scores, window: int) -> Scores:
    """Return the mean surprise of the last `window` tokens; those before the reply count 0."""
    return _windowed(surprise, window, lambda part: part.mean(2))


def full_mean(surprise: Scores, window: int) -> Scores:
    """Return the mean surprise of the last `window` tokens, 0 where there are fewer: the proxy's rule for 64."""
    score = lowest_mean(surprise, window)
    score[:, : window - 1] = 0
    return score


def summed(surprise: Scores, drift: float) -> Scores:
    """Return what surprise beyond a drift has run up to, never below 0: Page's test for a change."""
    score = np.zeros_like(surprise)
    last = np.zeros(len(surprise), dtype=np.float32)
    for place in range(surprise.shape[1]):
        last = np.maximum(0, last + surprise[:, place] - drift)
        score[:, place] = last
    return score


def repeated(tokens: NDArray[np.uint16], window: int) -> Scores:
    """Return how many triples of the last `window` tokens stood there before, as a part of them; 0 while there are fewer."""
    triples = _triples(tokens)
    score = np.zeros(tokens.shape, dtype=np.float32)
    for begin in range(0, len(tokens), CHUNK):
        part = np.sort(sliding_window_view(triples[begin : begin + CHUNK], window - 2, axis=1), axis=2)
        score[begin : begin + CHUNK, window - 1 :] = (np.diff(part, axis=2) == 0).sum(2) / (window - 2)
    return score


def _windowed(surprise: Scores, window: int, how: Callable[[Scores], Scores]) -> Scores:
    padded = np.pad(surprise, ((0, 0), (window - 1, 0)))
    parts = [
        how(sliding_window_view(padded[begin : begin + CHUNK], window, axis=1))
        for begin in range(0, len(padded), CHUNK)
    ]
    return np.concatenate(parts)


def _limits(known: Kept) -> tuple[float, float]:
    """Return the limits of collapse as mini_moe_collapse.py sets them: loss of a window, and its repeated triples."""
    loss = lowest_mean(known.losses, COLLAPSE)[:, COLLAPSE - 1 :].max(1)
    return float(np.quantile(loss, 0.999)), float(np.quantile(repeated(known.tokens, COLLAPSE).max(1), 0.999))


def _fallen(of: Kept, limits: tuple[float, float]) -> NDArray[np.int64]:
    """Return the token at which the first window that is a collapse ends; beyond the last where there is none."""
    beyond = (full_mean(of.losses, COLLAPSE) > limits[0]) | (repeated(of.tokens, COLLAPSE) > limits[1])
    return _first(beyond)


def _first(beyond: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where each row first holds, beyond its end where it never does."""
    return np.where(beyond.any(1), beyond.argmax(1), beyond.shape[1])


def _triples(tokens: NDArray[np.uint16]) -> NDArray[np.int64]:
    numbers = tokens.astype(np.int64)
    return (numbers[:, :-2] << 26) + (numbers[:, 1:-1] << 13) + numbers[:, 2:]


def _read(path: Path) -> Kept:
    held = np.load(path)
    return Kept(
        tokens=held["tokens"], surprise=-held["logprobs"].astype(np.float32),
        losses=held["losses"].astype(np.float32), collapsed=held["collapsed"],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
