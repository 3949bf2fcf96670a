"""Replies of the mini model taken up with whole reads where the proxy raised its alarm: which of them collapse then, under each watch.

All watches look at the same replies, and two that take up a reply at the same token share what follows, so that they differ by nothing but the
alarm. The tokens that stand are read whole too when a reply is taken up; a server may find what a cut read left of them in its cache.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import mini_moe_collapse as collapse
import mini_moe_steps as steps
from mini_moe import Mini
from mini_moe_replies import PROMPT

HOLDS = (0, 64)
"""Tokens that are held back: none, as the proxy does it unless asked, and as many as the window of the mean."""

Fate = NDArray[np.bool_]
"""Which replies collapse, [replies]."""
Way = tuple[str, int]
"""A watch, and the tokens that are held back."""


def repaired(  # noqa: PLR0913 - what a repair is made of
    model: Mini,
    served: steps.Written,
    marks: Mapping[str, Sequence[collapse.Mark]],
    *,
    collapsed: Fate,
    limits: collapse.Limits,
    temperature: float,
) -> dict[Way, Fate]:
    """Return the fate of all replies where those with an alarm are read whole from their last token on that stands."""
    taken = {
        (watch, hold): {row: mark.kept(hold) for row, mark in enumerate(found) if mark.at}
        for watch, found in marks.items()
        for hold in HOLDS
    }
    again = _again(
        model, served, {each for one in taken.values() for each in one.items()}, limits, temperature
    )
    answer = {way: collapsed.copy() for way in taken}
    for way, rows in taken.items():
        for row, kept in rows.items():
            answer[way][row] = again[row, kept]
    return answer


def counted(collapsed: Fate, after: Mapping[Way, Fate]) -> dict[str, Any]:
    """Tell of each hold how many replies still collapse under a watch, how many it saves, how many collapse for it, and what it alone saves."""
    answer: dict[str, Any] = {}
    for (watch, hold), fate in after.items():
        saved = collapsed & ~fate
        others = [collapsed & ~one for (name, held), one in after.items() if held == hold and name != watch]
        answer.setdefault(str(hold), {})[watch] = {
            "collapsed": int(fate.sum()),
            "saved": int(saved.sum()),
            "made": int((fate & ~collapsed).sum()),
            "saved by no other": int((saved & ~np.any(others, axis=0)).sum()) if others else int(saved.sum()),
        }
    return answer


def _again(
    model: Mini,
    served: steps.Written,
    taken: Iterable[tuple[int, int]],
    limits: collapse.Limits,
    temperature: float,
) -> dict[tuple[int, int], bool]:
    """Write each reply, by its place, from behind so many tokens on; tell whether it collapses."""
    pairs = sorted(taken)
    if not pairs:
        return {}
    rows, given = torch.tensor(pairs, device=served.talks.device).T
    chance = torch.Generator(rows.device).manual_seed(22)
    one = steps.written(
        model, served.talks[rows], cut=None, temperature=temperature, chance=chance, given=given
    )
    losses, _ = steps.judged(model, one)
    fate = collapse.shape(losses, one.talks[:, PROMPT:]).collapsed(limits)
    return dict(zip(pairs, fate.tolist(), strict=True))
