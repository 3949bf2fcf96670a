"""Marks that no reader should see, characters that lost their bytes, and replies that say nothing.

Special tokens are the chat templates' own; a text that speaks of them sets them in quotes or code, and passes. Mojibake
is found by its bytes: text that reads as UTF-8 once it is written as Latin-1 or Windows-1252 was decoded wrongly.
"""

import re
from collections.abc import Iterator

from tuner.audit.reply import Damage, Reply, Where, excerpt

_END = (
    r"<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|return|eos|user|assistant|observation)\|>"
    r"|</s>|<eos>|<end_of_turn>|\[/INST\]|<\uff5cend\u2581of\u2581sentence\uff5c>"
)
_OTHER = (
    r"<\|[A-Za-z0-9_\u2581]{2,40}\|>|<\uff5c[^<>\n]{2,40}\uff5c>|<s>(?!.{1,200}</s>)|<bos>|<pad>|<unk>|<start_of_turn>"
    r"|\[INST\]|<</?SYS>>|</?think(?:ing)?>|<\uff5cDSML\uff5c|<0x[0-9A-F]{2}>|[\u0120\u010a](?=[a-z]{2})"
)
_MARK = re.compile(f"(?P<end>{_END})|{_OTHER}")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`", re.DOTALL)
_QUOTES = "\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"

LEAST_MOJIBAKE = 2
"""Characters read wrongly; one may be a name or a formula. Ours."""

_CP1252 = {
    ord(bytes([byte]).decode("cp1252")): byte
    for byte in range(0x80, 0xA0)
    if byte not in b"\x81\x8d\x8f\x90\x9d"
}
_MOJIBAKE = re.compile(
    "[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}",
)


def unsaid(reply: Reply) -> tuple[Damage, ...]:
    """Return that a reply says nothing, or only thinks; nothing if it says something."""
    if reply.text.strip():
        return ()
    charged = "an unknown number of" if reply.completion_tokens is None else reply.completion_tokens
    ended = f", ended by {reply.finish_reason}" if reply.finish_reason else ""
    if reply.reasoning.strip():
        measured = f"only reasoning, no answer, in {charged} tokens{ended}"
        wanted = "an answer: give it more tokens, or turn thinking off"
        return (
            Damage(
                kind="reasoning_only",
                measured=measured,
                wanted=wanted,
                at=0,
                excerpt=excerpt(reply.reasoning, 0),
            ),
        )
    return (
        Damage(kind="empty", measured=f"no text in {charged} tokens{ended}", wanted="text", at=0, excerpt=""),
    )


def leaks(text: str, reply: Reply, where: Where) -> tuple[Damage, ...]:
    """Return the first special token in a text, and whether text goes on after an end mark."""
    for mark in _marks(text, reply.prompt):
        rest = text[mark.end() :]
        if mark["end"] and rest.strip():
            measured = f"{len(rest)} characters after the end mark {mark[0]}"
            kind, wanted = "after_end", "nothing after it; a run with ignore_eos measures speed only"
        else:
            measured, kind, wanted = f"the special token {mark[0]}", "special_token", "none in the text"
        return (
            Damage(
                kind=kind,  # type: ignore[arg-type]
                measured=measured,
                wanted=wanted,
                at=mark.start(),
                excerpt=excerpt(text, mark.start()),
                where=where,
            ),
        )
    return ()


def _marks(text: str, prompt: str) -> Iterator[re.Match[str]]:
    """Yield special tokens outside code and quotes that the prompt does not name."""
    code = [one.span() for one in _CODE.finditer(text)] if "`" in text or "~~~" in text else []
    for mark in _MARK.finditer(text):
        before, after = text[: mark.start()][-1:], text[mark.end() :][:1]
        quoted = bool(before and after) and before in _QUOTES and after in _QUOTES
        struck = mark[0] == "</s>" and "<s>" in text[max(0, mark.start() - 200) : mark.start()]
        inside = any(start <= mark.start() < end for start, end in code)
        if not (quoted or struck or inside or mark[0] in prompt):
            yield mark


def broken(text: str, reply: Reply, where: Where) -> tuple[Damage, ...]:
    """Return characters that lost their bytes (U+FFFD) and text that was decoded wrongly."""
    found = []
    # A reply cut at its limit may end within a character: that half is no damage.
    whole = text.rstrip("\ufffd") if reply.finish_reason == "length" else text
    if "\ufffd" in whole and "\ufffd" not in reply.prompt:
        at, times = whole.index("\ufffd"), whole.count("\ufffd")
        found.append(
            Damage(
                kind="broken_characters",
                measured=f"{times} broken characters (U+FFFD)",
                wanted="none",
                at=at,
                excerpt=excerpt(text, at),
                where=where,
            )
        )
    wrong = list(_MOJIBAKE.finditer(text.translate(_CP1252)))
    if len(wrong) >= LEAST_MOJIBAKE and text[wrong[0].start() : wrong[0].end()] not in reply.prompt:
        at = wrong[0].start()
        measured = f"{len(wrong)} places where UTF-8 was read as Latin-1"
        found.append(
            Damage(
                kind="mojibake",
                measured=measured,
                wanted="none",
                at=at,
                excerpt=excerpt(text, at),
                where=where,
            )
        )
    return tuple(found)
