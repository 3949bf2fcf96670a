"""Events of a stream: bytes as they arrive to frames of server-sent events, each with the document that it carries.

A frame keeps its bytes to the blank line that ends it, so that what nobody changes goes on as it came. How the stream was cut
into reads makes no difference.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

_END = re.compile(rb"\r?\n\r?\n")
_COLON = b"data:"


@dataclass(slots=True)
class Framer:
    """Cuts a stream into frames; `rest` is what no blank line has ended yet."""

    rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> tuple[bytes, ...]:
        """Take the next read; return the frames that it completes."""
        found, start = [], 0
        # Of what was there before, only its last bytes can belong to a blank line.
        looked = max(0, len(self.rest) - 3)
        whole = self.rest + data
        for end in _END.finditer(whole, looked):
            found.append(whole[start : end.end()])
            start = end.end()
        self.rest = whole[start:]
        return tuple(found)


def document(frame: bytes) -> Mapping[str, object] | None:
    """Return the JSON object that a frame carries; None for a comment, an end mark or anything else."""
    payload = b"\n".join(
        line.removeprefix(_COLON) for line in frame.splitlines() if line.startswith(_COLON)
    ).strip()
    return parsed(payload) if payload.startswith(b"{") else None


def parsed(data: bytes) -> Mapping[str, object] | None:
    """Return a JSON object, None where the bytes are none."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def written(told: Mapping[str, object]) -> bytes:
    """Write a document as vLLM does: no spaces, characters as they are."""
    try:
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half a character, as JSON escapes can tell it; only an escape can say it again.
        return json.dumps(told, separators=(",", ":")).encode()


def framed(told: Mapping[str, object]) -> bytes:
    """Write a document as one frame."""
    return b"data: " + written(told) + b"\n\n"
