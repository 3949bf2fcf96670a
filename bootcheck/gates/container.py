"""Gates on containers: the image is there and the same on every rank, and nothing of an earlier boot is left."""

from bootcheck.facts import Containers, Image, NodeFacts
from bootcheck.floors import Floors
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Seen
from sparkctl.line import Node


def _judge_image(image: Image, _: Node, __: NodeFacts, ___: Floors) -> Seen:
    return Seen(
        verdict="pass" if image.is_present else "fail",
        measured=f"{image.reference} {_short(image.identity) if image.is_present else 'is not there'}",
        hint="copy the image from a node that has it: docker save IMAGE | ssh NODE docker load",
    )


def _short(digest: str) -> str:
    return digest[:19]


def _content(facts: NodeFacts) -> str | None:
    image = facts.image
    return "\n".join(image.layers) if isinstance(image, Image) and image.is_present else None


def _judge_leftovers(containers: Containers, _: Node, __: NodeFacts, ___: Floors) -> Seen:
    shown = ", ".join(f"{one.name} ({one.state})" for one in containers.found)
    return Seen(
        verdict="warn" if containers.found else "pass",
        measured=shown or "none",
        hint="sparkctl down removes them; a boot does so once its checks have passed",
    )


IMAGE = NodeGate(
    name="image",
    about="the serving image is there",
    demand=lambda _: Demand(wanted="the recipe's image", origin="a rank without it cannot start"),
    reads=lambda facts: facts.image,
    judge=_judge_image,
)

IMAGE_PARITY = ParityGate(
    name="image-parity",
    about="every rank has the same image, by content",
    demand=lambda _: Demand(
        wanted="the same image layers on every node",
        origin="ids may differ after save and load while layers match (Richard0571/deepseek-v41-dgx-spark-vllm-tp4, reported)",
    ),
    reads=_content,
    show=lambda layers: (
        f"{len(layers.split())} layers, last {_short(layers.split()[-1])}" if layers else "no layers"
    ),
    verdict="fail",
)

LEFTOVERS = NodeGate(
    name="leftovers",
    about="no rank of an earlier boot is left",
    demand=lambda _: Demand(
        wanted="no container of this line",
        origin="a worker that meets a stale head hangs the new boot (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
    ),
    reads=lambda facts: facts.containers,
    judge=_judge_leftovers,
    settles=True,
)
