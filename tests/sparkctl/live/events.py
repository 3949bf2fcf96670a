"""Events read back from the JSON lines that `--events` writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from sparkctl import edge
from sparkctl.live.event import NAMES, Event, What

_KINDS = {name: kind for kind, name in NAMES.items()}
_HEAD = ("schema", "event", "at", "s", "line", "run")


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a file."""
    for raw in path.read_text(encoding="utf-8").splitlines():
        document: dict[str, Any] = json.loads(raw)
        at, s, line, run = (document[key] for key in ("at", "s", "line", "run"))
        own = {key: _pairs(value) for key, value in document.items() if key not in _HEAD}
        what = cast("What", edge.structure(own, _KINDS[document["event"]], source=str(path)))
        yield Event(at=at, s=s, line=line, run=run, what=what)


def _pairs(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value
