"""`sparkctl audit`: are the replies of a bench whole? Judges results of ours and others'."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bootcheck import redact
from sparkctl import edge
from sparkctl.cli.session import Session, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault
from tuner import results
from tuner.audit import Damage
from tuner.audit import audit as judge
from tuner.results import Doubt, Result, doubts


@verb
def audit(
    session: Session, files: Annotated[list[Path], typer.Argument(help="Bench results; of whom, is seen.")]
) -> int:
    """Judge bench results: are these numbers real?

    Loops, leaked marks, broken characters, drift and silence make a reply damaged; prefills out of the cache, rates that tokens and
    seconds do not give, empty and unfinished requests make a number doubtful. One of either is an exit of 1.
    """
    judged = [_judged(path, _read(path)) for path in files]
    judged = [*judged, *_twins(files)]
    damaged = [(one["file"], damage) for one in judged for damage in one["damaged"]]
    doubtful = [(one["file"], doubt) for one in judged for doubt in one["doubts"]]
    _show(session, damaged, doubtful)
    for one in judged:
        session.console.show(_summary(one))
    session.console.answer({"ok": not damaged and not doubtful, "files": judged})
    return 1 if damaged or doubtful else 0


def _show(session: Session, damaged: list[tuple[str, Any]], doubtful: list[tuple[str, Any]]) -> None:
    if damaged:
        session.console.table(
            (
                *(Column(title=title) for title in ("file", "request", "damage")),
                Column(title="measured", fold=True),
                Column(title="text", fold=True),
            ),
            [
                (
                    Path(file).name,
                    one["request"],
                    one["kind"],
                    f"{one['measured']}, wanted {one['wanted']}",
                    one["excerpt"],
                )
                for file, one in damaged
            ],
        )
    if doubtful:
        session.console.table(
            (
                *(Column(title=title) for title in ("file", "number of", "doubt")),
                Column(title="measured", fold=True),
                Column(title="wanted", fold=True),
            ),
            [
                (Path(file).name, one["where"], one["kind"], one["measured"], one["wanted"])
                for file, one in doubtful
            ],
        )


def _summary(one: dict[str, Any]) -> str:
    number = len({damage["request"] for damage in one["damaged"]})
    told = (
        f"{one['file']}: {number} of {one['requests']} replies damaged, {len(one['doubts'])} numbers doubtful"
    )
    return told if one["requests"] else f"{told} (its texts are not kept, so its numbers alone were judged)"


def _twins(files: list[Path]) -> list[dict[str, Any]]:
    """Find results under several names with the same bytes: the one before was overwritten by the one after, or copied."""
    by_content: dict[str, list[Path]] = {}
    for path in files:
        by_content.setdefault(edge.read_text(path), []).append(path)
    return [
        {
            "file": str(same[-1]),
            "requests": 0,
            "damaged": [],
            "figures": None,
            "doubts": edge.plain(
                (
                    Doubt(
                        kind="same_file",
                        where="the file",
                        measured=f"byte for byte {same[0]}",
                        wanted="a result of its own",
                    ),
                )
            ),
        }
        for same in by_content.values()
        if len(same) > 1
    ]


def _judged(path: Path, result: Result) -> dict[str, Any]:
    found = [(one.request, damage) for one in result.answered for damage in judge(one.reply)]
    return {
        "file": str(path),
        "requests": len(result.answered),
        "damaged": [{"request": request, **_told(damage)} for request, damage in found],
        "doubts": edge.plain(doubts(result.figures)),
        "figures": edge.plain(result.figures) if result.figures.tool else None,
    }


def _told(damage: Damage) -> dict[str, Any]:
    # What a model says may be what it was told: a reply is shown like a log.
    shown = {key: redact.text(getattr(damage, key)) for key in ("measured", "excerpt")}
    told: dict[str, Any] = edge.plain(damage)
    return told | shown


def _read(path: Path) -> Result:
    hint = "write one with sparkctl bench -o FILE, or with vllm bench serve --save-result --save-detailed"
    text = edge.read_text(path)
    try:
        if text.lstrip().startswith(("data:", ":", "event:")):
            result = results.of_stream(text)
        else:
            result = results.of_document(edge.parse_json(text, source=str(path)))
    except ValueError as fault:
        raise FileFault(f"{path}: {fault}", hint=hint) from fault
    if not result.answered and not result.figures.tool:
        raise FileFault(f"{path}: no reply to judge, wanted at least one that did not fail", hint=hint)
    return result
