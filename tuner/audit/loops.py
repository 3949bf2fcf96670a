"""Loops of every kind: what a model says over and over, whether word for word, growing, or in changing order.

Four measures, each over the words of a text and each linear in their number: a stretch that repeats itself exactly
(`loop`), a window whose word triples all stood there before (`repetition`: growing cycles, attractors that alternate),
a window with hardly any different words (`narrow`), and the compression ratio. Runs of one character come first, since
they have no words.

Every threshold here is ours, fitted on the fit half of the corpus in tests/tuner/corpus, never on the held-out half.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.audit import words as read
from tuner.audit.reply import Damage, Kind, Where, excerpt

REPEATS = ((1, 12), (2, 9), (11, 6), (39, 4))
"""Longest period in words, and how often a stretch of it may stand in a row. Ours: laughter, refrains and drills."""

REPEATS_LONG = 3
"""The same of a longer period: who says forty words three times running says them for ever."""

LOOP_WORDS = 18
"""Words that a stretch must span where its period is two or more."""

NUMBERS_SPAN = 160
"""Words that a stretch of bare numbers must span: matrices and empty columns hold many zeros in a row."""

WINDOW = 96
"""Words of a window; about 128 tokens of English."""

STALE = 0.80
STALE_ALONE = 0.92
STALE_STRUCTURED = 0.96
"""Share of a window's word triples that stood there at least twice before: in prose, in Chinese or Japanese prose (three
characters are hardly a phrase), and in tables, lists, code or JSON.
"""

NARROW = 0.19
NARROW_STRUCTURED = 0.05
NARROW_AGAIN = 2
"""Different words over words of a window: prose of many languages has above 0.4. And how many of its word triples must come
again: who counts in words has few of them, and never says a triple twice.
"""

STRUCTURE = 0.05
"""Share of brackets, bars, quotes, colons, commas and line ends from which a window counts as table, list, code or data."""

COMPRESSED = 9.0
COMPRESSED_STRUCTURED = 40.0
COMPRESSED_LEAST = 1200
COMPRESSED_TAIL = 8192
"""Characters over the bytes that zlib makes of them, from how many characters on, and of how many at the end; prose is near
2.5, and an array of equal records with nothing new but a number comes to 30.
"""

CHARACTER_RUN = 130
EXCLAIMED = 20
LETTER_RUN = 24
"""One character in a row: of a rule at most, of ! and ?, of a letter. A line of 120 is a usual rule; "!!!!" without end is
token 0, what engines say when logits are not numbers."""

_RUN = re.compile(
    rf"([^\s\w])\1{{{CHARACTER_RUN - 1},}}|([!?])(?:\s?\2){{{EXCLAIMED - 1},}}|([^\W\d_])\3{{{LETTER_RUN - 1},}}"
)
_STRUCTURE = re.compile(r"\.\.\.|[{}\[\]|<>=;\"\n\t:_,\u3001\u2026]")
_ECHO = re.compile(r"([^\W\d_]{2,12}?)(?: ?\1){2,}")
_LONG_WORD = re.compile(r"[^\W_]{80,}")

ECHO = 0.2
ECHO_LEAST = 60
ECHO_TAIL = 900
"""Share and number of letters that are a piece said three times running, in the whole text or in its last part."""

LONG_WORD_RATIO = 3.0
"""Compression ratio of a word of 80 letters and more; keys and hashes stay below 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A text, its words, and the place of each word and of the end."""

    whole: str
    words: Sequence[str]
    places: Sequence[int]


def loops(whole: str, where: Where) -> tuple[Damage, ...]:
    """Return how a text repeats itself, by the first measure that says so; nothing if it does not."""
    words, places = read.found(whole)
    text = _Text(whole=whole, words=words, places=(*places, len(whole)))
    found = _run(whole) or _stretch(text) or _echo(whole) or _stale(text) or _narrow(text) or _pressed(whole)
    if not found:
        return ()
    kind, measured, wanted, at = found
    return (
        Damage(kind=kind, measured=measured, wanted=wanted, at=at, excerpt=excerpt(whole, at), where=where),
    )


_Found = tuple[Kind, str, str, int]


def _run(text: str) -> _Found | None:
    if run := _RUN.search(text):
        length = run.end() - run.start()
        return "characters", f"{run[0][0]!r} {length} times in a row", "words", run.start()
    for long in _LONG_WORD.finditer(text):
        ratio = _ratio(long[0])
        if ratio >= LONG_WORD_RATIO:
            return (
                "characters",
                f"a word of {len(long[0])} letters that repeats itself",
                "words",
                long.start(),
            )
    return None


def _echo(text: str) -> _Found | None:
    for start in (0, max(0, len(text) - ECHO_TAIL)):
        echoes = list(_ECHO.finditer(text, start))
        echoed = sum(one.end() - one.start() for one in echoes)
        if echoed >= max(ECHO_LEAST, ECHO * (len(text) - start)):
            measured = f"{echoed} of {len(text) - start} characters are pieces said three times running"
            return "characters", measured, f"under {ECHO:.0%}", echoes[0].start()
    return None


def _stretch(text: _Text) -> _Found | None:
    for start, end, period in _stretches(text.words):
        span = end - start
        repeats = span / period
        allowed = next((times for longest, times in REPEATS if period <= longest), REPEATS_LONG)
        if repeats < allowed or (period > 1 and span < LOOP_WORDS):
            continue
        phrase = text.words[start : start + period]
        if span < NUMBERS_SPAN and all(word.isdigit() for word in phrase):
            continue
        what = "a word" if period == 1 else f"{period} words"
        return (
            "loop",
            f"{what} {repeats:.0f} times in a row",
            f"fewer than {allowed} times",
            text.places[start],
        )
    return None


def _stretches(words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and period of each stretch in which every word is the one a period before.

    A stretch goes on as long as its period holds, and else is looked for anew at the last place of the three words that
    end here: so a word is looked at once, whatever the period.
    """
    last: dict[tuple[str, str, str], int] = {}
    period = start = 0
    for end, gram in enumerate(zip(words, words[1:], words[2:], strict=False), 2):
        if not (period and words[end] == words[end - period]):
            if period:
                yield start, end, period
            period = end - last.get(gram, end)
            start = end - 2 - period
        last[gram] = end
    if period:
        yield start, len(words), period


