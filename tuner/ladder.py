"""The climb of one lever at a time, as a replay: from the boots so far to the next boot, the next verdict, or the end.

Nothing is remembered anywhere else, so an interrupted climb goes on from its recorded boots as if nothing had happened.
Levers are tried in the ladder's order on top of the stack of those accepted before; each is settled before the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tuner.evidence import Evidence, asks_quality, judge
from tuner.lever import Ladder, Lever
from tuner.steps import Boot, Done, On, Standing, Trial, name_of
from tuner.verdict import MOST_VOIDS, SeedRule, Verdict, seed_rule, unmeasured

MOST_BASE_FAILURES = 2
"""Failed boots of the stack in a row that end a climb: then something is wrong with the line, not with a lever."""

MOST_IN_A_ROW = 2
"""Boots with the lever on without one of the stack between them, so that drift of the line cannot pass as a gain."""


def replay(ladder: Ladder, history: tuple[Trial, ...]) -> Standing:
    """Return where a climb stands after `history`, its boots in order."""
    verdicts: list[Verdict] = []
    stack: On = ()
    used = 0
    for lever in ladder.levers:
        verdict = barred(lever, verdicts)
        if verdict is None:
            verdict, used = _climbed(ladder, lever, stack, history, used)
        if verdict is None:
            trying = _Trying(ladder=ladder, lever=lever, stack=stack, history=history, start=used)
            return Standing(verdicts=tuple(verdicts), stack=stack, ahead=_ahead(trying))
        verdicts.append(verdict)
        if verdict.verdict == "accept":
            stack = (*stack, lever.id)
    end = Done(base_failed=False, why="every lever has its verdict")
    return Standing(verdicts=tuple(verdicts), stack=stack, ahead=end)


def barred(lever: Lever, verdicts: Sequence[Verdict]) -> Verdict | None:
    """Settle without a boot a lever that cannot stand on this stack."""
    found = {verdict.lever: verdict.verdict for verdict in verdicts}
    if lever.kind == "profile":
        return unmeasured(lever, "inconclusive", "changes what is offered; it is chosen, not judged by speed")
    for name in lever.requires:
        if found.get(name) != "accept":
            outcome: Literal["reject", "inconclusive"] = (
                "reject" if found.get(name) == "reject" else "inconclusive"
            )
            return unmeasured(lever, outcome, f"needs {name}, which was not accepted")
    for name in lever.conflicts:
        if found.get(name) == "accept":
            return unmeasured(lever, "reject", f"cannot stand beside {name}, which was accepted")
    return None


def _climbed(
    ladder: Ladder, lever: Lever, stack: On, history: tuple[Trial, ...], start: int
) -> tuple[Verdict | None, int]:
    """Go through the boots spent on a lever until its verdict; return it and where the next lever's boots begin."""
    for end in range(start + 1, len(history) + 1):
        trying = _Trying(ladder=ladder, lever=lever, stack=stack, history=history[:end], start=start)
        if verdict := judge(ladder, lever, _evidence(trying)):
            return verdict, end
    return None, start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trying:
    """A lever on trial: `start` is the place in the history where its own boots begin."""

    ladder: Ladder
    lever: Lever
    stack: On
    history: tuple[Trial, ...]
    start: int

    @property
    def on(self) -> On:
        return (*self.stack, self.lever.id)

    @property
    def window(self) -> tuple[Trial, ...]:
        return self.history[self.start :]

    @property
    def with_lever(self) -> tuple[Trial, ...]:
        return _measured(self.window, self.on)

    @property
    def without(self) -> tuple[Trial, ...]:
        """Boots of the stack to compare with: its own and the last few that an earlier lever paid for.

        Note: using all the earlier ones saves no boots and lets drift pass for a gain (11 % wrong ladders in place of
        3 % in simulation, docs/method.md); they still tell how noisy the line is, see `_samples`.
        """
        earlier = _measured(self.history[: self.start], self.stack)
        return (*earlier[-self.ladder.boots.least :], *_measured(self.window, self.stack))

    @property
    def pairs(self) -> int:
        return min(len(self.with_lever), len(self.without))


