"""The result of mini_moe_policies.py: rates with their intervals, KL with its own, the worst reply against a restart; JSON, and the table in words.

Usage: python benchmarks/mini_moe_policies_report.py RAW.json... [--talks TALKS.json] -o RESULT.json

RAW.json are runs on one checkpoint; of a part that several measured the first named is told. Prints the tables in Markdown.
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
POLICIES = ("full", "uniform", "water-filled", "router rank", "fewer experts")
FEWER = {90: 5, 75: 4, 60: 3, 50: 2}
"""Picks of six: as in mini_moe_shares.py, which wants torch."""


def main() -> int:
    """Read, judge, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("raw", type=Path, nargs="+")
    parser.add_argument("--talks", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    asked = parser.parse_args()
    runs = [json.loads(one.read_text(encoding="utf-8")) for one in asked.raw]
    named = [(part["part"], part) for one in reversed(runs) for part in one["parts"]]
    parts = sorted(dict(named).values(), key=_place)
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
    """Return policies by temperature in Markdown: what they cost, then what the alarms save of them."""
    lines = []
    for base in healthy:
        of_base = [one for one in rows if one["temperature"] == base["temperature"]]
        lines += [*_checked(base), "", *_costs(of_base), "", *_saved(of_base), ""]
    return "\n".join(lines)


def _checked(base: dict[str, Any]) -> list[str]:
    other = base["held out"]
    lines = [
        f"Temperature {base['temperature']:g}; {other['replies']} other whole replies: {_rate(other['collapsed'])} collapsed"
    ]
    for name, one in other.get("watches", {}).items():
        limits = base["watches"][name]
        alarms = ", ".join(f"{_rate(found)} {reason}" for reason, found in one["alarms"].items())
        mean = f"{limits['surprise']:.2f}" if limits["surprise"] else "none"
        lines.append(
            f"- {name}: tokens below {limits['logprob']:.2f}, mean above {mean}; {_rate(one['any but loops'])} false alarms: {alarms}"
        )
    return lines


def _costs(rows: list[dict[str, Any]]) -> list[str]:
    whole = next((one["kl"]["mean"] for one in rows if one["policy"] == "full"), None)
    return [
        "| policy | bytes | KL a token, nats | times the floor | worst reply | collapsed |",
        "|---|---|---|---|---|---|",
        *(
            f"| {_called(one)} | {_bytes(one)} | {_spread(one['kl'])} | {_times(one['kl']['mean'], whole)} | "
            f"{one['worst reply']:.3g} | {_rate(one['collapsed'])} |"
            for one in rows
        ),
    ]


def _saved(rows: list[dict[str, Any]]) -> list[str]:
    """Tell of each policy its collapses, and of each watch those it sees, in time, and saves, with as many that collapse for it."""
    rows = [one for one in rows if "repaired" in one]
    ways = [(hold, watch) for hold, of in rows[0]["repaired"].items() for watch in of] if rows else []
    watches = list(rows[0]["watches"]) if rows else []
    columns = [
        *(f"{one}: seen, in time" for one in watches),
        *(f"{watch}, {hold} held back" for hold, watch in ways),
    ]
    lines = [
        f"| policy | bytes | of the collapsed | {' | '.join(columns)} |", "|---" * (3 + len(columns)) + "|",
    ]  # fmt: skip
    for one in rows:
        cells = [
            f"{one['watches'][name]['on collapsed']}, {one['watches'][name]['in time']}" for name in watches
        ]
        cells += [_repaired(one["repaired"][hold][watch]) for hold, watch in ways]
        lines.append(
            f"| {_called(one)} | {_bytes(one)} | {one['collapsed']['of']['hits']} | {' | '.join(cells)} |"
        )
    return lines


def _repaired(one: dict[str, Any]) -> str:
    made = f" - {one['made']}" if one["made"] else ""
    return f"{one['saved']['of']['hits']}{made}: {_rate(one['collapsed'])}"


def _times(mean: float, whole: float | None) -> str:
    return f"{mean / whole:.0f}" if whole else ""


def _bytes(one: dict[str, Any]) -> str:
    return f"{100 * one['bytes']:.1f} %"


def _called(one: dict[str, Any]) -> str:
    return one["policy"] + (f", {FEWER[one['share']]} of 6" if one["policy"] == "fewer experts" else "")


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


def _rate(one: dict[str, Any]) -> str:
    return f"{100 * one['rate']:.2g} % ({100 * one['low']:.2g} to {100 * one['high']:.2g})"


def _spread(kl: dict[str, float]) -> str:
    return f"{kl['mean']:.3g} ({kl['low']:.3g} to {kl['high']:.3g})"


if __name__ == "__main__":
    sys.exit(main())
