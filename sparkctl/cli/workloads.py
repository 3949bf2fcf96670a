"""Which workload a name or a path means: one that ships, one of the user's own, or a prompt file of v41bench. I/O."""

from collections.abc import Mapping
from pathlib import Path

from sparkctl import content, edge
from sparkctl.errors import FileFault
from tuner.results import v41bench
from tuner.workload import Workload

DEFAULT = "quick"


def read(name: str) -> Workload:
    """Read a workload by its name or path.

    Raises:
        FileFault: it is missing or written wrongly, or the text that it names is.

    """
    path = content.prompts(name)
    raw = edge.read_raw(path)
    if v41bench.is_prompts(raw):
        told = edge.structure(raw, v41bench.Prompts, source=str(path))
        return edge.structure(v41bench.workload(told), Workload, source=str(path))
    return edge.structure(_with_text(raw, path), Workload, source=str(path))


def _with_text(raw: object, path: Path) -> object:
    """Put the text that a workload's filler names in its place; a workload that has none is left to the edge to judge."""
    filler = raw.get("filler") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(filler, Mapping) or "file" not in filler:
        return raw
    named = filler["file"]
    if not isinstance(named, str) or not named:
        raise FileFault(
            f"{path}: $.filler.file: wanted the name of a text file, found {named!r}",
            hint="name a text beside this file, in passages parted by blank lines",
        )
    rest = {key: value for key, value in filler.items() if key != "file"}
    text = edge.read_text(path.parent / named)
    return {**raw, "filler": {"unit": "passages", **rest, "text": text}}
