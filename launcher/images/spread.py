"""Spread: who sends an image to whom, and what each node is told for it. Pure; the secret and the port come in as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.images.held import Held, contents
from sparkctl.errors import Refused, Unclear, UsageFault
from sparkctl.line import Line, Network, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One image, the node that sends it, those that take it and those that have it already."""

    image: str
    content: str
    n_bytes: int
    source: str
    receivers: tuple[str, ...]
    equal: tuple[str, ...]
    withheld: tuple[str, ...] = ()
    """As in `Held`."""


def spread(image: str, held: Sequence[Held], source: str | None) -> Spread:
    """Decide who sends to whom: `source`, or the first node that has the image when all that have it have the same.

    Raises:
        Unclear: a node could not be asked.
        Refused: no node has the image, the named one lacks it, or nodes hold different contents and none was named.
        UsageFault: the named node is none of the line.

    """
    _demand_known(held)
    if source is not None and source not in {one.node for one in held}:
        known = ", ".join(one.node for one in held)
        raise UsageFault(f"--from {source}: not a node of the line: {known}", hint="name one of these")
    sender = _sender(image, held, source)
    return Spread(
        image=image,
        content=sender.content,
        n_bytes=sender.n_bytes,
        source=sender.node,
        receivers=tuple(one.node for one in held if one.content != sender.content),
        equal=tuple(one.node for one in held if one.content == sender.content and one is not sender),
        withheld=sender.withheld,
    )


def _demand_known(held: Sequence[Held]) -> None:
    unknown = [one for one in held if one.fault]
    if unknown:
        said = "; ".join(f"{one.node}: {one.fault}" for one in unknown)
        raise Unclear(f"{said}; wanted an answer of every node before anything is sent", hint=unknown[0].hint)


def _sender(image: str, held: Sequence[Held], source: str | None) -> Held:
    if source is not None:
        named = next(one for one in held if one.node == source)
        if named.is_present:
            return named
        raise Refused(
            f"{source} does not have {image}; wanted the image on the node that sends it",
            hint=f"it is on: {_holders(held) or 'no node of the line'}; sparkctl images build makes it, docker pull fetches one",
        )
    found = contents(held)
    if len(found) == 1:
        return next(one for one in held if one.is_present)
    if not found:
        raise Refused(
            f"no node of the line has {image}; wanted it on one of them",
            hint="sparkctl images build makes it on one node, docker pull fetches one",
        )
    told = "; ".join(f"{', '.join(nodes)}: {short(content)}" for content, nodes in found.items())
    raise Refused(
        f"the nodes hold {len(found)} different images called {image} ({told}); wanted to be told which is the right one",
        hint="name the node that has it with --from; the others' are replaced",
    )


def _holders(held: Sequence[Held]) -> str:
    return ", ".join(one.node for one in held if one.is_present)


def short(content: str) -> str:
    """Return the start of a content digest, as it is shown."""
    return content[: len("sha256:") + 12]


def variables(line: Line, plan: Spread, network: Network, *, port: int, token: str) -> dict[str, object]:
    """Return what image_sync.yml needs."""
    by_name: Mapping[str, Node] = {node.name: node for node in line.nodes}
    ends = {
        name: {"end": "send" if name == plan.source else "receive", "own": by_name[name].address_on(network)}
        for name in (plan.source, *plan.receivers)
    }
    return {
        "sync_ends": ends,
        "sync_image": {
            "name": plan.image,
            "content": plan.content,
            "bytes": plan.n_bytes,
            "withheld": list(plan.withheld),
        },
        "sync_sender": {"address": ends[plan.source]["own"], "port": port, "token": token},
        "sync_receivers": list(plan.receivers),
    }
