"""Figures of the study: from one row a ladder to error, power, boots, hours and regret, each with a 95 % interval; and plots."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

Row = dict[str, object]
Interval = list[float]

RESAMPLES = 1000

BARS: dict[str, dict[str, float]] = {
    "disciplined": {
        "wrong": 3, "wrong_upper": 4, "all +3": 90, "all +4": 98, "all +6": 99.5, "C6 +4": 95,
        "boots": 54, "boots_p90": 66, "regret": 0.15, "pairs_ratio": 8,
    },
    "field": {
        "wrong": 3, "wrong_upper": 4, "all +3": 75, "all +4": 94, "all +6": 99, "C6 +4": 83,
        "boots": 92, "boots_p90": 120, "regret": 0.42, "pairs_ratio": 12,
    },
}  # fmt: skip
"""What was asked for before the method was built; percentages, boots, and how many times the boots fixed pairs take."""


def wilson(hits: int, n: int) -> dict[str, object]:
    """Return a share in per cent with Wilson's 95 % interval."""
    if not n:
        return {"percent": None, "n": 0}
    z, share = 1.959964, hits / n
    middle, reach = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return {
        "percent": round(100 * share, 2),
        "low": round(100 * low, 2),
        "high": round(100 * high, 2),
        "n": n,
    }


def mean(values: Sequence[float], digits: int = 3) -> dict[str, object]:
    """Return a mean with the 95 % interval of the bootstrap."""
    if not values:
        return {"mean": None, "n": 0}
    sample = np.array(values, dtype=float)
    random = np.random.default_rng(0)
    drawn = sample[random.integers(len(sample), size=(RESAMPLES, len(sample)))].mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return {
        "mean": round(float(sample.mean()), digits),
        "low": round(float(low), digits),
        "high": round(float(high), digits),
        "n": len(sample),
    }


def summarise(rows: Iterable[Row], minutes: float) -> dict[str, object]:
    """Return the figures of one method in one regime."""
    listed = list(rows)
    mixed = [row for row in listed if row["kind"] == "mixed"]
    null = [row for row in listed if row["kind"] == "null"]
    boots = [float(row["boots"]) for row in mixed]  # type: ignore[arg-type]
    found: dict[str, object] = {
        "wrong_mixed": wilson(sum(bool(row["wrong"]) for row in mixed), len(mixed)),
        "wrong_null": wilson(sum(bool(row["wrong"]) for row in null), len(null)),
        "costly_accepted": wilson(sum(bool(row["costly"]) for row in mixed), len(mixed)),
        "power": power(mixed),
        "boots": mean(boots, 1) | {"p90": float(np.percentile(boots, 90)) if boots else None},
        "boots_null": mean([float(row["boots"]) for row in null], 1),  # type: ignore[arg-type]
        "hours": round(float(np.mean(boots)) * minutes / 60, 1) if boots else None,
        "regret": mean([float(row["regret"]) for row in mixed]),  # type: ignore[arg-type]
    }
    wall = [float(row["wall_hours"]) for row in mixed if "wall_hours" in row]  # type: ignore[arg-type]
    found |= {"wall_hours": mean(wall, 1)} if wall else {}
    fresh = [float(row["confirming"]) for row in mixed if "confirming" in row]  # type: ignore[arg-type]
    return found | ({"boots_of_confirmation": mean(fresh, 1)} if fresh else {})


def power(rows: Iterable[Row]) -> dict[str, dict[str, object]]:
    """Return how often a lever of each gain was accepted, by the metric it acts on; those that break the guard left out."""
    hits: dict[str, list[bool]] = {}
    for row in rows:
        for gain, where, accepted in row["good"]:  # type: ignore[attr-defined]
            for name in ("all", where):
                hits.setdefault(f"{name} +{100 * gain:.0f}", []).append(bool(accepted))
    order = [f"{name} +{size}" for name in ("all", "C1", "C6", "both") for size in (3, 4, 6, 9)]
    return {name: wilson(sum(hits[name]), len(hits[name])) for name in order if name in hits}


def against_bars(regime: str, found: dict[str, object], ratio: float | None) -> dict[str, object]:
    """Return each bar with what was reached and whether it is met by the estimate."""
    bars, reached = BARS[regime], {}
    wrong = [found["wrong_mixed"], found["wrong_null"]]
    reached["wrong"] = max(one["percent"] or 0 for one in wrong)  # type: ignore[index]
    reached["wrong_upper"] = max(one.get("high", 100) for one in wrong)  # type: ignore[attr-defined]
    for name in ("all +3", "all +4", "all +6", "C6 +4"):
        reached[name] = found["power"].get(name, {}).get("percent")  # type: ignore[attr-defined]
    reached["boots"], reached["boots_p90"] = found["boots"]["mean"], found["boots"]["p90"]  # type: ignore[index]
    reached["regret"] = found["regret"]["mean"]  # type: ignore[index]
    reached["pairs_ratio"] = ratio
    more = {"all +3", "all +4", "all +6", "C6 +4", "pairs_ratio"}
    return {
        name: {
            "bar": bar,
            "reached": reached[name],
            "met": None
            if reached[name] is None
            else bool(reached[name] >= bar if name in more else reached[name] <= bar),
        }
        for name, bar in bars.items()
    }


def pairs_at_equal_power(methods: dict[str, dict[str, object]], own: dict[str, object]) -> float | None:
    """Return the boots of the cheapest fixed pairs with our power on +4 % (all), divided by ours; None if none reaches it."""
    wanted = own["power"]["all +4"]["percent"]  # type: ignore[index]
    enough = [
        found["boots"]["mean"]  # type: ignore[index]
        for name, found in methods.items()
        if name.startswith("fixed pairs") and found["power"]["all +4"]["percent"] >= wanted  # type: ignore[index]
    ]
    return round(min(enough) / own["boots"]["mean"], 1) if enough else None  # type: ignore[index]


def plot(regime: str, methods: dict[str, dict[str, object]], folder: Path) -> list[str]:
    """Draw power against boots and regret against boots; nothing where matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra that only the study wants
    except ImportError:
        return []
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after its backend was chosen

    drawn = []
    values = {
        "power": ("power on +4 %, all metrics [%]", lambda one: one["power"]["all +4"]["percent"]),
        "regret": ("regret [%]", lambda one: one["regret"]["mean"]),
    }
    for name, (label, value) in values.items():
        figure, axes = plt.subplots(figsize=(8, 5))
        for method, found in methods.items():
            at = (found["boots"]["mean"], value(found))  # type: ignore[index]
            wrong = found["wrong_mixed"]["percent"]  # type: ignore[index]
            axes.scatter(*at, color="tab:green" if wrong <= 5 else "tab:red")
            axes.annotate(
                f"{method} ({wrong:.0f} % wrong)", at, fontsize=7, xytext=(4, 4), textcoords="offset points"
            )
        axes.set(xscale="log", xlabel="boots a ladder", ylabel=label, title=f"{regime}, simulated")
        path = folder / f"{regime}-{name}.svg"
        figure.tight_layout()
        figure.savefig(path)
        plt.close(figure)
        drawn.append(str(path))
    return drawn
