"""The factorial climb over several lines at once: each boots its own runs, and they meet to look, to decide and to go on.

Takes ladder, plan, seed, lines and what happened on each line; gives verdicts, stack and the next boot of each line. Between two
meetings a line's boots follow from its own boots alone, and a meeting waits for all lines that are in the climb; so it does not
matter in which order they finish, and a climb that was broken off goes on from the record to the same end.

Every line climbs whole blocks of its own: a run beside its mirror image, so that each lever is on in half of them whatever the line
(line is a block factor orthogonal to every main effect), and the same block on all lines, each beginning at another part of
it, so that together they have been through it after one line's share.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from tuner.factorial import confirmation, outliers, pairs, replay, runs
from tuner.factorial.plan import Plan
from tuner.factorial.progress import Progress, beside, drop_orphans, settle, start
from tuner.lever import Ladder
from tuner.steps import Away, Back, Boot, Done, Event, On, Standings, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One line's part of a climb.

    `progress` holds what all lines have in common as of the last meeting, the line's own boots, and the runs it is planned to boot. It goes
    until it has `until` runs behind it; `away` says why the line is out of the climb.
    """

    line: str
    progress: Progress
    until: int
    away: str = ""

    @property
    def is_out(self) -> bool:
        """Whether the line takes no part any more: it is away, or its base is broken."""
        return bool(self.away or self.progress.fault)

    @property
    def has_arrived(self) -> bool:
        """Whether the line has nothing to boot before the lines meet."""
        now = self.progress
        if self.is_out or now.phase == "ended":
            return True
        return now.phase == "blocks" and (now.runs >= self.until or not now.open)


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """How far a climb over several lines is: `common` as of the last meeting, of which there were `stage`, and each line's leg.

    `waiting` are events that are on record and belong to a later stage than the one that the lines are known to be in.
    """

    common: Progress
    legs: tuple[Leg, ...]
    stage: int = 0
    waiting: tuple[Event, ...] = ()


def begin(ladder: Ladder, plan: Plan, seed: int, lines: tuple[str, ...]) -> Together:
    """Return a climb before its first boots: every line boots the base, then its share of the runs before the first look."""
    fresh = start(ladder, plan, seed)
    share = 1 + math.ceil(plan.first / len(lines))
    legs = tuple(Leg(line=line, progress=fresh, until=share) for line in lines)
    return Together(common=replace(fresh, queue=()), legs=legs)


def follow(together: Together, history: tuple[Event, ...]) -> Together:
    """Return how far the climb is after these events, in the order of their record."""
    return reduce(advance, history, together)


def advance(together: Together, event: Event) -> Together:
    """Return how far the climb is after one more event; what belongs to a later stage waits for it."""
    now = replace(together, waiting=(*together.waiting, event))
    while True:
        if not _is_over(now) and all(leg.has_arrived for leg in now.legs):
            now = _met(now)
            continue
        at = next((at for at, one in enumerate(now.waiting) if _is_due(now, one)), None)
        if at is None:
            return now
        one, left = now.waiting[at], (*now.waiting[:at], *now.waiting[at + 1 :])
        legs = tuple(_taken(leg, one, now.legs) if leg.line == one.line else leg for leg in now.legs)
        now = replace(now, legs=legs, waiting=left)


def standings(together: Together) -> Standings:
    """Return where the climb stands."""
    common = together.common
    return Standings(
        verdicts=common.verdicts,
        stack=common.stack,
        ahead={} if _is_over(together) else dict(_ahead(together)),
        done=_done(together),
        confirmed={
            leg.line: found
            for leg in together.legs
            if common.phase == "ended" and (found := replay.standing_of(leg.progress).confirmed)
        },
        broken=common.broken,
        away={leg.line: leg.away or leg.progress.fault for leg in together.legs if leg.is_out},
        stage=together.stage,
    )


def _ahead(together: Together) -> Mapping[str, Boot]:
    found: dict[str, Boot] = {}
    for leg in together.legs:
        if leg.has_arrived:
            continue
        step = replay.ahead(leg.progress)
        if not isinstance(step, Boot):
            raise TypeError(f"line {leg.line} has nothing to boot, wanted a boot")
        if leg.progress.phase == "blocks" and not leg.progress.asking:
            behind = f"{leg.progress.runs + 1} on this line, of at most {leg.progress.plan.most} on all"
            step = replace(step, reason=f"block {leg.progress.drawn}: run {behind}")
        found[leg.line] = step
    return found


def _done(together: Together) -> Done | None:
    if together.common.fault:
        return Done(base_failed=True, why=together.common.fault)
    return (
        Done(base_failed=False, why="every lever has its verdict")
        if together.common.phase == "ended"
        else None
    )


def _is_over(together: Together) -> bool:
    return together.common.phase == "ended" or bool(together.common.fault)


