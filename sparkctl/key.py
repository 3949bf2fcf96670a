"""The key of a line's API: read from a file that nobody else may read, whenever it is needed, and kept nowhere."""

import re
import stat
from pathlib import Path

from sparkctl import edge
from sparkctl.errors import FileFault

VARIABLE = "VLLM_API_KEY"
"""What vLLM reads the key from; as a flag it would stand in the process list and in the engine's own start log."""

_KEY = re.compile(r"[!-~]{8,}", re.ASCII)


def read(path: Path) -> str:
    """Return the key in a file.

    Raises:
        FileFault: there is none, others may read it, or it is no key.

    """
    text = edge.read_text(path).strip()
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.filemode(path.stat().st_mode)
        raise FileFault(
            f"{path}: others may read the API's key ({mode}); wanted mode 0600", hint=f"chmod 600 {path}"
        )
    if not _KEY.fullmatch(text):
        raise FileFault(
            f"{path}: not a key; wanted one line of at least 8 printable characters without spaces",
            hint="for example: openssl rand -hex 24",
        )
    return text


def header(path: str | None) -> dict[str, str]:
    """Return the header that a request carries; none where the line has no key."""
    return {"authorization": f"Bearer {read(Path(path))}"} if path else {}
