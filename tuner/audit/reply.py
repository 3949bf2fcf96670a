"""What the audit takes and gives: one reply, and one damage with its measure and the words that show it."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "empty",
    "reasoning_only",
    "after_end",
    "special_token",
    "broken_characters",
    "mojibake",
    "loop",
    "repetition",
    "narrow",
    "compression",
    "characters",
    "salad",
    "drift",
]

Where = Literal["text", "reasoning"]

EXCERPT = 96
"""Characters of an excerpt; ours: one line of a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply as it came; what is not known stays at its default.

    `completion_tokens` is the server's count, `prompt` what was asked: a mark or a language that the prompt names is
    no damage.
    """

    text: str
    reasoning: str = ""
    completion_tokens: int | None = None
    finish_reason: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing wrong with a reply; `at` counts characters of the text or of the reasoning, whichever `where` says."""

    kind: Kind
    measured: str
    wanted: str
    at: int
    excerpt: str
    where: Where = "text"

    @property
    def said(self) -> str:
        """What was measured and wanted, and the words that show it."""
        shown = f": {self.excerpt!r}" if self.excerpt else ""
        return f"{self.kind}: {self.measured}, wanted {self.wanted}{shown}"


def excerpt(text: str, at: int) -> str:
    """Return the words that stand at a place, on one line."""
    before = text[max(0, at - 24) : at]
    # Half a word in front says nothing.
    start = at - len(before.partition(" ")[2]) if at > 24 else 0
    return " ".join(text[start : at + EXCERPT].split())[:EXCERPT]
