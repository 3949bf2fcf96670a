"""Parts of the policies' run on the mini model: what the whole model sets, what a policy writes and how it is judged, and the floor of a restart."""

import argparse
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mini_moe_collapse as collapse
import mini_moe_restart
import mini_moe_steps as steps
from mini_moe import Mini
from mini_moe_judge import predictions
from mini_moe_replies import PROMPT, divergence
from mini_moe_shares import Named
from proxy import calibration
from proxy.thresholds import Limits

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
    """What the whole model's own replies set at a temperature: limits of collapse, and the thresholds of the alarms."""

    temperature: float
    limits: collapse.Limits
    threshold: float
    surprise: float | None

    @property
    def alarmed(self) -> Limits:
        """What the proxy watches for."""
        return Limits(logprob=self.threshold, surprise=self.surprise)


def healthy(ground: Ground, temperature: float, sets: dict[float, Set]) -> dict[str, Any]:
    """Let the whole model write, set limits and threshold, and check both on other prompts."""
    asked, answer = ground.asked, {}
    for kind, seed in (("calibration", 11), ("held out", 12)):
        chance = torch.Generator(ground.held.device).manual_seed(seed)
        begun = steps.prompts(ground.held, asked.healthy, seed)
        one = steps.written(ground.model, begun, cut=None, temperature=temperature, chance=chance)
        losses, _ = steps.judged(ground.model, one)
        replies = one.talks[:, PROMPT:]
        shape = collapse.shape(losses, replies)
        if kind == "calibration":
            marks = collapse.watched(ground.pool, replies, one.logprobs, Limits(logprob=float("-inf")))
            depths = [one for _, why, one in marks if why != "loop"]
            found = calibration.calibrate(
                "mini", {temperature: depths}, {temperature: len(marks) - len(depths)}
            )
            at = found.at(temperature)
            sets[temperature] = Set(
                temperature=temperature,
                limits=collapse.limits(shape),
                threshold=at.logprob,
                surprise=at.surprise,
            )
            answer["row"] = [asdict(one) for one in found.thresholds]
        else:
            marks = collapse.watched(ground.pool, replies, one.logprobs, sets[temperature].alarmed)
        collapsed = shape.collapsed(sets[temperature].limits)
        answer[kind] = {"replies": len(marks), "collapsed": int(collapsed.sum()), **_alarms(marks, collapsed)}
        answer[kind]["loss"] = float(losses.mean())
        keep(
            asked.kept,
            f"healthy-{temperature:g}-{kind}",
            one,
            losses=losses,
            shown=np.arange(len(marks)),
            collapsed=collapsed,
        )
    return {**answer, **asdict(sets[temperature])}


def told(ground: Ground, one: Named, of: Set) -> dict[str, Any]:
    """Let a policy write, raise the alarm, go on with whole reads behind it, and judge both."""
    asked = ground.asked
    chance = torch.Generator(ground.held.device).manual_seed(21)
    begun = steps.prompts(ground.held, asked.replies, 21)
    cut = one.cut(asked.rows) if one.cut else None
    served = steps.written(
        ground.model, begun, cut=cut, temperature=of.temperature, chance=chance, first=asked.first
    )
    losses, kl = steps.judged(ground.model, served)
    replies = served.talks[:, PROMPT:]
    marks = collapse.watched(ground.pool, replies, served.logprobs, of.alarmed)
    collapsed = collapse.shape(losses, replies).collapsed(of.limits)
    mended = _mended(ground, served, losses, marks, of)
    shown = np.concatenate((np.flatnonzero(collapsed)[:SHOWN], np.flatnonzero(~collapsed)[:SHOWN]))
    keep(
        asked.kept,
        f"{one.name}-{one.share}-{of.temperature:g}",
        served,
        losses=losses,
        shown=shown,
        collapsed=collapsed,
    )
    answer = {
        "policy": one.name, "share": one.share, "temperature": of.temperature, "rows": asked.rows,
        "bytes": cut.share if cut else 1.0, "loss": float(losses.mean()), "replies": len(marks),
        "collapsed": int(collapsed.sum()), **_alarms(marks, collapsed),
        "collapsed with the alarm": int(mended.sum()),
        "collapsed only with the alarm": int((mended & ~collapsed).sum()),
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


def _mended(
    ground: Ground, served: steps.Written, losses: torch.Tensor, marks: list[collapse.Marks], of: Set
) -> np.ndarray:
    """Return which replies collapse where each is read whole from its alarm on."""
    at = torch.tensor([one for one, _, _ in marks], device=served.talks.device)
    raised = (at > 0).nonzero().flatten()
    talks, losses = served.talks.clone(), losses.clone()
    if len(raised):
        chance = torch.Generator(at.device).manual_seed(22)
        again = steps.written(
            ground.model, talks[raised], cut=None, temperature=of.temperature, chance=chance, given=at[raised]
        )
        talks[raised] = again.talks
        losses[raised], _ = steps.judged(ground.model, again)
    return collapse.shape(losses, talks[:, PROMPT:]).collapsed(of.limits)


def _alarms(marks: list[collapse.Marks], collapsed: np.ndarray) -> dict[str, Any]:
    raised = np.array([at > 0 for at, _, _ in marks])
    places = [at for at, _, _ in marks if at]
    return {
        "alarms": int(raised.sum()), "loop alarms": sum(why == "loop" for _, why, _ in marks),
        "surprise alarms": sum(why == "surprise" for _, why, _ in marks),
        "alarms on collapsed": int((raised & collapsed).sum()),
        "median token of the alarm": float(np.median(places)) if places else None,
    }  # fmt: skip


def _of_replies(kl: torch.Tensor, collapsed: np.ndarray) -> dict[str, Any]:
    """Tell each reply's mean KL, so that intervals can be drawn and the worst be seen."""
    each = kl.double().mean(1).cpu().numpy()
    return {
        "reply kl": [round(float(one), 6) for one in each],
        "reply collapsed": [int(place) for place in np.flatnonzero(collapsed)],
    }
