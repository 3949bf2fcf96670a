"""Parts of the policies' run on the mini model: what the whole model sets, what a policy writes and how it is judged, and the floor of a restart."""

import argparse
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mini_moe_collapse as collapse
import mini_moe_repairs as repairs
import mini_moe_restart
import mini_moe_steps as steps
from mini_moe import Mini
from mini_moe_judge import predictions
from mini_moe_replies import PROMPT, divergence
from mini_moe_shares import Named
from proxy import calibration
from proxy.thresholds import Limits

WATCHES = {"improbable": 1, "both": calibration.EVERY}
"""The alarm on improbable tokens alone and with the mean beside it, by which of the cuts are its own when they are calibrated; both watch for loops."""
SHOWN = 256
"""Replies of a policy that are kept: so many that collapsed and so many that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every run shares."""

    model: Mini
    held: torch.Tensor
    pool: Executor
    asked: argparse.Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """What the whole model's own replies set at a temperature: limits of collapse, and of each watch."""

    temperature: float
    limits: collapse.Limits
    watches: Mapping[str, Limits]


def healthy(ground: Ground, temperature: float, sets: dict[float, Set]) -> dict[str, Any]:
    """Let the whole model write, set the limits, and check them on other prompts."""
    known, other = (_whole(ground, temperature, seed) for seed in (11, 12))
    silent = {"": Limits(logprob=float("-inf"))}
    marks = collapse.watched(ground.pool, known.replies, known.written.logprobs, silent)[""]
    depths = [one.depths for one in marks if one.reason != "loop"]
    loops = {temperature: len(marks) - len(depths)}
    found = {
        name: calibration.calibrate("mini", {temperature: depths}, loops, every=every)
        for name, every in WATCHES.items()
    }
    watches = {name: one.at(temperature) for name, one in found.items()}
    of = Set(temperature=temperature, limits=collapse.limits(known.shape), watches=watches)
    sets[temperature] = of
    heard = collapse.watched(ground.pool, other.replies, other.written.logprobs, watches)
    return {
        **asdict(of), "rows": {name: [asdict(each) for each in one.thresholds] for name, one in found.items()},
        "calibration": known.told(ground, of, "calibration"),
        "held out": {**other.told(ground, of, "held-out"), "watches": _alarms(heard, other.shape, of.limits)},
    }  # fmt: skip


def told(ground: Ground, one: Named, of: Set) -> dict[str, Any]:
    """Let a policy write, raise the alarms, go on with whole reads behind them, and judge all."""
    asked = ground.asked
    chance = torch.Generator(ground.held.device).manual_seed(21)
    begun = steps.prompts(ground.held, asked.replies, 21)
    cut = one.cut(asked.rows) if one.cut else None
    served = steps.written(
        ground.model, begun, cut=cut, temperature=of.temperature, chance=chance, first=asked.first
    )
    losses, kl = steps.judged(ground.model, served)
    replies = served.talks[:, PROMPT:]
    shape = collapse.shape(losses, replies)
    collapsed = shape.collapsed(of.limits)
    marks = collapse.watched(ground.pool, replies, served.logprobs, of.watches)
    after = repairs.repaired(
        ground.model, served, marks, collapsed=collapsed, limits=of.limits, temperature=of.temperature
    )
    shown = np.concatenate((np.flatnonzero(collapsed)[:SHOWN], np.flatnonzero(~collapsed)[:SHOWN]))
    name = f"{one.name}-{one.share}-{of.temperature:g}"
    keep(asked.kept, name, served, losses=losses, shown=shown, collapsed=collapsed)
    answer = {
        "policy": one.name, "share": one.share, "temperature": of.temperature, "rows": asked.rows,
        "bytes": cut.share if cut else 1.0, "loss": float(losses.mean()), "replies": len(collapsed),
        "collapsed": int(collapsed.sum()), "watches": _alarms(marks, shape, of.limits),
        "repaired": repairs.counted(collapsed, after),
    }  # fmt: skip
    return {**answer, **_of_replies(kl, collapsed[: len(kl)])}


