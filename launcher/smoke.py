"""Smoke: is what the line answers still language, and is it right? Pure judge of replies.

/health stays 200 while every request fails (local-inference-lab/b12x#313) or every reply is garbled
(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#2),
so a line is ready only when these questions were answered sensibly.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """One question with a known kind of answer; `fault` returns what is wrong with a reply, or an empty text.

    With `tools` the reply that is judged is the first tool call as JSON: `{"name": ..., "arguments": {...}}`; empty where none was made.
    """

    name: str
    prompt: str
    max_tokens: int
    fault: Callable[[str], str]
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoked:
    """How one smoke ended; `fault` is empty when it passed, `reply` is what was said."""

    name: str
    fault: str
    reply: str


def garble(text: str) -> str:
    """Return why `text` does not read as language, or an empty text.

    Deliberately coarse, so that legitimate lists and code pass: looks for replacement characters, text that is not
    words, one word or phrase over and over. The graded audit belongs to the bench.
    """
    if not text.strip():
        return "the reply is empty"
    if "\ufffd" in text:
        return "the reply has broken characters (U+FFFD)"
    words = [word.lower() for word in _WORD.findall(text)]
    letters = sum(len(word) for word in words)
    solid = sum(not character.isspace() for character in text)
    if letters < 0.6 * solid:
        return f"only {100 * letters // solid} % of the reply is words"
    longest = max(map(len, words))
    if longest > 40:
        return f"a word of {longest} letters"
    return _repetition(words)


def _repetition(words: list[str]) -> str:
    phrases = Counter(zip(words, words[1:], words[2:], strict=False))
    if phrases:
        phrase, times = phrases.most_common(1)[0]
        if times > 4 and 3 * times > len(words) / 2:
            return f"the phrase {' '.join(phrase)!r} comes {times} times in {len(words)} words"
    word, times = Counter(words).most_common(1)[0]
    if len(words) >= 8 and times > len(words) / 2:
        return f"the word {word!r} is {times} of {len(words)} words"
    return ""


def _count_fault(reply: str) -> str:
    numbers = [int(number) for number in re.findall(r"\d+", reply)]
    wanted = list(range(1, 21))
    return "" if numbers == wanted else f"wanted 1 to 20 in order, found {numbers[:25]}"


def _fact_fault(reply: str) -> str:
    return "" if re.search(r"\bParis\b", reply) else "wanted Paris in the reply"


_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)


def _json_fault(reply: str) -> str:
    text = reply.strip()
    fenced = _FENCE.match(text)
    wanted = {"name": "Ada", "age": 36}
    try:
        found = json.loads(fenced[1] if fenced else text)
    except ValueError:
        return "wanted a JSON object and nothing else"
    return "" if found == wanted else f"wanted {json.dumps(wanted)}"


def _tool_fault(reply: str) -> str:
    if not reply:
        return "wanted a call of the tool get_weather, found none"
    called = json.loads(reply)
    if called["name"] != "get_weather":
        return f"wanted a call of the tool get_weather, found one of {called['name']!r}"
    city = called["arguments"].get("city")
    return (
        "" if isinstance(city, str) and "paris" in city.lower() else f"wanted the city Paris, found {city!r}"
    )


def _prose_fault(reply: str) -> str:
    fault = garble(reply)
    if fault:
        return fault
    words = _WORD.findall(reply)
    return "" if len(words) >= 12 else f"wanted a few sentences, found {len(words)} words"


SMOKES: tuple[Smoke, ...] = (
    Smoke(
        name="count",
        prompt="Count from 1 to 20. Write only the numbers, separated by spaces.",
        max_tokens=96,
        fault=_count_fault,
    ),
    Smoke(
        name="fact",
        prompt="What is the capital of France? Answer in one short sentence.",
        max_tokens=32,
        fault=_fact_fault,
    ),
    Smoke(
        name="json",
        prompt='Write a JSON object with the keys "name" and "age" for a person called Ada who is 36. Write nothing else.',
        max_tokens=64,
        fault=_json_fault,
    ),
    Smoke(
        name="prose",
        prompt="Describe in three sentences how bread is baked.",
        max_tokens=160,
        fault=_prose_fault,
    ),
)


_WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city."}},
            "required": ["city"],
        },
    },
}

TOOL = Smoke(
    name="tool",
    prompt="What is the weather in Paris? Call the tool get_weather.",
    max_tokens=160,
    fault=_tool_fault,
    tools=(_WEATHER,),
)
"""Asked only where the engine was told how to read tool calls."""

BURST = SMOKES[0]
"""What is asked many times at once: its answer has one right form, and is long enough for the requests to meet in one batch."""

MOST_AT_ONCE = 64
"""Requests of a burst at most, and where a recipe does not say how many it takes. Ours: it proves batches, load is the bench's business."""


def burst(smoke: Smoke, count: int) -> tuple[Smoke, ...]:
    """Return a question `count` times; each begins differently, so that none is answered from another's cache."""
    return tuple(
        replace(smoke, name="burst", prompt=f"[{number} of {count}] {smoke.prompt}")
        for number in range(1, count + 1)
    )


def judge(smoke: Smoke, reply: str) -> Smoked:
    """Judge one reply."""
    return Smoked(name=smoke.name, fault=smoke.fault(reply), reply=reply)
