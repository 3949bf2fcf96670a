"""What `sparkctl images show` prints: each node's image by content, its label against the manifest, and the answer."""

from typing import Any

from launcher.images import held as held_module
from launcher.images import inputs as inputs_module
from launcher.images import spread
from launcher.images.held import Held
from launcher.images.inputs import Labelled
from sparkctl.cli.image_files import ImageFiles
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.line import Line
from sparkctl.units import gib


def _labelled(one: Held, files: ImageFiles | None) -> Labelled | None:
    if files is None or not one.is_present:
        return None
    return inputs_module.compare(files.manifest, files.texts, one.labels)


_SAID = {
    "none": "no label: not built by sparkctl images build",
    "broken": "its labels contradict each other",
    "other": "built from other inputs",
    "same": "as the manifest says",
}


def show_held(
    session: Session, line: Line, reference: str, files: ImageFiles | None, found: tuple[Held, ...]
) -> int:
    """Print what every node holds and how its label compares; return the exit code."""
    console, contents = session.console, held_module.contents(found)
    judged = {one.node: _labelled(one, files) for one in found}
    wrong = {node for node, one in judged.items() if one and one.state in {"broken", "other"}}
    lacking = [one.node for one in found if not one.fault and not one.is_present]
    code = 1 if lacking or len(contents) > 1 or wrong else 3 if any(one.fault for one in found) else 0
    console.table(
        tuple(
            Column(title=title, fold=title == "label")
            for title in ("node", "content", "size", "store", "label")
        ),
        [_cells(one, judged[one.node]) for one in found],
    )
    for node, one in judged.items():
        for text in one.differences if one else ():
            console.say(f"{node}: {text}")
    console.show(f"{reference}: {_verdict(found, lacking, len(contents), wrong)}")
    if files is None:
        console.say(f"no manifest of sparkctl's says what {reference} is built from; its label is not judged")
    if code == 1:
        console.say(
            "\nhint: sparkctl images sync brings every node to one content; images build makes a new one"
        )
    rows = [_row(one, judged[one.node]) for one in found]
    told: dict[str, Any] = {"line": line.name, "ok": code == 0, "image": reference, "nodes": rows}
    told |= {"content": next(iter(contents)) if len(contents) == 1 else None}
    told |= {"manifest": files.manifest.name if files else None, "simulated": session.simulated}
    console.answer(told)
    return code


def _verdict(found: tuple[Held, ...], lacking: list[str], contents: int, wrong: set[str]) -> str:
    said = []
    if contents > 1:
        said.append(f"{contents} different contents under one name")
    if lacking:
        said.append(f"not on {', '.join(lacking)}")
    if wrong:
        said.append(f"the label of {', '.join(sorted(wrong))} does not fit the manifest")
    if faulty := [one.node for one in found if one.fault]:
        said.append(f"no answer of {', '.join(faulty)}")
    return "; ".join(said) or f"the same content on {len(found)} nodes"


def _cells(one: Held, labelled: Labelled | None) -> list[str]:
    if one.fault:
        return [one.node, "?", "", "", one.fault]
    if not one.is_present:
        return [one.node, "absent", "", one.store, ""]
    label = _SAID[labelled.state] if labelled else ""
    return [one.node, spread.short(one.content), gib(one.n_bytes), one.store, label]


def _row(one: Held, labelled: Labelled | None) -> dict[str, Any]:
    return {
        "node": one.node,
        "present": one.is_present,
        "content": one.content,
        "bytes": one.n_bytes,
        "layers": one.layers,
        "architecture": one.architecture,
        "store": one.store,
        "label": labelled.state if labelled else None,
        "differences": list(labelled.differences) if labelled else [],
        "base": labelled.base if labelled else "",
        "fault": one.fault,
        "hint": one.hint,
    }