def keep(  # noqa: PLR0913 - what is kept of a part
    folder: Path | None,
    name: str,
    one: steps.Written,
    *,
    losses: torch.Tensor,
    shown: np.ndarray,
    collapsed: np.ndarray,
) -> None:
    """Save tokens, log-probabilities as served and losses by the whole model of the replies `shown`, and which of them collapsed."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    at = torch.from_numpy(shown).to(one.talks.device)
    tokens = one.talks[at, PROMPT:].cpu().numpy().astype(np.uint16)
    told, judged = (each[at].half().cpu().numpy() for each in (one.logprobs, losses))
    path = folder / f"{name.replace(' ', '-').replace(',', '')}.npz"
    np.savez_compressed(path, tokens=tokens, logprobs=told, losses=judged, collapsed=collapsed[shown])


def of_size(ground: Ground, one: Named, rows: int) -> dict[str, Any]:
    """Tell the KL of a policy at another step size, at temperature 1."""
    chance = torch.Generator(ground.held.device).manual_seed(31)
    begun = steps.prompts(ground.held, ground.asked.first, 31)
    cut = one.cut(rows) if one.cut else None
    served = steps.written(
        ground.model, begun, cut=cut, temperature=1.0, chance=chance, first=ground.asked.first
    )
    _, kl = steps.judged(ground.model, served)
    answer = {"policy": one.name, "share": one.share, "rows": rows, "bytes": cut.share if cut else 1.0}
    return {**answer, **_of_replies(kl, np.zeros(len(kl), dtype=bool))}


def along(ground: Ground, one: Named, talks: torch.Tensor, whole: torch.Tensor) -> dict[str, Any]:
    """Tell the KL of a policy along replies of the whole model, all of them one step at each place."""
    if one.cut is None:
        raise ValueError(f"{one.name} reads whole: its KL along given replies is 0")
    neurons = ground.model.shape.moe_intermediate_size
    cut = steps.Aligned(steps=one.cut(len(talks)), conversations=len(talks), neurons=neurons)
    kl = divergence(whole, predictions(ground.model, talks, cut))
    answer = {"policy": one.name, "share": one.share, "rows": len(talks), "bytes": cut.steps.share}
    return {**answer, **_of_replies(kl, np.zeros(len(kl), dtype=bool))}


def restart(ground: Ground) -> dict[str, Any]:
    """Decode replies of the whole model again in other company."""
    chance = torch.Generator(ground.held.device).manual_seed(41)
    begun = steps.prompts(ground.held, 128, 41)
    one = steps.written(ground.model, begun, cut=None, temperature=1.0, chance=chance)
    floor = mini_moe_restart.restart_floor(ground.model, one.talks)
    ground.model.dtype = torch.bfloat16
    return {"floor": floor}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """What the whole model wrote, what each token lost, and the windows."""

    written: steps.Written
    losses: torch.Tensor
    shape: collapse.Shape

    @property
    def replies(self) -> torch.Tensor:
        return self.written.talks[:, PROMPT:]

    def told(self, ground: Ground, of: Set, kind: str) -> dict[str, Any]:
        """Keep it, and count what collapsed."""
        collapsed = self.shape.collapsed(of.limits)
        name, shown = f"healthy-{of.temperature:g}-{kind}", np.arange(len(collapsed))
        keep(ground.asked.kept, name, self.written, losses=self.losses, shown=shown, collapsed=collapsed)
        loss = float(self.losses.mean())
        return {"replies": len(collapsed), "collapsed": int(collapsed.sum()), "loss": loss}


def _whole(ground: Ground, temperature: float, seed: int) -> _Whole:
    """Let the whole model write behind prompts of this seed."""
    chance = torch.Generator(ground.held.device).manual_seed(seed)
    begun = steps.prompts(ground.held, ground.asked.healthy, seed)
    one = steps.written(ground.model, begun, cut=None, temperature=temperature, chance=chance)
    losses, _ = steps.judged(ground.model, one)
    return _Whole(written=one, losses=losses, shape=collapse.shape(losses, one.talks[:, PROMPT:]))


def _alarms(
    marks: Mapping[str, list[collapse.Mark]], shape: collapse.Shape, limits: collapse.Limits
) -> dict[str, Any]:
    """Tell of each watch why it raised an alarm, on how many that collapse, and on how many before that had happened."""
    fallen = shape.fallen(limits)
    answer = {}
    for name, found in marks.items():
        at = np.array([one.at for one in found])
        seen = (at > 0) & (fallen > 0)
        reasons = [one.reason for one in found if one.at]
        answer[name] = {
            "alarms": {reason: reasons.count(reason) for reason in ("improbable", "surprise", "loop")},
            "on collapsed": int(seen.sum()),
            "in time": int((seen & (at < fallen)).sum()),
            "median token": float(np.median(at[at > 0])) if reasons else None,
        }
    return answer


def _of_replies(kl: torch.Tensor, collapsed: np.ndarray) -> dict[str, Any]:
    """Tell each reply's mean KL, so that intervals can be drawn and the worst be seen."""
    each = kl.double().mean(1).cpu().numpy()
    return {
        "reply kl": [round(float(one), 6) for one in each],
        "reply collapsed": [int(place) for place in np.flatnonzero(collapsed)],
    }
