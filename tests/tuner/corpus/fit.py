"""The fit half of the corpus: what the audit's thresholds were chosen on. Every reply is generated; none is copied."""

import json
from collections.abc import Callable
from random import Random

from tuner.audit import Reply

from .grammar import FIT

Maker = Callable[[Random], Reply]


def _prose(language: str) -> Maker:
    def make(chance: Random) -> Reply:
        return Reply(text=FIT[language].text(chance, chance.randint(3, 24)))

    return make


def _text(make: Callable[[Random], str]) -> Maker:
    return lambda chance: Reply(text=make(chance), completion_tokens=200, finish_reason="stop")


def _counting(chance: Random) -> str:
    joint = chance.choice((", ", " ", "\n"))
    return joint.join(str(number) for number in range(1, chance.choice((20, 50, 80, 200)) + 1))


def _words(chance: Random) -> list[str]:
    slots = FIT["English"].slots
    return [chance.choice(slots["adj"]) + "_" + chance.choice(slots["noun"]) for _ in range(60)]


def _users(chance: Random) -> str:
    rows = [
        {"id": at, "name": name, "active": chance.random() < 0.6, "role": chance.choice(("admin", "user"))}
        for at, name in enumerate(_words(chance)[: chance.randint(5, 50)], 1)
    ]
    return "```json\n" + json.dumps(rows, indent=chance.choice((None, 2))) + "\n```"


def _table(chance: Random) -> str:
    rows = [
        f"| {name} | {chance.choice(('yes', 'no'))} | {chance.choice(('yes', 'no'))} | {chance.randint(1, 99)} |"
        for name in _words(chance)[: chance.randint(4, 40)]
    ]
    return "Here is the overview:\n\n| name | stable | tested | score |\n|---|---|---|---|\n" + "\n".join(
        rows
    )


def _numbered(chance: Random) -> str:
    return "\n".join(f"{at}. **{FIT['English'].sentence(chance)}**" for at in range(1, chance.randint(5, 30)))


def _getters(chance: Random) -> str:
    lines = []
    for name in dict.fromkeys(_words(chance)[: chance.randint(3, 20)]):
        lines += ["    @property", f"    def {name}(self) -> int:", f"        return self._{name}", ""]
    return "```python\nclass Record:\n" + "\n".join(lines) + "```"


def _refrain(chance: Random) -> str:
    refrain = "\n".join(FIT["English"].sentence(chance) for _ in range(2))
    verses = [
        "\n".join(FIT["English"].sentence(chance) for _ in range(4)) for _ in range(chance.randint(2, 5))
    ]
    return "\n\n".join(f"{verse}\n\n{refrain}" for verse in verses)


def _logs(chance: Random) -> str:
    return "\n".join(
        f"2026-03-{chance.randint(1, 28):02} 10:{at % 60:02}:07 INFO worker {chance.randint(1, 8)} finished job {4000 + at} in {chance.randint(2, 900)} ms"
        for at in range(chance.randint(10, 80))
    )


def _csv(chance: Random) -> str:
    rows = [f"{name},{chance.randint(1, 9)},{chance.random():.2f}" for name in _words(chance)]
    return "name,count,share\n" + "\n".join(rows)


def _times(chance: Random) -> str:
    by = chance.randint(3, 19)
    return "\n".join(f"{by} x {at} = {by * at}" for at in range(1, 31))


def _dialogue(chance: Random) -> str:
    return "\n".join(f"{chance.choice(('Ada', 'Ben'))}: {FIT['English'].sentence(chance)}" for _ in range(20))


def _short(chance: Random) -> str:
    return chance.choice(
        ("Yes.", "42", "Paris", "No, no, no!", "Ha ha ha ha!", "**True**", "好的。", "3.14", "x = 7")
    )


def _quotes(chance: Random) -> str:
    foreign = chance.choice(("German", "Chinese", "Russian", "Spanish"))
    english = FIT["English"].text(chance, 3)
    return f"{english} The old note said: \u201c{FIT[foreign].sentence(chance)}\u201d {FIT['English'].text(chance, 3)}"


