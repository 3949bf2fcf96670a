"""What a gate is: what it reads, what it demands and why, and how it judges. Pure.

A node gate judges one node by itself; a parity gate compares the nodes of a line. A gate never raises for what a node
says: an answer that could not be read is `unknown`, with the text that was seen, never a number.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bootcheck.facts import Containers, NodeFacts, Unread
from bootcheck.findings import Finding, Verdict
from bootcheck.floors import Floors
from sparkctl.line import Line, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that gates judge: the line as it should be, what was found on each node, and the floors."""

    line: Line
    facts: tuple[NodeFacts, ...]
    floors: Floors

    def answering(self) -> Iterator[tuple[Node, NodeFacts]]:
        """Every node that answered, with its facts."""
        by_name = {node.name: node for node in self.line.nodes}
        return ((by_name[facts.node], facts) for facts in self.facts if not facts.unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a gate wants and where the wish comes from."""

    wanted: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a gate saw on one node; `wanted` sharpens the demand where it depends on the node."""

    verdict: Verdict
    measured: str
    hint: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGate:
    """A rule about one node.

    `settles` marks a rule that stopping the old line or dropping page cache may satisfy: a boot judges it again after
    settling. No other failure lets a boot touch a running line.
    """

    name: str
    about: str
    demand: Callable[[Floors], Demand]
    reads: Callable[[NodeFacts], Any]
    judge: Callable[[Any, Node, NodeFacts, Floors], Seen]
    settles: bool = False

    def findings(self, scene: Scene) -> Iterator[Finding]:
        """Judge every node that answered."""
        for node, facts in scene.answering():
            fact = self.reads(facts)
            if isinstance(fact, Unread):
                seen = Seen(verdict="unknown", measured=describe(fact), hint=_HINT)
            else:
                seen = self.judge(fact, node, facts, scene.floors)
            yield finding(facts.node, self.name, self.demand(scene.floors), seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityGate:
    """A rule that all nodes agree; a node that does not gets `verdict`. What could not be read is another gate's."""

    name: str
    about: str
    demand: Callable[[Floors], Demand]
    reads: Callable[[NodeFacts], str | None]
    show: Callable[[str], str]
    verdict: Verdict
    settles: bool = False

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
        hint = "bring all nodes to one of these" if tied else "bring this node to what the others have"
        for node, value in found.items():
            seen = Seen(verdict="pass", measured=self.show(value))
            if tied or value != common:
                seen = Seen(verdict=self.verdict, measured=self.show(value), wanted=wanted, hint=hint)
            yield finding(node, self.name, demand, seen)


_HINT = "run the probe's command by hand on the node; sparkctl check --list-probes shows it"


def finding(node: str, gate: str, demand: Demand, seen: Seen) -> Finding:
    """Join what was seen with what was demanded."""
    return Finding(
        node=node,
        gate=gate,
        verdict=seen.verdict,
        measured=seen.measured,
        wanted=seen.wanted or demand.wanted,
        origin=demand.origin,
        hint="" if seen.verdict == "pass" else seen.hint,
    )


def is_serving(facts: NodeFacts) -> bool:
    """Whether a rank of this line runs on the node."""
    return isinstance(facts.containers, Containers) and any(
        one.state == "running" for one in facts.containers.found
    )


def describe(unread: Unread) -> str:
    """Say why an answer could not be read, with the start of the text that was seen."""
    seen = " ".join(unread.seen.split())[:120]
    return f"{unread.why}; seen: {seen}" if seen else unread.why
