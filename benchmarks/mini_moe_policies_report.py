"""The result of mini_moe_policies.py: rates with their intervals, KL with its own, the worst reply against a restart; JSON, and the table in words.

Usage: python benchmarks/mini_moe_policies_report.py RAW.json... [--talks TALKS.json] -o RESULT.json

RAW.json are runs on one checkpoint, of other temperatures each. Prints the tables in Markdown.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - found beside the packages

from proxy import calibration  # noqa: E402

DRAWS = 2000


def main() -> int:
    """Read, judge, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("raw", type=Path, nargs="+")
    parser.add_argument("--talks", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    asked = parser.parse_args()
    runs = [json.loads(one.read_text(encoding="utf-8")) for one in asked.raw]
    parts = [part for one in runs for part in one["parts"]]
    talks = json.loads(asked.talks.read_text(encoding="utf-8")) if asked.talks else {"parts": []}
    healthy = [_healthy(one) for one in parts if "limits" in one]
    rows = [_row(one) for one in parts if "collapsed" in one]
    along = [_row(one) for one in talks["parts"]]
    sizes = [_row(one) for one in parts if one.get("policy") and "collapsed" not in one]
    floors = [one["floor"] for one in parts if "floor" in one]
    result = {
        "device": sorted({one["device"] for one in parts}), "asked": [one["asked"] for one in runs],
        "seconds": [one["seconds"] for one in runs],
        "healthy": healthy, "policies": rows, "other step sizes": sizes, "restart floor": floors,
        "along given replies": {"device": sorted({one["device"] for one in talks["parts"]}), "policies": along},
    }  # fmt: skip
    asked.path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(healthy, rows))
    if along:
        print(along_table(along))
    if sizes:
        print(sizes_table(sizes))
    return 0


def table(healthy: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """Return policies by temperature in Markdown."""
    lines = []
    for base in healthy:
        checked = base["held out"]
        alarms = f"{_rate(checked['improbable alarms'])} alarms on improbable tokens, {_rate(checked['surprise alarms'])} on the mean, {_rate(checked['loop alarms'])} on loops"
        head = f"temperature {base['temperature']:g}, threshold {base['threshold']:.2f}; {checked['replies']} other whole replies"
        lines += [
            f"{head}: {_rate(checked['collapsed'])} collapsed, {alarms}",
            "",
            "| policy | bytes | KL a token, nats | of whole reads | worst reply | collapsed | with the alarm | alarms: improbable | surprise | loop | on collapsed |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        of_base = [one for one in rows if one["temperature"] == base["temperature"]]
        whole = next(one["kl"]["mean"] for one in of_base if one["policy"] == "full")
        lines += [
            f"| {one['policy']} | {100 * one['bytes']:.1f} % | {_spread(one['kl'])} | {one['kl']['mean'] / whole:.0f} | "
            f"{one['worst reply']:.3g} | {_rate(one['collapsed'])} | "
            f"{_rate(one['collapsed with the alarm'])} | {_rate(one['improbable alarms'])} | {_rate(one['surprise alarms'])} | {_rate(one['loop alarms'])} | "
            f"{one['alarms on collapsed']} of {one['collapsed']['of']['hits']} |"
            for one in of_base
        ]
        lines.append("")
    return "\n".join(lines)


def sizes_table(rows: list[dict[str, Any]]) -> str:
    """Return KL at other step sizes, policies against rows, in Markdown."""
    return _crossed(rows, "policy", ("policy", "{}"), ("rows", "{} rows"))


def along_table(rows: list[dict[str, Any]]) -> str:
    """Return KL along given replies, policies against shares, in Markdown."""
    return _crossed(rows, "bytes wanted", ("share", "{} %"), ("policy", "{}"))


def _crossed(rows: list[dict[str, Any]], corner: str, down: tuple[str, str], across: tuple[str, str]) -> str:
    """Return KL and bytes by two keys, each with the words around its values."""
    columns = list(dict.fromkeys(one[across[0]] for one in rows))
    lines = [f"| {corner} | {' | '.join(across[1].format(one) for one in columns)} |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for name in dict.fromkeys(one[down[0]] for one in rows):
        of = {one[across[0]]: one for one in rows if one[down[0]] == name}
        cells = [
            f"{_spread(of[one]['kl'])}, {100 * of[one]['bytes']:.1f} %" if one in of else ""
            for one in columns
        ]
        lines.append(f"| {down[1].format(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _healthy(part: dict[str, Any]) -> dict[str, Any]:
    answer = {name: part[name] for name in ("temperature", "threshold", "limits", "row")}
    return {**answer, **{kind: _counted(part[kind]) for kind in ("calibration", "held out")}}


def _row(part: dict[str, Any]) -> dict[str, Any]:
    kept = ("policy", "share", "temperature", "rows", "bytes", "loss", "device", "median token of the alarm")
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
    answer = {
        "replies": total,
        "collapsed": _of(hits, total),
        "alarms on collapsed": part["alarms on collapsed"],
    }
    surprise = part.get("surprise alarms", 0)  # runs from before the mean was watched have none
    answer["improbable alarms"] = _of(part["alarms"] - part["loop alarms"] - surprise, total)
    answer["surprise alarms"] = _of(surprise, total)
    answer["loop alarms"] = _of(part["loop alarms"], total)
    if "collapsed with the alarm" in part:
        answer["collapsed with the alarm"] = _of(part["collapsed with the alarm"], total)
    return answer


def _of(hits: int, total: int) -> dict[str, Any]:
    low, high = calibration.rate(hits, total)
    return {"of": {"hits": hits, "replies": total}, "rate": hits / total, "low": low, "high": high}


def _rate(one: dict[str, Any]) -> str:
    return f"{100 * one['rate']:.2g} % ({100 * one['low']:.2g} to {100 * one['high']:.2g})"


def _spread(kl: dict[str, float]) -> str:
    return f"{kl['mean']:.3g} ({kl['low']:.3g} to {kl['high']:.3g})"


if __name__ == "__main__":
    sys.exit(main())
