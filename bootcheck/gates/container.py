"""Gates on containers: the image is there and the same on every rank, and nothing of an earlier boot is left."""

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Seen, View, reading
from bootcheck.probes.container import Containers, Image


def _judge_image(image: Image, _: View) -> Seen:
    return Seen(
        verdict="pass" if image.is_present else "fail",
        measured=f"{image.reference} {_short(image.identity) if image.is_present else 'is not there'}",
    )


def _short(digest: str) -> str:
    return digest[:19]


def _content(facts: NodeFacts) -> str | None:
    image = facts.one(Image)
    return None if isinstance(image, Unread) or not image.is_present else "\n".join(image.layers)


def _judge_leftovers(containers: Containers, _: View) -> Seen:
    shown = ", ".join(f"{one.name} ({one.state})" for one in containers.found)
    return Seen(
        verdict="warn" if containers.found else "pass",
        measured=shown or "none",
    )


def _show_layers(layers: str) -> str:
    return (
        f"{len(layers.split())} layers, last {_short(layers.rsplit(maxsplit=1)[-1])}"
        if layers
        else "no layers"
    )


GATES = (
    NodeGate(
        name="image",
        section="parity",
        about="the serving image is there",
        demand=lambda _: Demand(wanted="the recipe's image", origin="a rank without it cannot start"),
        remedy="copy the image from a node that has it: docker save IMAGE | ssh NODE docker load",
        troubles=("eugr/spark-vllm-docker#339",),
        reads=reading(Image),
        judge=_judge_image,
    ),
    ParityGate(
        name="image-parity",
        section="parity",
        about="every rank has the same image, by content",
        demand=lambda _: Demand(
            wanted="the same image layers on every node",
            origin="ids may differ after save and load while layers match (Richard0571/deepseek-v41-dgx-spark-vllm-tp4, reported)",
        ),
        remedy="bring the nodes to the same image: docker save IMAGE | ssh NODE docker load",
        troubles=("eugr/spark-vllm-docker#339",),
        reads=_content,
        show=_show_layers,
        verdict="fail",
    ),
    NodeGate(
        name="leftovers",
        section="leftovers",
        about="no rank of an earlier boot is left",
        demand=lambda _: Demand(
            wanted="no container of this line",
            origin="a worker that meets a stale head hangs the new boot (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        ),
        remedy="sparkctl down removes them; a boot does so once its checks have passed",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",),
        settles=True,
        reads=reading(Containers),
        judge=_judge_leftovers,
    ),
)
