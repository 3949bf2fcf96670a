"""What a practice line answers, and its tokens."""

import itertools
import json
from collections import Counter

import pytest

from rehearsal.engine import language, tokens


def answer(prompt: str, most: int = 400) -> str:
    """Return the first tokens of an answer."""
    return "".join(itertools.islice(language.pieces(prompt, ends=True), most))


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Count from 1 to 20, separated by commas.", ", ".join(map(str, range(1, 21)))),
        ("[tag 7-3] Please count to 5.", "1, 2, 3, 4, 5"),
        ("Write the numbers 3 to 6.", "3, 4, 5, 6"),
        ("What is the capital of France?", "The capital of France is Paris."),
        ("What is 17*23?", "The answer is 391."),
    ],
)
def test_smoke_questions_are_answered_right(prompt: str, said: str) -> None:
    """Counting, facts and sums come out as asked."""
    assert answer(prompt) == said


def test_json_is_json() -> None:
    """An object has the keys that the prompt quotes; a list is one."""
    assert set(json.loads(answer('Return a JSON object with the keys "name" and "age".'))) == {"name", "age"}
    assert len(json.loads(answer("Return only a JSON array of weather stations.", 10_000))) == 40


def test_prose_reads_as_language() -> None:
    """Words in sentences; no phrase comes back again and again; the same prompt gets the same text."""
    text = answer("Tell a story about a lighthouse.", 600)
    words = text.lower().split()
    phrases = Counter(zip(words, words[1:], words[2:], strict=False))
    assert phrases.most_common(1)[0][1] <= 4
    assert len(set(words)) > 80
    assert text.count(".") > 20
    assert text == answer("Tell a story about a lighthouse.", 600)
    assert text != answer("Tell a story about a harbour.", 600)


def test_a_garbled_answer_does_not() -> None:
    """A broken kernel's text is one fragment over and over among others."""
    pieces = list(itertools.islice(language.garbled("Tell a story."), 200))
    assert Counter(pieces).most_common(1)[0][1] > 80


def test_tokens_are_the_text_and_about_four_characters_long() -> None:
    """Split and joined is the same text; running text has about four characters a token."""
    text = answer("Tell a story about a lighthouse.", 600)
    pieces = tokens.split(text)
    assert "".join(pieces) == text
    assert 3.5 < len(text) / len(pieces) < 4.5


def test_blocks_are_equal_only_where_all_before_is() -> None:
    """A change in the first block changes every later hash."""
    one = tokens.blocks(["a"] * 400)
    other = tokens.blocks(["b"] + ["a"] * 399)
    assert len(one) == 3
    assert not set(one) & set(other)
    assert one[:2] == tokens.blocks(["a"] * 256 + ["c"] * 128)[:2]
