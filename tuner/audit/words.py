"""The words of a text with their places: what loops and languages are judged on.

A word is a run of letters and digits, hyphens and apostrophes within it included; a Chinese or Japanese character is a word of its own, since these languages set no
spaces. Punctuation is none: rules, table borders and brackets repeat for a reason.
"""

import re
from functools import lru_cache

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff\u0e00-\u0eff"
"""Vowels and accents that are written above and below letters: Python does not count them as letters."""

_JOINED = rf"(?:[^\W{_ALONE}]|[{_MARKS}])+"
_WORD = re.compile(rf"[{_ALONE}]|{_JOINED}(?:[-'\u2019]{_JOINED})*")


@lru_cache(maxsize=4)
def found(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the words in lower case and the place of each; kept for the few that ask about the same text in turn."""
    matches = tuple(_WORD.finditer(text))
    return tuple(one[0].lower() for one in matches), tuple(one.start() for one in matches)