def _is_due(together: Together, event: Event) -> bool:
    """Whether an event can be taken now; a line comes back at a meeting, see `_met`."""
    leg = next(one for one in together.legs if one.line == event.line)
    return not isinstance(event, Back) and not leg.has_arrived and not _is_over(together)


def _taken(leg: Leg, event: Event, legs: tuple[Leg, ...]) -> Leg:
    """Take what happened on a line."""
    if isinstance(event, Away):
        return replace(leg, away=event.why)
    if isinstance(event, Back):
        return leg
    now, part = _booted(leg.progress, event), legs.index(leg)
    if now.phase == "blocks" and not now.asking and now.open and not now.queue:
        now = _drawn(now, part, len(legs))
    return replace(leg, progress=now)


def _booted(now: Progress, trial: Trial) -> Progress:
    """Take one more boot of a line; one that was not asked for counts as data and no more."""
    asked = trial.arm == _next(now)
    now = replace(now, trials=(*now.trials, outliers.sift(now.ladder, now.trials, trial)))
    if not asked:
        return now
    if fault := runs.fault(now):
        return replace(now, fault=fault)
    if now.phase == "confirming":
        return runs.take_fresh(now)
    if now.asking:
        return runs.take_asked(now)
    return now if runs.is_repeated(now) else runs.settled(runs.take(now))


def _next(now: Progress) -> On | None:
    if now.phase == "blocks" and now.asking:
        return beside(now, now.asking[0])
    return now.queue[0] if now.queue else None


def _drawn(now: Progress, part: int, parts: int) -> Progress:
    """Draw a line's next block, and begin it at the line's own part."""
    now = replay.draw(now)
    begin = 2 * round(len(now.queue) / 2 * part / parts)
    return replace(now, queue=(*now.queue[begin:], *now.queue[:begin]))


def _met(together: Together) -> Together:
    """Let the lines meet: join what they booted, look, and send each off again."""
    common = _joined(together)
    stage = together.stage + 1
    back = {one.line for one in together.waiting if isinstance(one, Back) and one.stage <= stage}
    waiting = tuple(one for one in together.waiting if not (isinstance(one, Back) and one.stage <= stage))
    legs = tuple(replace(leg, away="") if leg.line in back else leg for leg in together.legs)
    if all(leg.is_out for leg in legs):
        told = "; ".join(f"line {leg.line}: {leg.away or leg.progress.fault}" for leg in legs)
        common = replace(common, fault=told)
    elif common.phase == "confirming":
        common = replace(common, phase="ended")
    else:
        common = replay.looked(common)
        if not common.open:
            common = replace(common, phase="confirming" if common.stack else "ended")
    sent = _sent(common, legs) if not (common.fault or common.phase == "ended") else legs
    return Together(common=common, legs=sent, stage=stage, waiting=waiting)


def _joined(together: Together) -> Progress:
    """Return what all lines know together: their boots, and what each found out on its own."""
    common = together.common
    fresh = tuple(
        trial for leg in together.legs for trial in leg.progress.trials[len(_own(common, leg.line)) :]
    )
    asked = tuple(one for leg in together.legs for one in leg.progress.asked[len(common.asked) :])
    common = replace(
        common,
        trials=(*common.trials, *fresh),
        runs=sum(leg.progress.runs for leg in together.legs),
        asked=(*common.asked, *asked),
        asking=(),
    )
    for leg in together.legs:
        for pair in leg.progress.broken:
            common = common if pair in common.broken else pairs.note(common, pair)
        for verdict in leg.progress.verdicts:
            if verdict.lever in common.open:
                why = f"on line {leg.line}: {verdict.why}"
                common = settle(common, verdict.lever, verdict.verdict, why)
    return drop_orphans(common)


def _sent(common: Progress, legs: tuple[Leg, ...]) -> tuple[Leg, ...]:
    """Send the lines off to the next stage: to quality runs where some wait, else to their runs, or to confirm the stack."""
    live = [leg.line for leg in legs if not leg.is_out]
    return tuple(
        _off(common, leg, live.index(leg.line), len(live), (at, len(legs))) if leg.line in live else leg
        for at, leg in enumerate(legs)
    )


def _off(common: Progress, leg: Leg, part: int, parts: int, place: tuple[int, int]) -> Leg:
    own, before = _own(common, leg.line), leg.progress
    now = replace(
        common, trials=own, queue=before.queue, runs=before.runs, drawn=before.drawn, fresh=len(own)
    )
    if common.phase == "confirming":
        queue = confirmation.order(common.ladder, common.stack, (part, parts))
        return replace(leg, progress=replace(now, queue=queue))
    asking = common.asking[part::parts]
    share = len(asking) if common.asking else math.ceil(common.plan.step / parts)
    now = runs.settled(replace(now, asking=asking))
    if not now.queue:
        now = _drawn(now, *place)
    return replace(leg, progress=now, until=now.runs + share)


def _own(common: Progress, line: str) -> tuple[Trial, ...]:
    return tuple(one for one in common.trials if one.line == line)
