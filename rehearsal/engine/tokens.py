"""The tokens of a practice line: about four characters each of prose and code, the same rule for prompts and answers."""

import re
from zlib import crc32

_PIECE = re.compile(r"\s*\w{1,6}|\s*[^\w\s]+|\s+")
BLOCK = 128
"""Tokens of one block of the prefix cache: `--block-size 128` on GB10 (vLLM 0.33)."""


def split(text: str) -> list[str]:
    """Split text into tokens; joined they are the text again."""
    return _PIECE.findall(text)


def blocks(pieces: list[str]) -> list[int]:
    """Return a chained hash for each full block: equal only where everything before is equal too."""
    chain = 0
    found = []
    for start in range(0, len(pieces) - BLOCK + 1, BLOCK):
        chain = crc32("".join(pieces[start : start + BLOCK]).encode(), chain)
        found.append(chain)
    return found
