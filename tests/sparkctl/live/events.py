"""Events read back from the JSON lines that `--events` writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkctl.live.event import NAMES, Event, Judged

_KINDS = {name: kind for kind, name in NAMES.items()}
_HEAD = ("schema", "event", "at", "s", "line", "run")


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a file."""
    for raw in path.read_text(encoding="utf-8").splitlines():
        document: dict[str, Any] = json.loads(raw)
        at, s, line, run = (document[key] for key in ("at", "s", "line", "run"))
        own = {key: _value(key, value) for key, value in document.items() if key not in _HEAD}
        yield Event(at=at, s=s, line=line, run=run, what=_KINDS[document["event"]](**own))


def _value(key: str, value: Any) -> Any:
    if key == "decided":
        return tuple(Judged(**one) for one in value)
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value
