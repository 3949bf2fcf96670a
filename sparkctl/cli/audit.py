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
from tuner.results import Answered


@verb
def audit(
    session: Session, files: Annotated[list[Path], typer.Argument(help="Bench results; of whom, is seen.")]
) -> int:
    """Judge the replies of bench results: are these numbers real?

    Loops, leaked marks, broken characters, drift and silence make a reply damaged; one damaged reply is an exit of 1.
    """
    judged = [_judged(path, _read(path)) for path in files]
    damaged = [(one["file"], damage) for one in judged for damage in one["damaged"]]
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
    for one in judged:
        number = len({damage["request"] for damage in one["damaged"]})
        session.console.show(f"{one['file']}: {number} of {one['requests']} replies damaged")
    session.console.answer({"ok": not damaged, "files": judged})
    return 1 if damaged else 0


def _judged(path: Path, answered: tuple[Answered, ...]) -> dict[str, Any]:
    found = [(one.request, damage) for one in answered for damage in judge(one.reply)]
    return {
        "file": str(path),
        "requests": len(answered),
        "damaged": [{"request": request, **_told(damage)} for request, damage in found],
    }


def _told(damage: Damage) -> dict[str, Any]:
    # What a model says may be what it was told: a reply is shown like a log.
    shown = {key: redact.text(getattr(damage, key)) for key in ("measured", "excerpt")}
    told: dict[str, Any] = edge.plain(damage)
    return told | shown


def _read(path: Path) -> tuple[Answered, ...]:
    hint = "write one with sparkctl bench -o FILE, or with vllm bench serve --save-result --save-detailed"
    text = edge.read_text(path)
    try:
        if text.lstrip().startswith(("data:", ":", "event:")):
            answered = results.of_stream(text)
        else:
            answered = results.of_document(edge.parse_json(text, source=str(path)))
    except ValueError as fault:
        raise FileFault(f"{path}: {fault}", hint=hint) from fault
    if not answered:
        raise FileFault(f"{path}: no reply to judge, wanted at least one that did not fail", hint=hint)
    return answered
