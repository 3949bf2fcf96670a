"""The tables of docs/calibration.md in Markdown, from the result of mini_moe_policies_report.py."""

from collections.abc import Iterator, Sequence
from typing import Any

FEWER = {90: 5, 75: 4, 60: 3, 50: 2}
"""Picks of six: as in mini_moe_shares.py, which wants torch."""
MILD = 75
"""Percent of the bytes from which a cut, other than even depths, counts as mild: few of its replies collapse."""
WATCHES, HOLDS = ("improbable", "both"), ("0", "64")


def page(result: dict[str, Any]) -> str:
    """Return all tables: policies by temperature, what the alarms save in all, false alarms, step sizes, given replies."""
    rows, sizes = result["policies"], result["other step sizes"]
    temperatures = dict.fromkeys(one["temperature"] for one in rows)
    told = [costs([one for one in rows if one["temperature"] == each]) for each in temperatures]
    sized = {(one["policy"], one["share"]) for one in sizes}
    beside = [one for one in rows if one["temperature"] == 1 and (one["policy"], one["share"]) in sized]
    told += [saved(rows), checked(result["healthy"])]
    told += [_crossed([*sizes, *beside], "policy", ("policy", "{}"), ("rows", "steps of {}"))]
    told += [
        _crossed(
            result["along given replies"]["policies"], "bytes wanted", ("share", "{} %"), ("policy", "{}")
        )
    ]
    return "\n\n".join("\n".join(lines) for lines in told)


def costs(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Tell of the policies at one temperature what each costs, how many replies collapse, and how many of them each watch saves."""
    whole = next((one["kl"]["mean"] for one in rows if one["policy"] == "full"), None)
    return [
        *_head(
            *("policy", "bytes", "KL a token, nats", "times the floor", "worst reply", "collapsed"),
            *("saved: improbable", "saved: both", "64 held back: improbable", "64 held back: both"),
        ),
        *(f"| {' | '.join((*_cost(one, whole), *_repairs(one)))} |" for one in rows),
    ]


def saved(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Tell of all mild cuts together, and of all others, how many collapsed replies each watch sees, sees in time, and saves."""
    return [
        *_head(
            *("temperature", "cuts", "replies", "collapsed", "watch", "seen", "in time"),
            *("saved", "made", "left", "with 64 held back: saved", "made", "left"),
        ),
        *(f"| {' | '.join(map(str, one))} |" for one in _totals(rows)),
    ]


def checked(healthy: Sequence[dict[str, Any]]) -> list[str]:
    """Tell what each watch was set to at each temperature, and how often it is raised on other whole replies."""
    lines = [
        *_head(
            *("temperature", "watch", "tokens below", "mean above"),
            *("false alarms", "by improbable tokens", "by the mean", "loops"),
        ),
    ]
    for base in healthy:
        for name, limits in base["watches"].items():
            one = base["held out"]["watches"][name]
            mean = f"{limits['surprise']:.2f}" if limits["surprise"] else "off"
            each = " | ".join(_percent(one["alarms"][why]) for why in ("improbable", "surprise", "loop"))
            false = _rate(one["any but loops"])
            lines.append(
                f"| {base['temperature']:g} | {name} | {limits['logprob']:.2f} | {mean} | {false} | {each} |"
            )
    return lines


def _cost(one: dict[str, Any], whole: float | None) -> Iterator[str]:
    yield one["policy"] + (f", {FEWER[one['share']]} of 6" if one["policy"] == "fewer experts" else "")
    yield f"{100 * one['bytes']:.1f} %"
    yield _spread(one["kl"])
    yield f"{one['kl']['mean'] / whole:,.0f}" if whole else ""
    yield f"{one['worst reply']:#.2g}"
    yield f"{one['collapsed']['of']['hits']:,}: {_rate(one['collapsed'])}"


def _repairs(one: dict[str, Any]) -> Iterator[str]:
    """Give replies saved less those made, of each watch under each hold."""
    for hold in HOLDS:
        for watch in WATCHES:
            of = one["repaired"][hold][watch]
            made = f" - {of['made']}" if of["made"] else ""
            yield f"{of['saved']['of']['hits']}{made}"


def _totals(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    cuts = [one for one in rows if one["policy"] != "full"]
    for temperature in dict.fromkeys(one["temperature"] for one in cuts):
        for name, mild in (("mild", True), ("all others", False)):
            of = [one for one in cuts if one["temperature"] == temperature and _mild(one) == mild]
            every = [sum(one["collapsed"]["of"][what] for one in of) for what in ("replies", "hits")]
            for watch in WATCHES if of else ():
                seen = [
                    sum(one["watches"][watch][what] for one in of) for what in ("on collapsed", "in time")
                ]
                fates = [each for hold in HOLDS for each in _fate(of, hold, watch)]
                yield (
                    f"{temperature:g}",
                    name,
                    *(f"{each:,}" for each in every),
                    watch,
                    *(f"{each:,}" for each in (*seen, *fates)),
                )


def _fate(rows: Sequence[dict[str, Any]], hold: str, watch: str) -> tuple[int, int, int]:
    """Return how many replies are saved, made, and still collapse."""
    of = [one["repaired"][hold][watch] for one in rows]
    return (
        sum(one["saved"]["of"]["hits"] for one in of),
        sum(one["made"] for one in of),
        sum(one["collapsed"]["of"]["hits"] for one in of),
    )


def _mild(one: dict[str, Any]) -> bool:
    return bool(one["share"] >= MILD and one["policy"] != "uniform")


def _crossed(
    rows: Sequence[dict[str, Any]], corner: str, down: tuple[str, str], across: tuple[str, str]
) -> list[str]:
    """Return KL and bytes by two keys, each with the words around its values."""
    columns = list(dict.fromkeys(one[across[0]] for one in rows))
    if across[0] == "rows":
        columns.sort()
    lines = [*_head(corner, *(across[1].format(one) for one in columns))]
    for name in dict.fromkeys(one[down[0]] for one in rows):
        of = {one[across[0]]: one for one in rows if one[down[0]] == name}
        cells = [
            f"{_spread(of[one]['kl'])}, {100 * of[one]['bytes']:.1f} %" if one in of else ""
            for one in columns
        ]
        lines.append(f"| {down[1].format(name)} | {' | '.join(cells)} |")
    return lines


def _head(*columns: str) -> tuple[str, str]:
    return f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"


def _rate(one: dict[str, Any]) -> str:
    return f"{_percent(one)} ({_two(100 * one['low'])} to {_two(100 * one['high'])})"


def _percent(one: dict[str, Any]) -> str:
    return f"{_two(100 * one['rate'])} %"


def _two(value: float) -> str:
    """Write two significant digits."""
    return f"{value:.0f}" if value >= 9.95 or not value else f"{value:#.2g}"


def _spread(kl: dict[str, float]) -> str:
    return f"{kl['mean']:.3g} ({kl['low']:.3g} to {kl['high']:.3g})"
