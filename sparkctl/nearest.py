"""Nearest: what somebody may have meant by a word that is not known, as the end of a message."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean <word>?`, or nothing where no known word is near; case is no difference."""
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), folded, n=1)
    return f"; did you mean {folded[close[0]]}?" if close else ""
