"""What benchmarks/budget_ranks.py found on its ranks, put together, held against what was expected, as a document, a table and plots."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rank_agreement

SLOWER = 0.03
"""By how much rank fill may be slower than one price: both read the same bytes on the slowest rank. Ours: the timing's own spread."""
MOST_KL = 1e-6
"""Nats a token between the model over ranks and in one process, in float32. Ours: a restart in bf16 costs a thousand times as much."""


def document(ranks: Sequence[Mapping[str, Any]], *, backend: str, device: str) -> dict[str, Any]:
    """Put the ranks' findings together."""
    first = ranks[0]
    return {
        "backend": backend, "device": device, "ranks": len(ranks),
        "agreement": {name: _agreement([one["agreement"][name] for one in ranks]) for name in first["agreement"]},
        "time": {
            name: {rows: _ways([one["time"][name].get(rows, {}) for one in ranks]) for rows in cases}
            for name, cases in first["time"].items()
        },
        "mini": {name: [one["mini"][name] for one in ranks] for name in first["mini"]},
    }  # fmt: skip


def faults(answer: Mapping[str, Any]) -> list[str]:
    """Say what is not as it was expected to be."""
    found = [f"{name}: ranks disagree, or nothing was at stake" for name, one in answer["agreement"].items() if not one["agree"]]  # fmt: skip
    for name, cases in answer["time"].items():
        for rows, ways in cases.items():
            found += [f"{name}, {rows} rows: {one}" for one in _of_ways(ways)]
    for name, ranks in answer["mini"].items():
        for what, apart in ranks[0].items():
            if what.endswith("in one process") and apart["kl"] > MOST_KL:
                found.append(f"{name}, mini model: {what} {apart['kl']:.2g} nats, wanted at most {MOST_KL:g}")
    return found


def table(answer: Mapping[str, Any], found: Sequence[str]) -> str:
    """Return the lines that are printed."""
    lines = [f"{answer['ranks']} ranks, {answer['backend']}, {answer['device']}"]
    for name, one in answer["agreement"].items():
        lines.append(
            f"{name}: {one['steps']} random steps, depths and ledger {'equal' if one['agree'] else 'DIFFER'}, "
            f"{one['wrong']} planned otherwise, {one['deep']} deeper for a request above the bar"
        )
    for name, cases in answer["time"].items():
        lines += ["", f"{name}: us a layer, then by rank: read / wait at the all-reduce (MB planned)"]
        for rows, ways in cases.items():
            lines += [_line(rows, way, one) for way, one in ways.items()]
    for name, ranks in answer["mini"].items():
        lines += ["", f"{name}, mini model, widths {ranks[0]['widths'] or ranks[0]['held']}:"]
        lines += [
            f"  {what}: {apart['kl']:.2e} nats, log-probabilities within {apart['largest difference']:.1e}"
            for what, apart in ranks[0].items()
            if isinstance(apart, dict)
        ]
    return "\n".join([*lines, "", *(found or ["everything as expected"])])


def plotted(answer: Mapping[str, Any], stem: Path) -> None:
    """Draw one plot a layout: each rank's read and wait by way and step size, and the time of the whole layer without events around its parts."""
    import matplotlib as mpl  # noqa: PLC0415 - only where a plot is wanted

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    for name, cases in answer["time"].items():
        sizes = [rows for rows, ways in cases.items() if "refused" not in ways]
        figure, panes = plt.subplots(
            1, len(sizes), figsize=(3.4 * len(sizes), 4.2), sharey=False, squeeze=False
        )
        for pane, rows in zip(panes[0], sizes, strict=True):
            _bars(pane, cases[rows], rows)
        figure.suptitle(f"{name}: time of a layer by rank ({answer['ranks']} x {answer['device']}, measured)")
        figure.tight_layout()
        figure.savefig(f"{stem}_{name.lower().replace(' ', '_')}.png", dpi=110)
        plt.close(figure)


def _agreement(seen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [rank_agreement.Seen(**one) for one in seen]
    return {
        "steps": values[0].steps, "agree": rank_agreement.agreed(values), "wrong": sum(one.wrong for one in values),
        "owed": values[0].owed, "deep": values[0].deep, "ledger": values[0].ledger, "depths": values[0].depths,
    }  # fmt: skip


def _ways(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    refused = [one["refused"] for one in ranks if "refused" in one]
    if refused:
        return {"refused": refused[0]}
    return {
        way: {
            "us": statistics.median(max(turn) for turn in zip(*(one[way]["us"] for one in ranks), strict=True)),
            "slowest_tiles": ranks[0][way]["slowest_tiles"], "damage": ranks[0][way]["damage"],
            "ranks": [{key: one[way][key] for key in ("read_us", "reduce_us", "wait_us", "wait_mean_us", "planned_tiles", "read_tiles")} for one in ranks],
        }
        for way in ranks[0]
    }  # fmt: skip


def _of_ways(ways: Mapping[str, Any]) -> list[str]:
    if "refused" in ways:
        return []
    found = [
        f"{way}: a rank planned {one['planned_tiles']:g} tiles a layer and its kernel {one['read_tiles']:g}"
        for way, both in ways.items()
        for one in both["ranks"]
        if abs(one["planned_tiles"] - one["read_tiles"]) > 1e-6
    ]
    for way, filled in ways.items():
        before = ways.get(way.replace("rank fill", "one price"), filled)
        if filled["damage"] > before["damage"] * (1 + 1e-9):
            found.append(
                f"{way}: more damage than one price, {filled['damage']:.4g} and {before['damage']:.4g}"
            )
        if filled["us"] > before["us"] * (1 + SLOWER):
            found.append(
                f"{way}: {filled['us']:.1f} us, one price {before['us']:.1f} us at the same slowest bytes"
            )
    return found


def _line(rows: str, way: str, one: Any) -> str:
    if way == "refused":
        return f"{rows:>4} rows  the kernel refuses the shape: {one}"
    ranks = "  ".join(
        f"{rank['read_us']:6.1f} /{rank['wait_us']:5.1f} ({rank['planned_tiles']:6.1f} tiles)"
        for rank in one["ranks"]
    )
    return f"{rows:>4} rows  {way:15} {one['us']:7.1f}  {ranks}  damage {one['damage']:.4g}"


def _bars(pane: Any, ways: Mapping[str, Any], rows: str) -> None:
    names, count = list(ways), len(next(iter(ways.values()))["ranks"])
    for rank in range(count):
        places = [place + (rank - (count - 1) / 2) * 0.8 / count for place in range(len(names))]
        read = [ways[way]["ranks"][rank]["read_us"] for way in names]
        wait = [ways[way]["ranks"][rank]["wait_us"] for way in names]
        width, first = 0.7 / count, rank == 0
        pane.bar(places, read, width, color="tab:blue", label="read" if first else None)
        pane.bar(
            places,
            wait,
            width,
            bottom=read,
            color="tab:orange",
            label="wait at the all-reduce" if first else None,
        )
    whole = [ways[way]["us"] for way in names]
    pane.plot(range(len(names)), whole, "k_", markersize=14, label="whole layer, graph without events")
    pane.set_xticks(range(len(names)), names, rotation=70, fontsize=7)
    pane.set_title(f"{rows} rows a step", fontsize=9)
    pane.set_ylabel("us a layer", fontsize=8)
    pane.set_ylim(0, 1.12 * max(whole))
    pane.legend(fontsize=6)
