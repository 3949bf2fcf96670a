"""Ship: look which nodes hold an image, build it on one, stream it to the others. I/O."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bootcheck import collect, redact
from bootcheck.floors import Floors
from bootcheck.needs import NOTHING
from launcher.images import building, held, spread
from launcher.images.building import Job
from launcher.images.held import Held
from launcher.images.spread import Spread
from sparkctl import ansible
from sparkctl.ansible import Answer
from sparkctl.line import Line, Network

Report = Callable[[str], None]

_PORTS = range(20_000, 30_000)
"""Where a sender listens: below what Linux takes for outgoing connections (32768 and up)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """How one node fared; `fault` is empty when it has the image now. Bytes and seconds are those of the stream or the build."""

    node: str
    changed: bool
    n_bytes: int = 0
    seconds: float = 0.0
    breaks: int = 0
    restarts: int = 0
    fault: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    content: str = ""
    is_unclear: bool = False
    """Whether the node could not be asked."""


def look(line: Line, image: str, at: str, report: Report) -> tuple[Held, ...]:
    """Ask every node of the line for the image, in one trip; changes nothing."""
    found = collect.look(
        line,
        replace(NOTHING, image=image),
        Floors(),
        at,
        held.PROBES,
        report=lambda answer: report(ansible.describe(answer)),
    )
    return tuple(held.read(facts) for facts in collect.facts(found))


def port() -> int:
    """Return a port for one stream, drawn by chance so that two runs seldom meet."""
    return secrets.choice(_PORTS)


def sync(line: Line, plan: Spread, network: Network, at_port: int, report: Report) -> tuple[Shipped, ...]:
    """Stream the image from its source to every receiver; the sender's own row comes first.

    The secret is made here, for this run alone, and reaches the nodes in no command line.
    """
    told = spread.variables(line, plan, network, port=at_port, token=secrets.token_hex(32))
    answers = ansible.run("image_sync", line, told, report=lambda one: report(ansible.describe(one)))
    return _shipped(answers, (plan.source, *plan.receivers))


def build(line: Line, job: Job, report: Report) -> Shipped:
    """Build the image on one node, unless one of the same inputs is there."""
    answers = ansible.run(
        "image_build", line, building.variables(job), report=lambda one: report(ansible.describe(one))
    )
    return _shipped(answers, (job.node,))[0]


def _shipped(answers: tuple[Answer, ...], nodes: Sequence[str]) -> tuple[Shipped, ...]:
    """Return each node's last answer, or its fault, in their order."""
    last: dict[str, Answer] = {}
    for one in answers:
        if not (one.host in last and last[one.host].status != "ok"):
            last[one.host] = one
    return tuple(_row(name, last.get(name)) for name in nodes)


def _row(node: str, answer: Answer | None) -> Shipped:
    if answer is None:
        return Shipped(
            node=node,
            changed=False,
            fault="it gave no answer",
            hint="run again with --verbose",
            is_unclear=True,
        )
    result = answer.result
    if answer.status in {"failed", "unreachable"}:
        said, hint = ansible.explain(answer)
        return Shipped(
            node=node,
            changed=False,
            fault=redact.text(said),
            hint=hint or str(result.get("hint", "")),
            log=redact.lines(str(result.get("stderr", "")).splitlines()[-20:]),
            is_unclear=answer.status == "unreachable",
        )
    return Shipped(
        node=node,
        changed=answer.changed,
        n_bytes=int(result.get("bytes") or result.get("image_bytes") or 0),
        seconds=float(result.get("seconds") or 0.0),
        breaks=int(result.get("breaks") or 0),
        restarts=int(result.get("restarts") or 0),
        content=str(result.get("content") or ""),
    )
