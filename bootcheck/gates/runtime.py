"""Gates on the inside of a rank's container: NCCL's binary and settings, a ptxas that knows GB10, the model. Pure.

Why the look inside was not possible is said once, by `model-inside`; not at all where another gate names the cause.
"""

from collections.abc import Iterator

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates import differences
from bootcheck.gates.gate import Demand, LineGate, Scene, Seen, answers
from bootcheck.probes.container import Image
from bootcheck.probes.files import Sources
from bootcheck.probes.runtime import Runtime
from sparkctl.line import Node

_GB10 = "sm_121a"
_NO_LIBRARY = "no libnccl in the image: it may be linked into torch, and was not compared"


def _judge_nccl(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    read, _ = answers(scene, Runtime)
    tables = {node: {one.path: one.sha256 for one in inside.nccl} for node, inside in read.items()}
    for node, seen in differences.judge(
        tables,
        verdict="fail",
        absent_counts=True,
        tell=lambda node: _libraries(read[node]),
        show=lambda _, digest: digest[:12],
    ):
        if read[node].nccl:
            yield node, seen
        else:
            yield (
                node,
                Seen(verdict="warn", measured=_NO_LIBRARY, hint="compare torch.cuda.nccl.version() by hand"),
            )


def _libraries(inside: Runtime) -> str:
    return ", ".join(f"{one.path} {one.sha256[:12]}" for one in inside.nccl)


def _judge_nccl_conf(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    read, _ = answers(scene, Runtime)
    differs = len({inside.nccl_settings for inside in read.values()}) > 1
    for node, inside in read.items():
        told = ", ".join(inside.nccl_settings)
        if told:
            aside = "; not the same on every node" if differs else ""
            yield node, Seen(verdict="warn", measured=f"nccl.conf sets {told}{aside}")
        else:
            empty = "no nccl.conf" if inside.nccl_conf is None else "an nccl.conf that sets nothing"
            yield node, Seen(verdict="pass", measured=empty)


def _judge_ptxas(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    read, _ = answers(scene, Runtime)
    for node, inside in read.items():
        tool = inside.ptxas.split(" sm_")[0]
        if _GB10 in inside.targets:
            yield node, Seen(verdict="pass", measured=f"{tool} knows {_GB10}")
        elif inside.ptxas:
            newest = max(inside.targets, default="no target", key=_number)
            yield node, Seen(verdict="fail", measured=f"{tool} does not know {_GB10}, {newest} at most")
        else:
            yield node, Seen(verdict="warn", measured="no ptxas found: nothing can be compiled at run time")


def _number(target: str) -> tuple[int, str]:
    digits = "".join(sign for sign in target if sign.isdigit())
    return int(digits or "0"), target


def _judge_model(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    path = scene.needs.model_path
    read, unread = answers(scene, Runtime)
    for node, inside in read.items():
        if not path.startswith("/"):
            yield node, Seen(verdict="pass", measured=f"{path} is a name, not a path")
        elif inside.model_exists and inside.model_entries > 0:
            yield node, Seen(verdict="pass", measured=f"{path} has {inside.model_entries} entries inside")
        else:
            what = "is empty inside" if inside.model_exists else "is not there inside"
            yield node, Seen(verdict="fail", measured=f"{path} {what}", hint=_hint(scene))
    yield from ((node, seen) for node, seen in unread if not _is_explained(scene.of(node)))


def _hint(scene: Scene) -> str:
    folder = scene.needs.model_folder
    if not folder:
        return "bind the model's folder into the container: no mount of the recipe holds this path"
    return f"see where {folder} leads (readlink -f): a link that leaves the mount ends in nothing inside"


def _is_explained(facts: NodeFacts) -> bool:
    """Whether the look inside could not be taken because the image or a bind source is not there."""
    image, sources = facts.one(Image), facts.one(Sources)
    no_image = not isinstance(image, Unread) and not image.is_present
    return no_image or (not isinstance(sources, Unread) and bool(sources.refused))


GATES = (
    LineGate(
        name="nccl-parity",
        section="parity",
        about="every rank will load the same NCCL, by content",
        demand=lambda _: Demand(
            wanted="the same libnccl on every node, by SHA-256",
            origin="the same version in another build hung after 20 minutes (vllm-project/vllm#42354, reported)",
        ),
        remedy="give every rank the same image and the same binds over NCCL's library",
        troubles=("vllm-project/vllm#42354",),
        judge=_judge_nccl,
    ),
    LineGate(
        name="nccl-conf",
        section="parity",
        about="no nccl.conf in the image sets what the recipe does not know of",
        demand=lambda _: Demand(
            wanted="no setting in nccl.conf",
            origin="two settings left in an image froze the first 4-byte collective "
            "(luxingcom/aicad-nccl-optimization#1, reported)",
        ),
        remedy="bind an empty file over /etc/nccl.conf, or give each setting in the recipe's env, which outweighs the file",
        troubles=(
            "luxingcom/aicad-nccl-optimization#1",
            "MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3",
        ),
        judge=_judge_nccl_conf,
        worst="warn",
    ),
    LineGate(
        name="ptxas",
        section="parity",
        about="the assembler that Triton takes knows GB10",
        demand=lambda _: Demand(
            wanted=f"a ptxas that knows {_GB10}",
            origin="GB10 is compute capability 12.1; ptxas of CUDA 12.8 ends with an error there "
            "(calico88x/DGX-Model-Manager#1, reported)",
        ),
        remedy="set TRITON_PTXAS_PATH in the recipe's env to a ptxas of CUDA 12.9 or later, such as "
        "/usr/local/cuda/bin/ptxas; TRITON_PTXAS_BLACKWELL_PATH too where Triton brings a ptxas-blackwell",
        troubles=("calico88x/DGX-Model-Manager#1",),
        judge=_judge_ptxas,
    ),
    LineGate(
        name="model-inside",
        section="parity",
        about="the model is there as a rank's container sees it",
        demand=lambda _: Demand(
            wanted="the recipe's model path inside the container, with files in it",
            origin="an absent path is taken for a model's name: HFValidationError "
            "(tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#20, reported)",
        ),
        remedy="bind the model's folder into the container, with all that its links lead to",
        troubles=(
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#20",
            "MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks#14",
        ),
        judge=_judge_model,
    ),
)
