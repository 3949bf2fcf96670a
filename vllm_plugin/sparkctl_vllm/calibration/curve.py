"""Energy curves: how much of a layer's expert output is kept when every expert is read only so deep, for four orders of its neurons. Pure.

As shipped, whole groups of 32 (what an MXFP4 down weight allows without a new quantisation), whole blocks of 128 (what an EXL3 checkpoint
allows without one), and neuron by neuron.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparkctl_vllm.calibration.moments import Floats
from sparkctl_vllm.calibration.order import order

ORDERS = {"natural": 0, "groups of 32": 32, "blocks of 128": 128, "neurons": 1}
"""Neurons that move together; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Shares of the bytes that are read, ascending to 1, and for each order the share of the energy that each of them keeps."""

    read: tuple[float, ...]
    kept: Mapping[str, tuple[float, ...]]

    def at(self, order_name: str, share: float) -> float:
        """Return what is kept when this share of the bytes is read, between two depths on the line that joins them."""
        return float(np.interp(share, [0.0, *self.read], [0.0, *self.kept[order_name]]))


def curve(energy: Floats, asked: Floats, widths: Sequence[int], tile: int) -> Curve:
    """Return the curve of a layer: energy [experts, neurons], `asked` [experts] how often each was asked.

    All ranks read 1, 2, ... tiles of their slices, a narrow one at most all of its own. An expert weighs as often as it was asked; where none
    was, all weigh alike. An order whose groups do not fit the slices is left out.
    """
    weights = asked if asked.sum() > 0 else np.ones_like(asked)
    kept = {}
    for name, group in ORDERS.items():
        if group and any(width % group for width in widths):
            continue
        natural = np.broadcast_to(np.arange(energy.shape[1]), energy.shape)
        places = order(energy, widths, group) if group else natural
        kept[name] = _kept(weights @ np.take_along_axis(energy, places, axis=1), widths, tile)
    depths = range(1, max(widths) // tile + 1)
    read = tuple(sum(min(width, depth * tile) for width in widths) / sum(widths) for depth in depths)
    return Curve(read=read, kept=kept)


def _kept(energy: Floats, widths: Sequence[int], tile: int) -> tuple[float, ...]:
    total, kept = float(energy.sum()), []
    for depth in range(1, max(widths) // tile + 1):
        begin, part = 0, 0.0
        for width in widths:
            part += float(energy[begin : begin + min(width, depth * tile)].sum())
            begin += width
        kept.append(part / total if total > 0 else 1.0)
    return tuple(kept)
