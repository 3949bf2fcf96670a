"""Could another alarm see the replies of the mini model that collapse? Rules over log-probabilities and tokens, each at the same rate of false alarms.

Usage: python benchmarks/mini_moe_alarms.py KEPT -o RESULT.json [--temperature 1]

KEPT is what `mini_moe_policies.py --kept` saved. A rule gives every token a score from what a client has seen until then; its threshold is set on
half of the whole model's replies so that surely fewer than 1 % of them reach it (proxy.calibration's bound), and its false alarms are counted on the
other half. Told are the collapsed replies of each policy that reach it, and those that do before the first window that is a collapse has ended.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - found beside the packages
from numpy.lib.stride_tricks import sliding_window_view  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.stats import beta  # noqa: E402

from proxy import calibration  # noqa: E402

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
    answer = {name: told(rule, known, checked, policies, limits) for name, rule in rules()}
    asked.path.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    for name, one in answer.items():
        every = one["collapsed"].values()
        caught, early, total = (sum(each[place] for each in every) for place in range(3))
        print(
            f"{name:<28} false {100 * one['false alarms']:.2f} %, caught {caught}, in time {early} of {total}"
        )
    return 0


def rules() -> Iterator[tuple[str, Rule]]:
    """Give the rules by name."""
    for window in (32, 64, 128):
        for count in (1, 2, 3, 5, 8):
            yield f"{count} improbable in {window}", lambda of, w=window, k=count: lowest(of.surprise, w, k)
        yield f"mean surprise of {window}", lambda of, w=window: lowest_mean(of.surprise, w)
    for drift in (1.5, 2.0, 2.5, 3.0, 4.0):
        yield f"sum of surprise beyond {drift:g}", lambda of, c=drift: summed(of.surprise, c)
    for window in (32, 48, 64):
        yield f"repeated triples in {window}", lambda of, w=window: repeated(of.tokens, w)


def told(
    rule: Rule, known: Kept, checked: Kept, policies: dict[str, Kept], limits: tuple[float, float]
) -> dict[str, Any]:
    """Set a rule's threshold on healthy replies and count whom it sees."""
    worst = np.sort(rule(known).max(1))[::-1]
    allowed = next(n for n in range(len(worst)) if _bound(n + 1, len(worst)) >= calibration.MOST_FALSE)
    threshold = worst[allowed]  # reached by no more than `allowed` replies beyond it
    answer: dict[str, Any] = {
        "threshold": float(threshold),
        "false alarms": float((rule(checked).max(1) > threshold).mean()),
        "collapsed": {},
    }
    for name, of in policies.items():
        beyond = rule(of) > threshold
        seen, first = beyond.any(1), beyond.argmax(1)
        before = seen & (first < _fallen(of, limits))
        answer["collapsed"][name] = [int((one & of.collapsed).sum()) for one in (seen, before)]
        answer["collapsed"][name].append(int(of.collapsed.sum()))
    return answer


def lowest(surprise: Scores, window: int, count: int) -> Scores:
    """Return the surprise that `count` tokens of the last `window` reach: the proxy's rule for 3 of 128."""
    return _windowed(surprise, window, lambda part: np.partition(part, -count, axis=2)[:, :, -count])


def lowest_mean(surprise: Scores, window: int) -> Scores:
    """Return the mean surprise of the last `window` tokens; those before the reply count 0."""
    return _windowed(surprise, window, lambda part: part.mean(2))


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
    loss = lowest_mean(of.losses, COLLAPSE)
    loss[:, : COLLAPSE - 1] = 0
    beyond = (loss > limits[0]) | (repeated(of.tokens, COLLAPSE) > limits[1])
    return np.where(beyond.any(1), beyond.argmax(1), beyond.shape[1])


def _triples(tokens: NDArray[np.uint16]) -> NDArray[np.int64]:
    numbers = tokens.astype(np.int64)
    return (numbers[:, :-2] << 26) + (numbers[:, 1:-1] << 13) + numbers[:, 2:]


def _bound(hits: int, total: int) -> float:
    return float(beta.ppf(calibration.CONFIDENCE, hits + 1, total - hits))


def _read(path: Path) -> Kept:
    held = np.load(path)
    return Kept(
        tokens=held["tokens"], surprise=-held["logprobs"].astype(np.float32),
        losses=held["losses"].astype(np.float32), collapsed=held["collapsed"],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
