"""What benchmarks/exl3_kernel.py found, as values, held against its bars, as a JSON document, a table and a plot."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budget_kernel_report import Case, Ceiling

FULL, HALF = "full", "half the blocks"
# Ours, from what a prototype of the same decode reached on one H200, a plan and down estimated; the aims are in docs/exl3.md.
SHARE = {3: {4: 0.36, 16: 0.44, 32: 0.46, 64: 0.47}, 4: {64: 0.66}, 2: {64: 0.38}}
MOST_US = {3: {1: 22.0}}
RATIO = {16: 0.56, 32: 0.54, 64: 0.53}
OF_DECODE, OF_DECODE_FROM = 0.88, 64
"""Least share of the rate of decoding alone, at the row count where launches and barriers weigh least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What decoding and multiplying alone reach."""

    bits: int
    exact: bool
    gb_per_s: float
    instructions: float | None
    """Lane-instructions a weight, of the loop's machine code."""
    clock_mhz: float
    watts: float

    @property
    def weights_per_s(self) -> float:
        """Weights a second."""
        return self.gb_per_s * 1e9 * 8 / self.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The cases of one format; bits is none for MXFP4."""

    name: str
    bits: int | None
    exact: bool
    cases: tuple[Case, ...]

    def full(self, rows: int) -> Case:
        """The whole read of a row count."""
        return next(one for one in self.cases if one.rows == rows and one.name == FULL)


def faults(groups: Sequence[Group], decoded: Sequence[Decoded], ceiling: Ceiling) -> list[str]:
    """Return every bar that is missed, measured and wanted; the exact way has none."""
    rates = {(one.bits, one.exact): one for one in decoded}
    found = []
    for group in groups:
        if group.bits is None or group.exact:
            continue
        for one in group.cases:
            found += _of_case(group, one, rates[group.bits, group.exact], ceiling)
    return found


def _of_case(group: Group, one: Case, rate: Decoded, ceiling: Ceiling) -> list[str]:
    assert group.bits is not None  # noqa: S101 - what the caller asks, for the type checker
    at, share = f"{group.name}, {one.rows} rows, {one.name}", one.gb_per_s / ceiling.gb_per_s
    if one.name == HALF:
        ratio, wanted = one.us / group.full(one.rows).us, RATIO.get(one.rows, np.inf)
        missed = group.bits == 3 and ratio > wanted
        return [f"{at}: {ratio:.3f} of the full time, wanted at most {wanted}"] if missed else []
    found = []
    least = SHARE[group.bits].get(one.rows, 0)
    if share < least:
        found.append(f"{at}: {share:.1%} of the read ceiling, wanted {least:.0%}")
    most = MOST_US.get(group.bits, {}).get(one.rows, np.inf)
    if one.us > most:
        found.append(f"{at}: {one.us:.1f} us, wanted at most {most} us")
    if one.rows >= OF_DECODE_FROM and one.gb_per_s < OF_DECODE * rate.gb_per_s:
        found.append(f"{at}: {one.gb_per_s / rate.gb_per_s:.1%} of the decode rate, wanted {OF_DECODE:.0%}")
    return found


def document(
    groups: Sequence[Group],
    decoded: Sequence[Decoded],
    ceiling: Ceiling,
    found: Sequence[str],
    device: str,
) -> dict[str, Any]:
    """Return everything as one document."""
    import torch  # noqa: PLC0415 - only for its version

    return {
        "device": device,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "ceiling": asdict(ceiling),
        "decode": [{**asdict(one), "weights_per_s": one.weights_per_s} for one in decoded],
        "groups": [
            {
                "name": group.name,
                "bits": group.bits,
                "exact": group.exact,
                "cases": [_told(group, one, ceiling) for one in group.cases],
            }
            for group in groups
        ],
        "missed": list(found),
    }


def _told(group: Group, one: Case, ceiling: Ceiling) -> dict[str, Any]:
    whole = group.full(one.rows)
    return {
        **asdict(one),
        "gb_per_s": one.gb_per_s,
        "share_of_ceiling": one.gb_per_s / ceiling.gb_per_s,
        "time_of_full": one.us / whole.us,
        "bytes_of_full": one.megabytes / whole.megabytes,
    }


def table(groups: Sequence[Group], decoded: Sequence[Decoded], ceiling: Ceiling, found: Sequence[str]) -> str:
    """Return everything as text."""
    text = [f"read ceiling {ceiling.gb_per_s:.0f} GB/s at {ceiling.clock_mhz:.0f} MHz"]
    rates = {(one.bits, one.exact): one for one in decoded}
    for rate in decoded:
        counted = (
            "not counted" if rate.instructions is None else f"{rate.instructions:.2f} instructions a weight"
        )
        text.append(
            f"decode alone, K={rate.bits} {'exact' if rate.exact else 'fast '}: {rate.gb_per_s:5.0f} GB/s, {rate.gb_per_s / ceiling.gb_per_s:.1%},"
            f" {rate.weights_per_s / 1e12:.2f} T weights/s, {counted}, {rate.clock_mhz:.0f} MHz"
        )
    for group in groups:
        text += [
            "",
            group.name,
            "rows  case               us     (low-high)     MB    GB/s  share  decode  time  bytes   MHz    W",
        ]
        for one in group.cases:
            whole = group.full(one.rows)
            of_decode = (
                "     -"
                if group.bits is None
                else f"{one.gb_per_s / rates[group.bits, group.exact].gb_per_s:6.1%}"
            )
            text.append(
                f"{one.rows:4d}  {one.name:15s} {one.us:6.1f} ({min(one.each_us):6.1f}-{max(one.each_us):6.1f}) {one.megabytes:7.1f} {one.gb_per_s:6.0f}"
                f" {one.gb_per_s / ceiling.gb_per_s:6.1%} {of_decode} {one.us / whole.us:5.3f} {one.megabytes / whole.megabytes:5.3f} {one.clock_mhz:5.0f} {one.watts:4.0f}"
            )
    return "\n".join([*text, "", *(f"missed: {one}" for one in found)])


def plotted(groups: Sequence[Group], ceiling: Ceiling, path: Path) -> None:
    """Draw time over bytes, one colour a format, beside the read ceiling."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - slow to import, and only the plot needs it

    figure, axes = plt.subplots(figsize=(7, 5))
    for group in groups:
        mine = sorted(group.cases, key=lambda one: one.megabytes)
        axes.plot(
            [one.megabytes for one in mine],
            [one.us for one in mine],
            "o-",
            label=group.name,
            markersize=4,
            linewidth=0.7,
        )
    most = max(one.megabytes for group in groups for one in group.cases)
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
