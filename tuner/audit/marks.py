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

_CLOSING = frozenset("\u201d\u2019\u201c\u2018\u2026\u2013\u2014\u00bb\u00ab\u203a\u2039")
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
    code = _code(text)
    for mark in _MARK.finditer(text):
        start, end = mark.span()
        struck = mark[0] == "</s>" and "<s>" in text[max(0, start - 200) : start]
        if not (
            struck or _is_thought(text, start) or mark[0] in prompt or _is_quoted(text, start, end, code)
        ):
            yield mark


def _is_thought(text: str, start: int) -> bool:
    """Whether a mark opens or closes the thoughts at a reply's front: an engine without a reasoning parser leaves them in."""
    opened = text.lstrip()
    for name in ("think", "thinking"):
        if opened.startswith(f"<{name}>"):
            first, last = text.index(f"<{name}>"), text.find(f"</{name}>")
            return start in {first, last}
    return False


def _code(text: str) -> list[tuple[int, int]]:
    return [one.span() for one in _CODE.finditer(text)] if "`" in text or "~~~" in text else []


def _is_quoted(text: str, start: int, end: int, code: list[tuple[int, int]]) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    quoted = bool(before and after) and before in _QUOTES and after in _QUOTES
    return quoted or any(first <= start < last for first, last in code)


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
    if wrong := list(_misread(text, reply.prompt)):
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


def _misread(text: str, prompt: str) -> Iterator[re.Match[str]]:
    """Yield what reads as one character of UTF-8 outside code and quotes, unless the prompt has it."""
    if text.isascii():
        return
    code = _code(text)
    for one in _MOJIBAKE.finditer(text.translate(_CP1252)):
        start, end = one.span()
        # A capital before a closing quote, and a letter before a quote and an ellipsis, are bytes of UTF-8 by chance.
        chance = set(text[start + 1 : end]) <= _CLOSING and text[start] not in "\xc2\xc3"
        if not (chance or text[start:end] in prompt or _is_quoted(text, start, end, code)):
            yield one
