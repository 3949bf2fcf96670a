"""What the truth server says: plain prose without end, a token a word, that nobody could take for a loop."""

import random
from collections.abc import Iterator

_NOUNS = (
    "harbour lantern café orchard façade ferry miller bridge letter garden clock señor kettle meadow rooftop sailor"
    " library winter naïveté station baker morning village gardener engine window valley teacher stranger road map"
)
_VERBS = "finds keeps paints crosses remembers watches follows mends carries measures leaves describes"
_PLACES = "near behind above beside beyond under before around"
_QUALITIES = (
    "old quiet narrow bright distant wooden blasé patient empty golden heavy early gentle small broken tall"
)


def words(seed: object) -> Iterator[str]:
    """Yield the tokens of an answer, the same for the same seed; joined they are its text."""
    draw = random.Random(f"{seed}")
    nouns, verbs, places, qualities = (text.split() for text in (_NOUNS, _VERBS, _PLACES, _QUALITIES))
    while True:
        yield from ("The", f" {draw.choice(qualities)}", f" {draw.choice(nouns)}", f" {draw.choice(verbs)}")
        yield from (" the", f" {draw.choice(nouns)}", f" {draw.choice(places)}", " the")
        yield from (f" {draw.choice(qualities)}", f" {draw.choice(nouns)}")
        yield draw.choice((". ", ". So it is said. ", " for the first time. ", ". Nobody knows why. "))
