"""The roofline as a picture: a GPU's roofs, a model's ceiling, and where batches stand. PNG or SVG by the file's ending."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from launcher.capacity.preset import Hardware, Model
from sparkctl.errors import FileFault
from tuner.roofline import expert

_POINTS = 200


def draw(path: Path, gpu: Hardware, model: Model, points: Mapping[str, float]) -> None:
    """Write the picture; `points` are intensities in FLOPs a byte by what stands beside them.

    Raises:
        FileFault: the file cannot be written.

    """
    made = figure(gpu, model, points)
    # The same picture gives the same bytes: no date, and names of a picture's parts that do not change.
    with mpl.rc_context({"svg.hashsalt": "sparkctl"}):
        try:
            made.savefig(
                path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None}, dpi=150
            )
        except OSError as fault:
            raise FileFault(
                f"{path}: cannot be written: {fault.strerror}", hint="name another file with --plot"
            ) from fault


def figure(gpu: Hardware, model: Model, points: Mapping[str, float]) -> Figure:
    """Return the picture."""
    made = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = made.subplots()
    shape = model.experts
    lowest, highest = _reach(gpu, model, points)
    grid = [lowest * (highest / lowest) ** (at / _POINTS) for at in range(_POINTS + 1)]
    for name, speed in gpu.bandwidth_gb_s.items():
        roof = expert.roof(gpu, shape, name)
        heights = [min(roof.flop_s, at * roof.bytes_s) / 1e12 for at in grid]
        axes.plot(grid, heights, label=f"{speed:,g} GB/s ({name}), ridge {roof.ridge:,.0f}")
    axes.axvline(expert.ceiling(shape), linestyle=":", color="0.5", label="ceiling of one token's bytes")
    roof = expert.roof(gpu, shape)
    for name, at in points.items():
        height = min(roof.flop_s, at * roof.bytes_s) / 1e12
        axes.plot([at], [height], "o", color="black", markersize=4)
        axes.annotate(name, (at, height), xytext=(5, -11), textcoords="offset points", fontsize=8)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="FLOPs a byte, activations counted",
        ylabel=f"TFLOP/s a GPU ({shape.arithmetic})",
        title=f"{model.name} on {gpu.name}: routed experts, predicted",
    )
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    return made


def _reach(gpu: Hardware, model: Model, points: Mapping[str, float]) -> tuple[float, float]:
    """Return from where to where the axis goes: all points, every ridge and the ceiling."""
    shape = model.experts
    ridges = [expert.roof(gpu, shape, name).ridge for name in gpu.bandwidth_gb_s]
    marks = [*points.values(), *ridges, expert.ceiling(shape)]
    return min(marks) / 2, max(marks) * 2