def _evidence(trying: _Trying) -> Evidence:
    boots = trying.ladder.boots
    ends = [trial for trial in trying.window if trial.arm == trying.on]
    before = replace(trying, history=trying.history[:-1])
    return Evidence(
        arm=name_of(trying.on),
        base=name_of(trying.stack),
        samples=_samples(trying),
        failures=tuple(trial.why for trial in ends if trial.outcome == "failed"),
        voids=tuple(trial.why for trial in ends if trial.outcome == "void"),
        boots=len(trying.window),
        void_boots=sum(trial.outcome == "void" for trial in trying.window),
        look=before.pairs < trying.pairs and trying.pairs >= boots.least,
        last=trying.pairs >= boots.most,
        quality=next((trial.quality for trial in reversed(ends) if trial.quality), ""),
        seed_rule=_seed_rule(trying),
    )


def _ahead(trying: _Trying) -> Boot | Done:
    if end := _base_fault(trying.history, trying.stack):
        return end
    number = len(trying.history) + 1
    lever, boots = trying.lever.id, trying.ladder.boots
    if _wants_quality(trying):
        reason = f"{lever}: its gain is proven; the quality battery is asked"
        return Boot(lever=lever, on=trying.on, number=number, reason=reason, quality=True)
    if _wants_lever(trying):
        reason = f"{lever}: boot {len(trying.with_lever) + 1} with it on, of {boots.least} to {boots.most}"
        return Boot(lever=lever, on=trying.on, number=number, reason=reason)
    reason = f"{lever}: boot {len(trying.without) + 1} of {name_of(trying.stack)}, to compare with"
    return Boot(lever=None, on=trying.stack, number=number, reason=reason)


def _wants_quality(trying: _Trying) -> bool:
    """Whether the lever would be accepted now if it were not meant to change numerics."""
    evidence = _evidence(trying)
    if not asks_quality(trying.lever, evidence):
        return False
    found = judge(trying.ladder, replace(trying.lever, numerics=False), evidence)
    return found is not None and found.verdict == "accept"


def _wants_lever(trying: _Trying) -> bool:
    """Whether the lever is on in the next boot.

    The arm with fewer boots comes next, and after a tie the same arm again: A B B A cancels a steady drift. Where the
    stack brings boots from an earlier lever, a fresh one comes after the first boot with the lever on all the same,
    and after every two from then on.
    """
    recent = [trial.arm for trial in trying.window if trial.outcome == "measured"]
    spare = len(trying.without) - len(trying.with_lever)
    if spare == 0:
        return bool(recent) and recent[-1] == trying.on
    row = MOST_IN_A_ROW if trying.stack in recent else 1
    return spare > 0 and recent[-row:] != [trying.on] * row


def _base_fault(history: tuple[Trial, ...], stack: On) -> Done | None:
    """End the climb when the stack itself keeps failing, or gives nothing but voids."""
    own = [trial for trial in history if trial.arm == stack]
    for outcome, most in (("failed", MOST_BASE_FAILURES), ("void", MOST_VOIDS + 1)):
        last = own[-most:]
        if len(last) == most and all(trial.outcome == outcome for trial in last):
            why = f"{name_of(stack)} {outcome} {most} times in a row: {last[-1].why}"
            return Done(base_failed=True, why=why)
    return None


def _measured(history: tuple[Trial, ...], on: On) -> tuple[Trial, ...]:
    return tuple(trial for trial in history if trial.arm == on and trial.outcome == "measured")


def _samples(trying: _Trying) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
    """Gather metric by configuration; stack boots too old to compare with are one of their own, for the noise alone."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for trial in trying.history:
        if trial.outcome == "measured":
            old = trial.arm == trying.stack and trial not in trying.without
            name = f"{name_of(trial.arm)}, earlier" if old else name_of(trial.arm)
            for metric in trial.metrics:
                arms = found.setdefault(metric.name, {})
                arms[name] = (*arms.get(name, ()), metric.value)
    return found


def _seed_rule(trying: _Trying) -> SeedRule:
    """Apply the seeds' rule to the first boot of each arm that was not void; one that fails breaks its smokes."""
    base = _first(trying.history, trying.stack)
    arm = _first(trying.history, trying.on)
    if base is None or arm is None:
        return "none"
    if arm.outcome == "failed":
        return "reject"
    return seed_rule(trying.ladder, base.values, arm.values)


def _first(history: tuple[Trial, ...], on: On) -> Trial | None:
    return next((trial for trial in history if trial.arm == on and trial.outcome != "void"), None)
