"""What benchmarks/budget_kernel.py found, as values, held against its bars, as a JSON document, a table and a plot."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

FULL = "full"
# Ours, from what a prototype and a plain read reached on one H200; every ratio is of the fastest full-depth time of the run.
SHARE = {16: 0.88, 32: 0.90, 64: 0.90, 8: 0.83, 4: 0.72}
MOST_US = {1: 12.5}
RATIO = {
    "water-filled 0.5": {16: 0.56, 32: 0.54, 64: 0.52},
    "water-filled 0.25": {16: 0.32, 32: 0.30, 64: 0.28},
}
SLOWER, T0_US, SLOPE, R2, R2_FROM = 0.03, 8.0, 0.90, 0.995, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a plain read reaches."""

    gb_per_s: float
    blocks: int
    clock_mhz: float
    watts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way of reading at one step size."""

    rows: int
    name: str
    us: float
    """Median time of a layer."""
    each_us: tuple[float, ...]
    megabytes: float
    """Mean bytes that the plan needs, in 10^6."""
    clock_mhz: float
    watts: float

    @property
    def gb_per_s(self) -> float:
        """Bytes that were needed over the time."""
        return self.megabytes / self.us * 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """t = t0 + bytes / slope."""

    t0_us: float
    gb_per_s: float
    r2: float
    points: int


def fitted(cases: Sequence[Case]) -> Line:
    """Return the least-squares line through time over bytes."""
    size = np.array([one.megabytes for one in cases])
    time = np.array([one.us for one in cases])
    slope, t0 = np.polyfit(size, time, 1)
    off = time - (t0 + slope * size)
    r2 = 1 - float((off**2).sum() / ((time - time.mean()) ** 2).sum())
    return Line(t0_us=float(t0), gb_per_s=float(1e3 / slope), r2=r2, points=len(cases))


def lines(cases: Sequence[Case]) -> dict[str, Line]:
    """Return the fit over all cases, and of each step size with enough of them."""
    answer = {"pooled": fitted(cases)} if len(cases) > 2 else {}
    for rows in sorted({one.rows for one in cases}):
        mine = [one for one in cases if one.rows == rows]
        if len(mine) > 3:
            answer[f"rows {rows}"] = fitted(mine)
    return answer


def faults(cases: Sequence[Case], ceiling: Ceiling) -> list[str]:
    """Return every bar that is missed, measured and wanted."""
    full = {one.rows: one for one in cases if one.name == FULL}
    found = []
    for rows, one in full.items():
        share = one.gb_per_s / ceiling.gb_per_s
        if share < SHARE.get(rows, 0):
            found.append(f"{rows} rows, full: {share:.1%} of the read ceiling, wanted {SHARE[rows]:.0%}")
        if one.us > MOST_US.get(rows, np.inf):
            found.append(f"{rows} rows, full: {one.us:.1f} us, wanted at most {MOST_US[rows]} us")
    for one in cases:
        wanted = RATIO.get(one.name, {}).get(one.rows, np.inf)
        ratio = one.us / full[one.rows].us
        if ratio > wanted:
            found.append(
                f"{one.rows} rows, {one.name}: {ratio:.3f} of the full time, wanted at most {wanted}"
            )
    found += _against_uniform(cases)
    for name, line in lines(cases).items():
        found += _of_line(name, line, ceiling)
    return found


def _against_uniform(cases: Sequence[Case]) -> list[str]:
    by_name = {(one.rows, one.name): one for one in cases}
    found = []
    for (rows, name), uniform in by_name.items():
        filled = by_name.get((rows, name.replace("uniform", "water-filled")))
        if not name.startswith("uniform") or filled is None or rows < R2_FROM:
            continue
        # At equal bytes: what the fill reads more or less is taken off at the speed of the uniform read.
        slower = (
            filled.us - (filled.megabytes - uniform.megabytes) / uniform.gb_per_s * 1e3
        ) / uniform.us - 1
        if slower > SLOWER:
            found.append(
                f"{rows} rows, water-filled beside {name}: {slower:+.1%} at equal bytes, wanted at most +{SLOWER:.0%}"
            )
    return found


def _of_line(name: str, line: Line, ceiling: Ceiling) -> list[str]:
    found = []
    if name == "pooled":
        if line.t0_us > T0_US:
            found.append(f"pooled fit: t0 {line.t0_us:.1f} us, wanted at most {T0_US} us")
        if line.gb_per_s < SLOPE * ceiling.gb_per_s:
            found.append(
                f"pooled fit: slope {line.gb_per_s / ceiling.gb_per_s:.1%} of the ceiling, wanted {SLOPE:.0%}"
            )
    if line.r2 < R2 and (name == "pooled" or int(name.split()[1]) >= R2_FROM):
        found.append(f"{name} fit: R2 {line.r2:.4f}, wanted {R2}")
    return found


def document(
    cases: Sequence[Case], ceiling: Ceiling, ceilings: Sequence[Ceiling], found: Sequence[str], device: str
) -> dict[str, Any]:
    """Return everything as one document."""
    return {
        "schema": 1,
        "device": device,
        "host": platform.node(),
        "ceiling": asdict(ceiling),
        "ceilings_before_and_after": [asdict(one) for one in ceilings],
        "cases": [
            {**asdict(one), "gb_per_s": one.gb_per_s, "share": one.gb_per_s / ceiling.gb_per_s}
            for one in cases
        ],
        "fits": {name: asdict(line) for name, line in lines(cases).items()},
        "missed": list(found),
    }


def table(cases: Sequence[Case], ceiling: Ceiling, found: Sequence[str]) -> str:
    """Return a table to read."""
    full = {one.rows: one for one in cases if one.name == FULL}
    text = [
        f"read ceiling {ceiling.gb_per_s:.0f} GB/s at {ceiling.clock_mhz:.0f} MHz, {ceiling.watts:.0f} W",
        "",
    ]
    text.append(
        "rows  case                   us     (low-high)     MB    GB/s  share  time  bytes   MHz    W"
    )
    for one in cases:
        whole = full[one.rows]
        text.append(
            f"{one.rows:4d}  {one.name:19s} {one.us:6.1f} ({min(one.each_us):6.1f}-{max(one.each_us):6.1f}) {one.megabytes:7.1f} {one.gb_per_s:6.0f}"
            f" {one.gb_per_s / ceiling.gb_per_s:6.1%} {one.us / whole.us:5.3f}  {one.megabytes / whole.megabytes:5.3f} {one.clock_mhz:5.0f} {one.watts:4.0f}"
        )
    text += [
        "",
        *(
            f"{name}: t0 {line.t0_us:.1f} us, {line.gb_per_s:.0f} GB/s, R2 {line.r2:.4f}, {line.points} points"
            for name, line in lines(cases).items()
        ),
    ]
    return "\n".join([*text, "", *(f"missed: {one}" for one in found)])


def plotted(cases: Sequence[Case], ceiling: Ceiling, path: Path) -> None:
    """Draw time over bytes, one colour a step size, beside the read ceiling."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - slow to import, and only the plot needs it

    figure, axes = plt.subplots(figsize=(7, 5))
    for rows in sorted({one.rows for one in cases}):
        mine = [one for one in cases if one.rows == rows]
        axes.plot(
            [one.megabytes for one in mine], [one.us for one in mine], "o", label=f"{rows} rows", markersize=4
        )
    most = max(one.megabytes for one in cases)
    axes.plot(
        [0, most],
        [0, most / ceiling.gb_per_s * 1e3],
        "k--",
        linewidth=1,
        label=f"read ceiling, {ceiling.gb_per_s:.0f} GB/s",
    )
    axes.set_xlabel("bytes that the plan needs, MB a layer")
    axes.set_ylabel("time of a layer, us (median, planning included)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
