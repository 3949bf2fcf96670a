"""What a gate is: what it reads, what it demands and why, and how it judges. Pure.

A node gate judges one node by itself; a parity gate compares the nodes of a line; a line gate needs several nodes or the
recipe's needs at once. A gate never raises for what a node says: an answer that could not be read is `unknown`, with the text
that was seen, never a number.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bootcheck.facts import F, NodeFacts, Unread
from bootcheck.findings import Finding, Verdict
from bootcheck.floors import Floors
from bootcheck.needs import Needs
from bootcheck.probes.container import Containers
from sparkctl.line import Line, Node

Section = Literal["memory", "gpu", "fabric", "parity", "leftovers", "security"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that gates judge: the line as it should be, what its recipe needs, what was found on each node, the floors."""

    line: Line
    needs: Needs
    facts: tuple[NodeFacts, ...]
    floors: Floors

    def answering(self) -> Iterator[tuple[Node, NodeFacts]]:
        """Every node that answered, with its facts."""
        by_name = {node.name: node for node in self.line.nodes}
        return ((by_name[facts.node], facts) for facts in self.facts if facts.is_known)

    def of(self, node: Node) -> NodeFacts:
        """What was found on one node; a node that was not asked is one that does not answer."""
        found = (facts for facts in self.facts if facts.node == node.name)
        return next(found, NodeFacts(node=node.name, unreachable="it was not asked"))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One node as a gate sees it: the node, its facts, and the scene around it."""

    node: Node
    facts: NodeFacts
    scene: Scene

    @property
    def floors(self) -> Floors:
        """The thresholds."""
        return self.scene.floors

    @property
    def needs(self) -> Needs:
        """What the recipe asks."""
        return self.scene.needs

    @property
    def is_serving(self) -> bool:
        """Whether a rank of this line runs on the node."""
        return is_serving(self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a gate wants and where the wish comes from."""

    wanted: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a gate saw on one node; `wanted` and `hint` sharpen demand and remedy where they depend on the node.

    `settles` says of a failure whether settling may cure it, where the gate's own mark does not hold for every case.
    """

    verdict: Verdict
    measured: str
    hint: str = ""
    wanted: str = ""
    settles: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What every gate tells of itself, for findings and for docs/ritual.md.

    `troubles` are the public reports that it comes from. `settles` marks a rule that stopping the old line or settling
    memory may satisfy: a boot judges it again after settling, and no other failure lets a boot touch a running line.
    `needs_quiet` marks one whose probe does not run beside a rank: while the line serves, not knowing does not forbid a boot.
    `worst` is the gravest that it can say. Where that is `warn`, not knowing is no graver: its `unknown` becomes a warning.
    """

    name: str
    section: Section
    about: str
    demand: Callable[[Floors], Demand]
    remedy: str
    troubles: tuple[str, ...] = ()
    settles: bool = False
    needs_quiet: bool = False
    worst: Literal["warn", "fail"] = "fail"

    def findings(self, scene: Scene) -> Iterator[Finding]:
        """Judge the scene."""
        raise NotImplementedError

    def finding(self, node: str, scene: Scene, seen: Seen) -> Finding:
        """Join what was seen on a node with what was demanded."""
        demand = self.demand(scene.floors)
        is_settled = self.settles if seen.settles is None else seen.settles
        demoted = seen.verdict == "unknown" and self.worst == "warn"
        return Finding(
            node=node,
            gate=self.name,
            verdict="warn" if demoted else seen.verdict,
            measured=f"could not be read: {seen.measured}" if demoted else seen.measured,
            wanted=seen.wanted or demand.wanted,
            origin=demand.origin,
            hint="" if seen.verdict == "pass" else seen.hint or self.remedy,
            settles=seen.verdict == "fail" and is_settled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGate(Gate):
    """A rule about one node.

    `reads` gives the fact; `is_optional` marks a probe whose tool a sound node may lack: nothing is judged then.
    """

    reads: Callable[[NodeFacts], Any]
    judge: Callable[[Any, View], Seen]
    is_optional: bool = False

    def findings(self, scene: Scene) -> Iterator[Finding]:
        """Judge every node that answered."""
        for node, facts in scene.answering():
            fact = self.reads(facts)
            if not isinstance(fact, Unread):
                seen = self.judge(fact, View(node=node, facts=facts, scene=scene))
                yield self.finding(node.name, scene, seen)
            elif not fact.is_left_out and not (self.is_optional and fact.lacks_tool):
                yield self.finding(node.name, scene, unknown(fact))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityGate(Gate):
    """A rule that all nodes agree; a node that does not gets the gate's worst. What could not be read is another gate's."""

    reads: Callable[[NodeFacts], str | None]
    show: Callable[[str], str] = str

    def findings(self, scene: Scene) -> Iterator[Finding]:
        """Name each node whose value is not the commonest one; where two values are equally common, every node."""
        read = {facts.node: self.reads(facts) for _, facts in scene.answering()}
        found = {node: value for node, value in read.items() if value is not None}
        if not found:
            return
        (common, times), *others = Counter(found.values()).most_common()
        tied = bool(others) and others[0][1] == times
        demand = self.demand(scene.floors)
        wanted = demand.wanted if tied else f"{demand.wanted}: {self.show(common)}"
        for node, value in found.items():
            seen = Seen(verdict="pass", measured=self.show(value))
            if tied or value != common:
                seen = Seen(verdict=self.worst, measured=self.show(value), wanted=wanted)
            yield self.finding(node, scene, seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineGate(Gate):
    """A rule about the line as a whole: gives what it saw of each node that it can say something of."""

    judge: Callable[[Scene], Iterable[tuple[Node, Seen]]]

    def findings(self, scene: Scene) -> Iterator[Finding]:
        """Judge the scene."""
        return (self.finding(node.name, scene, seen) for node, seen in self.judge(scene))


def reading(kind: type[F]) -> Callable[[NodeFacts], F | Unread]:
    """Return what reads the one fact of a kind."""
    return lambda facts: facts.one(kind)


def answers(scene: Scene, kind: type[F]) -> tuple[dict[Node, F], tuple[tuple[Node, Seen], ...]]:
    """Return for a line gate what each node answered, and what to say of those whose answer could not be read."""
    told = [(node, facts.one(kind)) for node, facts in scene.answering()]
    read = {node: fact for node, fact in told if not isinstance(fact, Unread)}
    unread = [(node, fact) for node, fact in told if isinstance(fact, Unread) and not fact.is_left_out]
    return read, tuple((node, unknown(fact)) for node, fact in unread)


def unknown(unread: Unread) -> Seen:
    """Say that an answer could not be read."""
    hint = _QUIET_FIRST if unread.is_blind else _BY_HAND
    return Seen(verdict="unknown", measured=describe(unread), hint=hint)


_QUIET_FIRST = "make the GPU quiet first (gate gpu-quiet says who uses it), then check again"
_BY_HAND = "run the probe's command by hand on the node; sparkctl check --list-probes shows it"


def is_serving(facts: NodeFacts) -> bool:
    """Whether a rank of this line runs on the node."""
    containers = facts.one(Containers)
    return not isinstance(containers, Unread) and any(one.state == "running" for one in containers.found)


def describe(unread: Unread) -> str:
    """Say why an answer could not be read, with the start of the text that was seen."""
    seen = " ".join(unread.seen.split())[:120]
    return f"{unread.why}; seen: {seen}" if seen else unread.why