HEALTHY: dict[str, Maker] = {
    **{f"prose {language}": _prose(language) for language in FIT},
    "counting": _text(_counting),
    "json array": _text(_users),
    "markdown table": _text(_table),
    "numbered list": _text(_numbered),
    "python getters": _text(_getters),
    "poem with refrain": _text(_refrain),
    "log lines": _text(_logs),
    "csv": _text(_csv),
    "times table": _text(_times),
    "dialogue": _text(_dialogue),
    "short answer": _text(_short),
    "foreign quote": _text(_quotes),
}


def _start(chance: Random, language: str = "English") -> str:
    return FIT[language].text(chance, chance.randint(1, 8)) + " "


def _token_loop(chance: Random) -> str:
    return _start(chance) + (chance.choice(FIT["English"].slots["noun"]) + " ") * chance.randint(20, 200)


def _phrase_loop(chance: Random) -> str:
    words = FIT["English"].sentence(chance).split()
    phrase = " ".join(words[: chance.randint(2, 9)])
    return _start(chance) + (phrase + " ") * chance.randint(12, 60)


def _growing(chance: Random) -> str:
    words = [chance.choice(FIT["English"].slots["noun"]) for _ in range(chance.randint(20, 40))]
    return _start(chance) + " ".join(" ".join(words[:length]) for length in range(1, len(words)))


def _attractors(chance: Random) -> str:
    two = [FIT["English"].sentence(chance) for _ in range(2)]
    return _start(chance) + " ".join(chance.choice(two) for _ in range(chance.randint(20, 60)))


def _stuck(chance: Random) -> str:
    state = chance.sample(FIT["English"].slots["noun"], 6)
    after = {word: chance.sample(state, 2) for word in state}
    said = [state[0]]
    while len(said) < 200:
        said.append(chance.choice(after[said[-1]]))
    return _start(chance) + " ".join(said)


def _latin_1(chance: Random) -> str:
    language = chance.choice(("German", "French", "Chinese", "Russian"))
    text = FIT[language].text(chance, 5)
    # A text without a single accent is not changed by it.
    return _latin_1(chance) if text.isascii() else text.encode().decode("latin-1")


def _token(chance: Random) -> str:
    words = _start(chance).split(" ")
    words.insert(
        len(words) // 2, chance.choice(("<|im_start|>", "<think>", "</think>", "<|fim_hole|>", "<unk>"))
    )
    return " ".join(words)


def _after(chance: Random) -> str:
    return _start(chance) + chance.choice(("<|im_end|>", "</s>", "<|endoftext|>")) + _start(chance)


def _drift(chance: Random) -> str:
    other = chance.choice(("Chinese", "Russian", "Japanese"))
    words = FIT["English"].text(chance, 6).replace("\n\n", " ").split()
    text = FIT[other].text(chance, 6).replace("\n\n", "")
    return " ".join(words[: chance.randint(40, 60)]) + " " + text


def _latin_drift(chance: Random) -> str:
    other = chance.choice(("German", "French", "Spanish"))
    words = FIT["English"].text(chance, 9).replace("\n\n", " ").split()
    text = FIT[other].text(chance, 9).replace("\n\n", " ")
    return " ".join(words[: chance.randint(50, 90)]) + " " + text


def _salad(chance: Random) -> str:
    pieces = [
        "的",
        "ing",
        "ключ",
        "__init",
        "Größe",
        "함께",
        "الم",
        "tion",
        "は",
        "->",
        "PLEASE",
        "über",
        "ne",
        "ство",
        "quar",
        "세요",
        "ment",
        "خل",
    ]
    return _start(chance) + " ".join(chance.choice(pieces) for _ in range(chance.randint(80, 200)))


def _lost(chance: Random) -> str:
    words = _start(chance).split(" ")
    words.insert(len(words) // 2, "\ufffd")
    return " ".join(words)


DAMAGED: dict[str, Maker] = {
    "token loop": _text(_token_loop),
    "phrase loop": _text(_phrase_loop),
    "growing cycle": _text(_growing),
    "alternating attractors": _text(_attractors),
    "markov chain stuck": _text(_stuck),
    "utf-8 as latin-1": _text(_latin_1),
    "special token": _text(_token),
    "text after an end mark": _text(_after),
    "drift of script": _text(_drift),
    "drift of words": _text(_latin_drift),
    "salad of scripts": _text(_salad),
    "broken character": _text(_lost),
    "empty": _text(lambda _: ""),
}
