"""Boot: the ritual from the first probe to a line that has answered sensibly. I/O joined in the order of the field.

Probe and judge; only when nothing but what settling cures is wrong: stop what runs, settle memory, probe and judge
again; start workers, then the head; wait; ask. All checks come before any teardown, and a boot that does not end
ready leaves no rank running.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

from bootcheck import collect, gates, probes
from bootcheck.facts import Bundle, Context
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from launcher import launch
from launcher.command import RankCommand, rank_commands
from launcher.launch import Outcome
from launcher.needs import needs
from launcher.recipe import Recipe
from launcher.smoke import Smoked
from sparkctl import __version__, ansible
from sparkctl.clock import Clock
from sparkctl.errors import SparkctlError
from sparkctl.line import Line

State = Literal["began", "tells", "warns", "done", "failed"]
Stage = Literal["check", "settle", "launch", "ready", "stop"]

STAGES: tuple[tuple[Stage, str], ...] = (
    ("check", "probe every node and judge; nothing is touched"),
    ("settle", "stop what is left of this line, drop page cache, probe and judge again"),
    ("launch", "start ranks, workers first, the head last"),
    ("ready", "wait for every rank and the API, then ask the smokes"),
)

STOP: tuple[Stage, str] = ("stop", "stop every rank, since the line did not get ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a boot is doing: a stage began, tells or warns of something, or ended after so many of the line's seconds."""

    stage: Stage
    state: State
    detail: str = ""
    seconds: float = 0.0


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a boot needs to know before it starts."""

    boot: str
    line: Line
    recipe: Recipe
    floors: Floors

    def commands(self) -> tuple[RankCommand, ...]:
        """Every rank's command."""
        return rank_commands(self.recipe, self.line, self.boot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """How a boot ended. `why` is empty when the line is ready; else stage, node, cause, remedy and the rank's log."""

    boot: str
    line: str
    stage: Stage
    findings: tuple[Finding, ...]
    seconds: float
    why: str = ""
    node: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    smokes: tuple[Smoked, ...] = ()
    unclear: bool = False

    @property
    def ok(self) -> bool:
        """Whether the line is ready."""
        return not self.why

    @property
    def blames_what_was_booted(self) -> bool:
        """Whether a boot that did not get ready says something of what was booted, and not only of the nodes."""
        return not self.unclear and self.stage not in {"check", "settle"}


def context(
    line: Line, recipe: Recipe, floors: Floors, at: str, left_out: frozenset[str] = frozenset()
) -> Context:
    """Return what a look at the nodes rests on; probes that cost minutes are left out unless asked for."""
    return Context(
        at=at,
        version=__version__,
        line=line,
        needs=needs(recipe, line),
        floors=floors,
        left_out=tuple(sorted(left_out)),
    )


def scene(bundle: Bundle) -> Scene:
    """Return what the gates judge."""
    known = bundle.context
    return Scene(line=known.line, needs=known.needs, facts=collect.facts(bundle), floors=known.floors)


def boot(plan: Plan, clock: Clock, report: Report) -> Boot:
    """Run the ritual. A gate that fails or a rank that dies is part of the result; an interruption is raised on.

    Raises:
        SparkctlError: Ansible itself broke off, or the user interrupted; ranks that were started are stopped first.

    """
    return _Ritual(plan, clock, report).run()


class _Ritual:
    """One run of the ritual; holds what every stage needs."""

    def __init__(self, plan: Plan, clock: Clock, report: Report) -> None:
        self.plan = plan
        self.clock = clock
        self.report = report
        self.began = clock.monotonic_s()
        self.findings: tuple[Finding, ...] = ()

    def run(self) -> Boot:
        first = self._look()
        stopped = self._judge("check", first, settled=False)
        if stopped:
            return stopped
        # From here on an old line is being stopped or a new one started: whatever breaks off, no rank may stay.
        with ExitStack() as stack:
            stack.push(self._leave_nothing)
            return self._settle(first) or self._launch()

    def _look(self) -> Bundle:
        self._tell("check", "began")
        return collect.collect(
            self._context(probes.requested()),
            lambda answer: self._tell("check", "tells", ansible.describe(answer)),
        )

    def _settle(self, first: Bundle) -> Boot | None:
        """Stop, settle and look again; what loads a node is not run twice when it was read a moment ago."""
        self._tell("settle", "began")
        known = self._context(probes.requested() | collect.answered(first, probes.loading()))
        variables = {**launch.stop_variables(self.plan.line), "probe_tables": collect.tables(known)}
        answers = ansible.run(
            "boot",
            self.plan.line,
            variables,
            report=lambda one: self._tell("settle", "tells", ansible.describe(one)),
        )
        for answer in answers:
            if answer.result.get("dropped") is False and answer.result.get("reason"):
                detail = f"{answer.host}: the page cache was not dropped: {answer.result['reason']}"
                self._tell("settle", "warns", detail)
        return self._judge("settle", collect.merge(first, collect.bundle(known, answers)), settled=True)

    def _context(self, left_out: frozenset[str]) -> Context:
        plan = self.plan
        return context(plan.line, plan.recipe, plan.floors, self.clock.today(), left_out)

    def _judge(self, stage: Stage, bundle: Bundle, *, settled: bool) -> Boot | None:
        seen = scene(bundle)
        self.findings = gates.judge(seen)
        blocking = gates.blocking(self.findings, seen, settled=settled)
        if not blocking:
            self._tell(stage, "done")
            return None
        first = next((one for one in blocking if one.verdict == "fail"), blocking[0])
        why = f"gate {first.gate}: measured {first.measured}; wanted {first.wanted}"
        unclear = first.verdict == "unknown"
        return self._failed(stage, Outcome(fault=why, node=first.node, hint=first.hint, unclear=unclear))

    def _launch(self) -> Boot:
        plan, commands = self.plan, self.plan.commands()
        self._tell("launch", "began")
        started = launch.start(
            plan.line, commands, self.clock, lambda text: self._tell("launch", "tells", text)
        )
        if started.fault:
            return self._stop_after("launch", started)
        self._tell("launch", "done")
        self._tell("ready", "began")
        ready = launch.wait_ready(
            plan.line, plan.recipe, commands, self.clock, lambda text: self._tell("ready", "tells", text)
        )
        if ready.fault:
            return self._stop_after("ready", ready)
        self._tell("ready", "done")
        return self._ended("ready", ready)

    def _stop_after(self, stage: Stage, outcome: Outcome) -> Boot:
        self._tell(stage, "failed", outcome.fault)
        return self._ended(stage, self._stopped(outcome))

    def _stopped(self, outcome: Outcome) -> Outcome:
        """Stop every rank; when that fails too, say so beside the first fault."""
        self._tell("stop", "began")
        left = launch.stop(self.plan.line, lambda text: self._tell("stop", "tells", text))
        self._tell("stop", "failed" if left.fault else "done", left.fault)
        if not left.fault:
            return outcome
        hint = f"{outcome.hint}; stopping failed on {left.node} ({left.fault}): sparkctl down when it answers"
        return replace(outcome, hint=hint.removeprefix("; "))

    def _failed(self, stage: Stage, outcome: Outcome) -> Boot:
        self._tell(stage, "failed", outcome.fault)
        return self._ended(stage, outcome)

    def _ended(self, stage: Stage, outcome: Outcome) -> Boot:
        return Boot(
            boot=self.plan.boot,
            line=self.plan.line.name,
            stage=stage,
            findings=self.findings,
            seconds=self._seconds(),
            why=outcome.fault,
            node=outcome.node,
            hint=outcome.hint,
            log=outcome.log,
            smokes=outcome.smokes,
            unclear=outcome.unclear,
        )

    def _leave_nothing(
        self, _: type[BaseException] | None, fault: BaseException | None, __: TracebackType | None
    ) -> None:
        """Stop every rank when the work was interrupted or broke off.

        Twice: a `docker run` that was under way when Ansible was ended may still start its rank after the first stop.
        """
        if fault is None:
            return
        name = self.plan.line.name
        self._tell(
            "stop", "warns", f"broken off: stopping line {name} on every node, which takes some seconds"
        )
        with ansible.uninterrupted():
            self._stopped(Outcome())
            self.clock.sleep(self.plan.recipe.ready.poll_s)
            left = self._stopped(Outcome())
        if isinstance(fault, SparkctlError):
            fault.hint = left.hint or f"line {name} was stopped; sparkctl boot starts it again"

    def _tell(self, stage: Stage, state: State, detail: str = "") -> None:
        self.report(Progress(stage=stage, state=state, detail=detail, seconds=self._seconds()))

    def _seconds(self) -> float:
        return self.clock.monotonic_s() - self.began
