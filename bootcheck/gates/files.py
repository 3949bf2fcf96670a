"""Gates on bind sources: they are there, of the same kind and content everywhere, and on a file system that fits. Pure."""

from collections.abc import Iterator, Mapping

from bootcheck.facts import NodeFacts, Unread
from bootcheck.gates import differences
from bootcheck.gates.gate import Demand, LineGate, Scene, Seen, answers, describe
from bootcheck.probes.files import Filesystem, Patches, Sources
from sparkctl.line import Node

_NETWORK = ("nfs", "cifs", "smb", "9p", "fuse.", "ceph", "lustre", "glusterfs", "beegfs")
_GONE = ("No such file or directory", "Not a directory")
_NOT_ALLOWED = "Permission denied"
_SERVE = "serve the files from a worker or a machine outside the line, or copy them to every node"
_BY_HAND = "run findmnt -T PATH on the node by hand"
_DOCKER = "docker makes an empty folder of a source that is missing"


def _judge_mounts(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    if not scene.needs.mounts:
        yield from _bare(scene)
        return
    read, unread = answers(scene, Sources)
    files = {path for sources in read.values() for path, one in sources.found.items() if _is_file(one.kind)}
    for node, sources in read.items():
        yield node, _judge_sources(sources, files)
    yield from unread


def _judge_sources(sources: Sources, files: set[str]) -> Seen:
    gone = [path for path, why in sources.refused.items() if why in _GONE]
    closed = [path for path, why in sources.refused.items() if why == _NOT_ALLOWED]
    odd = [f"{path}: {why}" for path, why in sources.refused.items() if path not in {*gone, *closed}]
    folders = [path for path, one in sources.found.items() if one.kind == "directory" and path in files]
    faults = [f"{path} is not there" for path in gone] + odd
    faults += [f"{path} is a folder, elsewhere a file" for path in folders]
    if faults:
        hint = f"{_DOCKER}: copy it from another node, remove the folder first"
        return Seen(verdict="fail", measured="; ".join(faults), hint=hint if folders else "")
    if closed:
        measured = f"{', '.join(closed)}: the user of this check may not look there"
        return Seen(
            verdict="unknown", measured=measured, hint="let the user list that folder, or look by hand"
        )
    return Seen(verdict="pass", measured=f"{len(sources.found)} of {len(sources.found)} sources are there")


def _is_file(kind: str) -> bool:
    return kind.startswith("regular")


def _bare(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    return (
        (node, Seen(verdict="pass", measured="the recipe binds nothing")) for node, _ in scene.answering()
    )


def _judge_patches(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    """Compare the files that every node has; one that is missing is the gate `mounts`'."""
    if not scene.needs.mounts:
        yield from _bare(scene)
        return
    read, unread = answers(scene, Patches)
    yield from differences.judge(
        {node: patches.files for node, patches in read.items()},
        verdict="fail",
        absent_counts=False,
        tell=lambda node: _told(read[node].files),
        show=lambda _, digest: digest[:12],
    )
    yield from unread


def _told(files: Mapping[str, str]) -> str:
    if not files:
        return "no file is bound into the container"
    return ", ".join(f"{path.rpartition('/')[2]} {digest[:12]}" for path, digest in files.items())


def is_network(kind: str) -> bool:
    """Whether a file system of that kind lies on another machine; fuseblk is a local disk."""
    return kind == "fuse" or kind.startswith(_NETWORK)


def _judge_caches(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    written = scene.needs.written
    if not written:
        for node, _ in scene.answering():
            yield node, Seen(verdict="pass", measured="the recipe binds nothing that a rank may write to")
        return
    for node, facts in scene.answering():
        told = [one for path in written if (one := _lies(facts, path)) is not None]
        seen = _judge_written([one for one in told if isinstance(one, Filesystem)])
        blind = next((one for one in told if isinstance(one, Unread)), None)
        if blind and seen.verdict == "pass":
            seen = Seen(verdict="unknown", measured=describe(blind), hint=_BY_HAND)
        if not (blind and blind.is_left_out):
            yield node, seen


def _judge_written(lying: list[Filesystem]) -> Seen:
    far = [one for one in lying if is_network(one.kind)]
    told = "; ".join(f"{one.path} on {one.kind}, {one.source}" for one in far or lying)
    return Seen(verdict="fail" if far else "pass", measured=told or "what a rank writes to is not there yet")


def _lies(facts: NodeFacts, path: str) -> Filesystem | Unread | None:
    """Return where a path lies; None when the path is not there, which is the gate `mounts`' to say."""
    told = facts.all(Filesystem)
    found = next((one for one in told if isinstance(one, Filesystem) and one.path == path), None)
    if found:
        return found
    sources = facts.one(Sources)
    if not isinstance(sources, Unread) and path in sources.refused:
        return None
    unread = next((one for one in told if isinstance(one, Unread)), None)
    return unread or Unread(probe=Filesystem.probe, why=f"findmnt was not asked about {path}")


def _judge_model_filesystem(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    folder = scene.needs.model_folder
    told = {node: _lies(facts, folder) for node, facts in scene.answering() if folder}
    lying = {node: one for node, one in told.items() if isinstance(one, Filesystem)}
    for node, _ in scene.answering():
        one = told.get(node)
        if isinstance(one, Filesystem):
            yield node, _judge_lying(node, one, lying, scene)
        elif one is None:
            why = f"{folder} is not there" if folder else "no bind holds the model"
            yield node, Seen(verdict="pass", measured=f"{why}: another gate's")
        elif not one.is_left_out:
            yield node, Seen(verdict="unknown", measured=describe(one), hint=_BY_HAND)


def _judge_lying(node: Node, own: Filesystem, lying: Mapping[Node, Filesystem], scene: Scene) -> Seen:
    told = f"{own.path} on {own.kind}, {own.source} at {own.target}"
    if is_network(own.kind):
        if _is_at(own, scene.line.head):
            told = f"{told}: the head serves it, and runs out of memory first"
            return Seen(verdict="warn", measured=told, hint=_SERVE)
        return Seen(verdict="warn", measured=told)
    others = [one for other, one in lying.items() if other != node]
    far = [one for one in others if is_network(one.kind)]
    served = any(_is_at(one, node) for one in far)
    if len(far) > len(others) / 2 and not served:
        hint = f"mount {far[0].source} again (mount -a, if it stands in /etc/fstab): a mount by hand is gone after a reset"
        measured = f"{told}; elsewhere on {far[0].kind}, {far[0].source}: is the mount gone?"
        return Seen(verdict="warn", measured=measured, hint=hint)
    return Seen(verdict="pass", measured=told)


def _is_at(lying: Filesystem, node: Node) -> bool:
    """Whether that network file system is served by that node."""
    source = lying.source.removeprefix("//").rpartition("@")[2]
    return any(source.startswith((f"{name}:", f"{name}/")) for name in _names(node))


def _names(node: Node) -> tuple[str, ...]:
    return (node.name, node.host, *(rail.address for rail in node.rails))


GATES = (
    LineGate(
        name="mounts",
        section="parity",
        about="every bind source is there, and what is a file is a file on every node",
        demand=lambda _: Demand(
            wanted="every bind source of the recipe on every node",
            origin=f"{_DOCKER} (Richard0571/deepseek-v41-dgx-spark-vllm-tp4, reported)",
        ),
        remedy=f"copy it from another node: {_DOCKER}, and the rank finds nothing in it",
        troubles=("Richard0571/deepseek-v41-dgx-spark-vllm-tp4", "FujitsuPolycom/sparkring PR#68"),
        judge=_judge_mounts,
    ),
    LineGate(
        name="patch-parity",
        section="parity",
        about="every file that is bound into the container is the same on every node, by hash",
        demand=lambda _: Demand(
            wanted="the same SHA-256 on every node",
            origin="one rank with another patch serves wrong text, or hangs the others "
            "(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        ),
        remedy="copy the file from a node that has the right one, and compare again",
        troubles=(
            "tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#236",
            "FujitsuPolycom/sparkring PR#68",
        ),
        judge=_judge_patches,
    ),
    LineGate(
        name="cache-filesystem",
        section="parity",
        about="what ranks write to lies on the node's own disk",
        demand=lambda _: Demand(
            wanted="no folder that ranks write to on a network file system",
            origin="two ranks compiled into one folder "
            "(tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#27, reported)",
        ),
        remedy="bind a folder of the node's own disk for caches",
        troubles=("tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#27",),
        judge=_judge_caches,
    ),
    LineGate(
        name="model-filesystem",
        section="parity",
        about="the model lies on the node's own disk, and not elsewhere than on the other nodes",
        demand=lambda _: Demand(
            wanted="the model on the node's own disk, on every node",
            origin="a head that serves the files caches what workers read and runs out first; a mount by hand is gone after a "
            "reset (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        ),
        remedy="copy the model to the node's own disk: over a network loading took 10 to 18 minutes instead of 2 to 10 "
        "(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",),
        judge=_judge_model_filesystem,
        worst="warn",
    ),
)
