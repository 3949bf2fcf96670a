"""A comparison as a picture: each metric's ratio with its interval, beside the line of no difference. PNG or SVG."""

import math
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ledger.compared import Compared
from sparkctl.errors import FileFault


def draw(path: Path, found: Compared) -> None:
    """Write the picture.

    Raises:
        FileFault: the file cannot be written, or its ending names no picture.

    """
    with mpl.rc_context({"svg.hashsalt": "sparkctl"}):
        try:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure(found).savefig(path, metadata=metadata, dpi=150)
        except (OSError, ValueError) as fault:
            raise FileFault(
                f"{path}: cannot be drawn: {fault}", hint="name a .png or .svg file with --plot"
            ) from fault


def figure(found: Compared) -> Figure:
    """Return the picture; a metric whose interval is not known is a hollow mark without one."""
    made = Figure(figsize=(7.2, 1.4 + 0.4 * len(found.lines)), layout="constrained")
    axes = made.subplots()
    for at, one in enumerate(reversed(found.lines)):
        ratio, low, high = (
            (value - 1) * 100 for value in (one.comparison.estimate, one.comparison.low, one.comparison.high)
        )
        known = one.comparison.low > 0 and math.isfinite(high)
        if known:
            axes.plot([low, high], [at, at], color="0.3")
        axes.plot([ratio], [at], "o", color="black", fillstyle="full" if known else "none", markersize=5)
    axes.axvline(0, color="0.6", linestyle=":")
    axes.set_yticks(range(len(found.lines)), [one.metric for one in reversed(found.lines)])
    axes.set(xlabel="B over A, %", title=f"A: {found.first.name}\nB: {found.second.name}")
    axes.title.set_fontsize(9)
    axes.grid(visible=True, axis="x", alpha=0.3)
    return made
