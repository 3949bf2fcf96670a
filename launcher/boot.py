"""Boot: the ritual from the first probe to a line that has answered sensibly. I/O joined in the order of the field.

Probe and judge; only when nothing but what settling cures is wrong: stop what runs, settle memory, probe and judge
again; start workers, then the head; wait; ask. All checks come before any teardown, and a boot that does not end
ready leaves no rank running.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType

from bootcheck import collect, gates
from bootcheck.facts import Bundle, Context
from bootcheck.findings import Finding
from bootcheck.gates.gate import is_serving
from bootcheck.probes import table as probes
from launcher import applying, capacity, launch, survey, tails
from launcher.command import RankCommand
from launcher.guard import Guard
from launcher.outcome import Outcome
from launcher.plan import Boot, Plan, Progress, Report, Stage, State
from sparkctl import ansible, interrupts
from sparkctl.ansible import Answer
from sparkctl.clock import Clock
from sparkctl.errors import Interrupted, SparkctlError, Unclear


def boot(plan: Plan, clock: Clock, report: Report) -> Boot:
    """Run the ritual. A gate that fails or a rank that dies is part of the result; an interruption is raised on.

    Raises:
        SparkctlError: Ansible itself broke off, or the user interrupted; ranks that were started are stopped first.

    """
    return _Ritual(plan, clock, report).run()


def _unsettled(answers: tuple[Answer, ...]) -> Iterator[str]:
    """Say where settling did less than it should: no right to drop caches, a GPU that is not released."""
    for answer in answers:
        result = answer.result
        if result.get("dropped") is False and result.get("reason"):
            yield f"{answer.host}: the page cache was not dropped: {result['reason']}"
        elif result.get("how") == "fadvise":
            yield (
                f"{answer.host}: only the model files left the page cache, memory is not compacted: {result['reason']}"
            )
        if result.get("held"):
            yield f"{answer.host}: the GPU is still held by {', '.join(result['held'])}"


class _Ritual:
    """One run of the ritual; holds what every stage needs."""

    def __init__(self, plan: Plan, clock: Clock, report: Report) -> None:
        self.plan = plan
        self.clock = clock
        self.report = report
        self.began = clock.monotonic_s()
        self.findings = tuple[Finding, ...]()

    def run(self) -> Boot:
        first = None
        if self.plan.start == "check":
            first = self._look()
            stopped = self._judge("check", first, settled=False)
            if stopped:
                return stopped
        # From here on an old line is being stopped or a new one started: whatever breaks off, no rank may stay.
        with ExitStack() as stack:
            stack.push(self._leave_nothing)
            return (first and self._settle(first)) or self._launch()

    def _look(self) -> Bundle:
        self._tell("check", "began")
        return collect.collect(
            self._context(probes.requested()),
            lambda answer: self._tell_of("check", answer),
        )

    def _settle(self, first: Bundle) -> Boot | None:
        """Stop, settle and look again at what that may have changed, and at what a node did not answer before."""
        self._tell("settle", "began")
        if any(is_serving(facts) for facts in collect.facts(first)):
            running = f"ranks of line {self.plan.line.name} run: they are stopped now"
            self._tell("settle", "tells" if self.plan.replaces else "warns", running)
        known = self._context(probes.requested() | collect.answered(first, probes.lasting()))
        line, floors = self.plan.line, self.plan.floors
        variables = {
            **launch.stop_variables(line),
            "probe_tables": collect.tables(known),
            "settle_paths": [known.needs.model_folder] if known.needs.model_folder else [],
            **(applying.before(line, round(floors.mtu_recommended.value)) if self.plan.apply else {}),
        }
        answers = ansible.run(
            "boot",
            self.plan.line,
            variables,
            report=lambda one: self._tell_of("settle", one),
        )
        for change in applying.told((one.host, one.result) for one in answers):
            self._tell("settle", "changes", change)
        for warning in _unsettled(answers):
            self._tell("settle", "warns", warning)
        return self._judge("settle", collect.merge(first, collect.bundle(known, answers)), settled=True)

    def _context(self, left_out: frozenset[str]) -> Context:
        plan = self.plan
        return survey.context(plan.line, plan.recipe, plan.floors, self.clock.today(), left_out, plan.memory)

    def _judge(self, stage: Stage, bundle: Bundle, *, settled: bool) -> Boot | None:
        seen = survey.scene(bundle)
        self.findings = gates.judge(seen)
        curable = applying.CURES if self.plan.apply else frozenset()
        blocking = gates.blocking(
            self.findings, seen, settled=settled, curable=curable, accepted=self.plan.accepted
        )
        if not blocking:
            self._tell(stage, "done")
            return None
        first = next((one for one in blocking if one.verdict == "fail"), blocking[0])
        why = f"gate {first.gate}: measured {first.measured}; wanted {first.wanted}"
        unclear = first.verdict == "unknown"
        return self._failed(stage, Outcome(fault=why, node=first.node, hint=first.hint, unclear=unclear))

    def _launch(self) -> Boot:
        """Start and wait under guard: without one nothing is started, since a starved node takes its disk log with it."""
        plan, commands = self.plan, self.plan.commands()
        stage: Stage = "ready" if plan.start == "ready" else "launch"
        self._tell(stage, "began")
        with Guard(plan.line, commands, plan.limits(), self.clock, self._warning(stage)) as guard:
            if guard.fault:
                unguarded = Outcome(
                    fault=guard.fault.said, node=guard.fault.node, hint=guard.fault.hint, unclear=True
                )
                return self._stop_after(stage, unguarded)
            if stage == "launch":
                started = launch.start(plan.line, plan.launched(), self.clock, self._telling("launch"), guard)
                if started.fault:
                    return self._stop_after("launch", started)
                self._tell("launch", "done")
                self._tell("ready", "began")
            ready = self._wait(commands, guard)
        if ready.fault:
            return self._stop_after("ready", ready)
        for remark in ready.remarks:
            self._tell("ready", "warns", remark)
        self._tell("ready", "done")
        self._reserve()
        return self._ended("ready", ready)

    def _wait(self, commands: tuple[RankCommand, ...], guard: Guard) -> Outcome:
        plan = self.plan
        return launch.wait_ready(
            plan.line,
            plan.recipe,
            commands,
            self.clock,
            self._telling("ready"),
            guard=guard,
            sought=plan.sought,
        )

    def _telling(self, stage: Stage) -> launch.Report:
        return lambda text, nodes=None: self._tell(stage, "tells", text, nodes)

    def _warning(self, stage: Stage) -> Callable[[str], None]:
        return lambda text: self._tell(stage, "warns", text)

    def _reserve(self) -> None:
        """Give the nodes the settings that take memory, now that the start checks are over; the line serves either way."""
        variables = applying.after(self.plan.line) if self.plan.apply else None
        if not variables:
            return
        try:
            answers = ansible.run("reserve", self.plan.line, variables)
        except Interrupted:
            raise
        except Unclear as fault:
            self._tell("ready", "warns", f"the line serves, but its settings were not applied: {fault}")
            return
        for change in applying.told((one.host, one.result) for one in answers):
            self._tell("ready", "changes", change)
        for answer in answers:
            if answer.status in {"failed", "unreachable"}:
                self._tell("ready", "warns", f"{answer.host}: {ansible.explain(answer)[0]}")

    def _stop_after(self, stage: Stage, outcome: Outcome) -> Boot:
        self._tell(stage, "failed", outcome.fault)
        logs = {tail.node: tail.lines for tail in tails.read(self.plan.line) if tail.lines}
        return self._ended(stage, self._stopped(replace(outcome, logs=logs)))

    def _stopped(self, outcome: Outcome) -> Outcome:
        """Stop every rank; when that fails too, say so beside the first fault."""
        self._tell("stop", "began")
        left = launch.stop(self.plan.line, self._telling("stop"))
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
            logs=outcome.logs,
            smokes=outcome.smokes,
            evidence=outcome.evidence,
            found=outcome.found,
            pin=None if self.plan.recipe.memory.kv_cache_gib else capacity.pin(outcome.evidence),
            unclear=outcome.unclear,
            lowest=outcome.lowest,
            stages=outcome.stages,
            flushes=outcome.flushes,
            observed=outcome.observed,
        )

    def _leave_nothing(
        self, _: type[BaseException] | None, fault: BaseException | None, __: TracebackType | None
    ) -> None:
        """Stop every rank when the work was interrupted or broke off, whoever may be told of it.

        Twice: a `docker run` that was under way when Ansible was ended may still start its rank after the first stop.
        """
        if fault is None:
            return
        with interrupts.uninterrupted():
            self._tell_if_heard("warns", f"broken off: stopping line {self.plan.line.name} on every node")
            launch.stop(self.plan.line, lambda _: None)
            self.clock.sleep(self.plan.recipe.ready.poll_s)
            self._tell_if_heard("began")
            left = launch.stop(self.plan.line, lambda _: None)
            self._tell_if_heard("failed" if left.fault else "done", left.fault)
        if isinstance(fault, SparkctlError):
            name = self.plan.line.name
            fault.hint = (
                f"stopping failed on {left.node} ({left.fault}): sparkctl down when it answers"
                if left.fault
                else f"line {name} was stopped; sparkctl boot starts it again"
            )

    def _tell_if_heard(self, state: State, detail: str = "") -> None:
        """Tell of the stop; a lost terminal or a full disk, which may be why we are here, must not keep it from happening."""
        with suppress(SparkctlError, OSError):
            self._tell("stop", state, detail)

    def _tell_of(self, stage: Stage, answer: Answer) -> None:
        if said := ansible.describe(answer):
            self._tell(stage, "tells", said, {answer.host: answer.task})

    def _tell(
        self, stage: Stage, state: State, detail: str = "", nodes: Mapping[str, str] | None = None
    ) -> None:
        now = Progress(stage=stage, state=state, detail=detail, seconds=self._seconds(), nodes=nodes or {})
        self.report(now)

    def _seconds(self) -> float:
        return self.clock.monotonic_s() - self.began
