"""The result of mini_moe_policies.py: rates with their intervals, KL with its own, the worst reply against a restart; JSON, and the table in words.

Usage: python benchmarks/mini_moe_policies_report.py RAW.json... [--talks TALKS.json] -o RESULT.json

RAW.json are runs on one checkpoint; of a part that several measured the first named is told. Prints the tables in Markdown.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - found beside the packages

import mini_moe_policies_tables as tables  # noqa: E402
from proxy import calibration  # noqa: E402

DRAWS = 2000
POLICIES = ("full", "uniform", "water-filled", "router rank", "fewer experts")


def main() -> int:
    """Read, judge, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("raw", type=Path, nargs="+")
    parser.add_argument("--talks", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    asked = parser.parse_args()
    runs = [json.loads(one.read_text(encoding="utf-8")) for one in asked.raw]
    talks = json.loads(asked.talks.read_text(encoding="utf-8")) if asked.talks else {"parts": []}
    result = merged(runs, talks)
    asked.path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(tables.page(result))
    return 0


def merged(runs: Sequence[dict[str, Any]], talks: dict[str, Any]) -> dict[str, Any]:
    """Return one result of runs on one checkpoint, each part of the first run that measured it, and of KL along given replies."""
    named = [(part["part"], part) for one in reversed(runs) for part in one["parts"]]
    parts = sorted(dict(named).values(), key=_place)
    return {
        "device": sorted({one["device"] for one in parts}), "asked": [one["asked"] for one in runs],
        "seconds": [one["seconds"] for one in runs],
        "healthy": [_healthy(one) for one in parts if "limits" in one],
        "policies": [_row(one) for one in parts if "collapsed" in one],
        "other step sizes": [_row(one) for one in parts if one.get("policy") and "collapsed" not in one],
        "restart floor": [one["floor"] for one in parts if "floor" in one],
        "along given replies": {
            "device": sorted({one["device"] for one in talks["parts"]}),
            "policies": [_row(one) for one in talks["parts"]],
        },
    }  # fmt: skip


def _place(part: dict[str, Any]) -> tuple[float, int, int]:
    """Return where a part is told: the warmest first, then the most bytes, then as the policies are listed."""
    policy = part.get("policy", "full")
    return -part.get("temperature", 2.0), -part.get("share", 101), POLICIES.index(policy)


def _healthy(part: dict[str, Any]) -> dict[str, Any]:
    answer = {name: part[name] for name in ("temperature", "limits", "watches", "rows")}
    return {**answer, "calibration": _counted(part["calibration"]), "held out": _counted(part["held out"])}


def _row(part: dict[str, Any]) -> dict[str, Any]:
    kept = ("policy", "share", "temperature", "rows", "bytes", "loss", "device")
    answer = {name: part[name] for name in kept if name in part}
    each = np.array(part["reply kl"])
    whole = np.delete(each, part["reply collapsed"])  # some may be left even where most collapse
    chance = np.random.default_rng(0)
    means = [each[chance.integers(len(each), size=len(each))].mean() for _ in range(DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    answer["kl"] = {"mean": float(each.mean()), "low": float(low), "high": float(high), "replies": len(each)}
    answer["worst reply"] = float(whole.max())
    return {**answer, **_counted(part)} if "collapsed" in part else answer


def _counted(part: dict[str, Any]) -> dict[str, Any]:
    total, hits = part["replies"], part["collapsed"]
    answer = {"replies": total, "collapsed": _of(hits, total)}
    if "watches" in part:
        answer["watches"] = {name: _watch(one, total) for name, one in part["watches"].items()}
    if "repaired" in part:
        answer["repaired"] = {
            hold: {name: _repair(one, total, hits) for name, one in of.items()}
            for hold, of in part["repaired"].items()
        }
    return answer


def _watch(one: dict[str, Any], total: int) -> dict[str, Any]:
    false = sum(count for reason, count in one["alarms"].items() if reason != "loop")
    alarms = {reason: _of(count, total) for reason, count in one["alarms"].items()}
    return {**one, "alarms": alarms, "any but loops": _of(false, total)}


def _repair(one: dict[str, Any], total: int, hits: int) -> dict[str, Any]:
    return {
        **one, "collapsed": _of(one["collapsed"], total),
        "saved": _of(one["saved"], hits) if hits else {"of": {"hits": 0, "replies": 0}},
    }  # fmt: skip


def _of(hits: int, total: int) -> dict[str, Any]:
    low, high = calibration.rate(hits, total)
    return {"of": {"hits": hits, "replies": total}, "rate": hits / total, "low": low, "high": high}


if __name__ == "__main__":
    sys.exit(main())
