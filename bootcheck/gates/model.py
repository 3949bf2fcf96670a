"""Gates on the model's files: whole on every node, the same on all, and as the recipe's manifest has them. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from bootcheck.findings import Verdict
from bootcheck.gates import differences
from bootcheck.gates.gate import Demand, LineGate, Scene, Seen, answers
from bootcheck.needs import Needs
from bootcheck.probes.model import ModelFiles, ModelHashes
from sparkctl.line import Node
from sparkctl.units import gib

_SERIES = re.compile(r"^(.*-)(\d{1,6})(-of-(\d{1,6}).*)$")
_MAY_BE_EMPTY = ("__init__.py", ".lock", ".gitkeep", ".gitattributes")
# What an engine reads of a model's folder: weights and their index, configurations, tokenizer, chat template, the model's own code.
_WEIGHTS = (".safetensors", ".index.json", ".gguf", ".bin", ".pt", ".pth", ".npz", ".exl3")
_READ = re.compile(
    r"(?:.*config[^/]*\.json|params\.json|tokenizer[^/]*|tekken\.json|vocab[^/]*|merges\.txt|.*\.tiktoken|.*\.model"
    r"|special_tokens_map\.json|added_tokens\.json|chat_template[^/]*|[^/]*\.jinja|[^/]*\.py)$"
)
_MOST = 4  # names in one finding


def _judge_files(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    if not scene.needs.model_folder:
        yield from _elsewhere(scene)
        return
    read, unread = answers(scene, ModelFiles)
    yield from ((node, _judge_folder(found, scene.needs)) for node, found in read.items())
    yield from unread


def _elsewhere(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    """No bind holds the model: it lies in the image, where `model-inside` looks."""
    return ((node, Seen(verdict="pass", measured="no bind holds the model")) for node, _ in scene.answering())


def _judge_folder(found: ModelFiles, needs: Needs) -> Seen:
    folder = needs.model_folder
    if not found.is_there:
        return Seen(verdict="fail", measured=f"{folder} is not there", hint=_MOUNT)
    if not found.files and not found.dangling:
        return Seen(verdict="fail", measured=f"{folder} is empty: is a mount missing?", hint=_MOUNT)
    shown = _shown(found.files)
    empty = [path for path, size in shown.items() if not size and not path.endswith(_MAY_BE_EMPTY)]
    faults = (
        *_named("unfinished", (path for path in found.files if path.endswith(".incomplete"))),
        *_named("links to nothing", (path for path in found.dangling if _is_read(path, needs))),
        *_named("empty", (path for path in empty if _is_read(path, needs))),
        *_named("missing", _missing(shown, needs)),
        *_named("of another size than the manifest says", _missized(shown, needs)),
    )
    if faults:
        return Seen(verdict="fail", measured="; ".join(faults))
    if found.refused:
        return Seen(
            verdict="unknown", measured=f"find could not read all of it: {found.refused[0]}", hint=_LOOK
        )
    strays = (
        *_named("links to nothing", (path for path in found.dangling if not _is_read(path, needs))),
        *_named("empty", (path for path in empty if not _is_read(path, needs))),
    )
    if strays:
        return Seen(verdict="warn", measured=f"{'; '.join(strays)}; no engine reads these", hint=_STRAY)
    return Seen(verdict="pass", measured=_sum(found.files))


def _is_read(path: str, needs: Needs) -> bool:
    """Whether an engine reads a file of that name, or the manifest asks for it."""
    name = path.rpartition("/")[2]
    return path in needs.files or name.endswith(_WEIGHTS) or _READ.match(name) is not None


def _named(what: str, paths: Iterable[str]) -> Iterator[str]:
    told = sorted(paths)
    if told:
        more = f" and {len(told) - _MOST} more" if len(told) > _MOST else ""
        yield f"{what}: {', '.join(told[:_MOST])}{more}"


def _shown(files: Mapping[str, int]) -> dict[str, int]:
    """Return the files that belong to the model: a downloader keeps its own in folders that begin with a dot."""
    return {path: size for path, size in files.items() if not f"/{path}".count("/.")}


def _sum(files: Mapping[str, int]) -> str:
    shown = _shown(files)
    return f"{len(shown)} files, {gib(sum(shown.values()))}"


def _missing(files: Mapping[str, int], needs: Needs) -> Iterator[str]:
    """Give the names that a manifest or the numbers in the other names ask for; a count would let a stranger stand in."""
    yield from needs.files.keys() - files.keys()
    series: dict[tuple[str, str, int], dict[int, int]] = {}
    for path in files:
        found = _SERIES.match(path)
        if found:
            parts = series.setdefault((found[1], found[3], int(found[4])), {})
            parts[int(found[2])] = len(found[2])
    for (before, after, total), parts in series.items():
        first = 0 if 0 in parts else 1
        width = max(parts.values())
        for number in sorted(set(range(first, first + total)) - parts.keys()):
            path = f"{before}{number:0{width}d}{after}"
            if path not in needs.files:
                yield path


def _missized(files: Mapping[str, int], needs: Needs) -> Iterator[str]:
    wanted = {path: one.size for path, one in needs.files.items() if one.size is not None}
    return (path for path, size in wanted.items() if files.get(path, size) != size)


def _judge_parity(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    """Compare names and sizes between nodes: what an engine reads must agree, the rest had better.

    A folder that is not there or empty is the other gate's.
    """
    if not scene.needs.model_folder:
        yield from _elsewhere(scene)
        return
    read, _ = answers(scene, ModelFiles)
    there = {node: found.files for node, found in read.items() if found.files}
    tables = {
        node: {path: str(size) for path, size in _shown(files).items()} for node, files in there.items()
    }

    def compare(verdict: Verdict, *, is_read: bool) -> dict[Node, Seen]:
        chosen = {
            node: {path: size for path, size in table.items() if _is_read(path, scene.needs) is is_read}
            for node, table in tables.items()
        }
        return dict(
            differences.judge(
                chosen,
                verdict=verdict,
                absent_counts=True,
                tell=lambda node: _sum(there[node]),
                show=lambda _, size: f"{size} bytes",
            )
        )

    rest = compare("warn", is_read=False)
    for node, seen in compare("fail", is_read=True).items():
        other = rest[node]
        if seen.verdict == "pass" and other.verdict != "pass":
            yield node, replace(other, measured=f"{other.measured}; no engine reads these", hint=_STRAY)
        else:
            yield node, seen


def _judge_hashes(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    if not scene.needs.model_folder:
        yield from _elsewhere(scene)
        return
    read, unread = answers(scene, ModelHashes)
    wanted = {path: one.sha256 for path, one in scene.needs.files.items() if one.sha256}
    for node, seen in differences.judge(
        {node: found.files for node, found in read.items()},
        verdict="fail",
        absent_counts=False,
        tell=lambda node: f"{len(read[node].files)} files hashed",
        show=lambda _, digest: digest[:12],
    ):
        files = read[node].files
        wrong = [path for path, digest in wanted.items() if files.get(path, digest) != digest]
        told = "; ".join(_named("other content than the manifest says", wrong))
        yield node, Seen(verdict="fail", measured=told) if told else seen
    yield from unread


_MOUNT = "see findmnt -T on the folder: mount what belongs there (mount -a), or copy the model to the node"
_LOOK = "list the folder by hand as the user of this check"
_STRAY = "remove what does not belong to the model, or copy it to every node"

GATES = (
    LineGate(
        name="model-files",
        section="parity",
        about="the model's folder is whole: by name set, never by count",
        demand=lambda _: Demand(
            wanted="every file of the manifest and of each numbered series, none unfinished, empty or a link to nothing",
            origin="a glob counted the drafter's file and hid a missing shard (JustVugg/colibri#1317, reported)",
        ),
        remedy="download or copy these files again, and look once more before any boot",
        troubles=(
            "JustVugg/colibri#1317",
            "Reederey87/glm53-flash-exl3-2x-dgx-spark#29",
            "tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",
        ),
        judge=_judge_files,
    ),
    LineGate(
        name="model-parity",
        section="parity",
        about="every node has the same files of the model, by name and size",
        demand=lambda _: Demand(
            wanted="the same names and sizes on every node of what an engine reads; other files only warn",
            origin="each rank reads its part from its own copy; counts may agree where names do not "
            "(JustVugg/colibri#1317, reported)",
        ),
        remedy="copy the files from a node that has them all",
        troubles=("JustVugg/colibri#1317", "MiaAI-Lab/DeepSeek-v4.1-Flash-EXL3-2x-DGX-Sparks#14"),
        judge=_judge_parity,
    ),
    LineGate(
        name="model-hashes",
        section="parity",
        about="every node has the same content of the model, by hash; looked at on request",
        demand=lambda _: Demand(
            wanted="the same SHA-256 on every node, and the manifest's where it has one",
            origin="a header that ends too early came with good hashes too: they tell a broken copy from a loader's fault "
            "(eugr/spark-vllm-docker#275, reported)",
        ),
        remedy="copy the file again; where the hashes agree a new download changes nothing: try another load format",
        troubles=("eugr/spark-vllm-docker#275",),
        needs_quiet=True,
        judge=_judge_hashes,
    ),
)