@dataclass(frozen=True, slots=True)
class _Bound:
    """One threshold for prose, for prose without spaces, and for tables, lists, code and data."""

    prose: float
    alone: float
    structured: float

    def of(self, text: _Text, at: int) -> float | None:
        """Return the threshold of the window at a word; None where it is mostly numbers."""
        window = text.words[at : at + WINDOW]
        if sum(word.isdigit() for word in window) > 0.6 * WINDOW:
            return None
        if (
            _structure(text.whole[text.places[at] : text.places[min(at + WINDOW, len(text.words))]])
            >= STRUCTURE
        ):
            return self.structured
        return (
            self.alone
            if sum(len(word) == 1 and word > "\u3000" for word in window) > WINDOW / 2
            else self.prose
        )


_STALE = _Bound(STALE, STALE_ALONE, STALE_STRUCTURED)
_NARROW = _Bound(NARROW, NARROW, NARROW_STRUCTURED)


def _stale(text: _Text) -> _Found | None:
    words = text.words
    seen: Counter[tuple[str, str, str]] = Counter()
    stale = []
    for gram in zip(words, words[1:], words[2:], strict=False):
        stale.append(seen[gram] >= 2)
        seen[gram] += 1
    number = sum(stale[:WINDOW])
    for at in range(len(stale) - WINDOW + 1):
        share = number / WINDOW
        if share >= STALE and (bound := _STALE.of(text, at)) and share >= bound:
            measured = f"{share:.0%} of {WINDOW} words were said at least twice before"
            return "repetition", measured, f"under {bound:.0%}", text.places[at]
        if at + WINDOW < len(stale):
            number += stale[at + WINDOW] - stale[at]
    return None


def _narrow(text: _Text) -> _Found | None:
    words = text.words
    inside = Counter(words[:WINDOW])
    for at in range(len(words) - WINDOW + 1):
        share = len(inside) / WINDOW
        if (
            share < NARROW
            and (bound := _NARROW.of(text, at))
            and share < bound
            and _again(words, at) >= NARROW_AGAIN
        ):
            return (
                "narrow",
                f"{len(inside)} different words among {WINDOW}",
                f"at least {bound:.0%}",
                text.places[at],
            )
        if at + WINDOW < len(words):
            inside[words[at + WINDOW]] += 1
            inside[words[at]] -= 1
            if not inside[words[at]]:
                del inside[words[at]]
    return None


def _again(words: Sequence[str], at: int) -> int:
    window = words[at : at + WINDOW]
    grams = list(zip(window, window[1:], window[2:], strict=False))
    return len(grams) - len(set(grams))


def _structure(text: str) -> float:
    return len(_STRUCTURE.findall(text)) / max(1, len(text))


def _pressed(text: str) -> _Found | None:
    if len(text) < COMPRESSED_LEAST:
        return None
    text = text[-COMPRESSED_TAIL:]
    ratio = _ratio(text)
    bound = COMPRESSED_STRUCTURED if _structure(text) >= STRUCTURE else COMPRESSED
    if ratio < bound or sum(map(str.isdigit, text)) > 0.3 * len(text):
        return None
    return "compression", f"a compression ratio of {ratio:.1f}", f"under {bound:g}", 0


def _ratio(text: str) -> float:
    raw = text.encode("utf-8", "replace")
    return len(raw) / len(zlib.compress(raw, 6))
