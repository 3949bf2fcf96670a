"""Files beside the weights: JSON documents read and written whole or not at all, and others taken over as they are."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkctl_vllm.refusal import Refusal


def read(path: Path) -> Any:
    """Return a JSON document."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise Refusal(str(path), fault, "a JSON document") from fault


def save(path: Path, document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON document."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def linked(file: Path, target: Path) -> None:
    """Have a file under another name: a hard link, or a copy where that cannot be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file.resolve(), target)
    except OSError:  # another file system, or one without links: a copy is as good, and takes room
        unfinished = target.with_name(f"{target.name}.writing")
        shutil.copyfile(file, unfinished)
        unfinished.replace(target)
