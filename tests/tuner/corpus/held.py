"""The held-out half of the corpus: other languages, formats and damage than those the thresholds were chosen on.

It was written after the thresholds stood. Its first readings found two faults of the audit: enumerations by spaces and
dashes taken for salad, numbers in Spanish words for a stuck chain. The three generators that showed them went to the
fitting half, and others took their place. Every reply is generated; none is copied.
"""

import json
from collections.abc import Callable
from random import Random

from tuner.audit import Reply

from .grammar import HELD

Maker = Callable[[Random], Reply]
Writer = Callable[[Random], str]

_EN = HELD["English"]


def _text(make: Writer) -> Maker:
    return lambda chance: Reply(text=make(chance), completion_tokens=180, finish_reason="length")


def _prose(language: str) -> Maker:
    return _text(lambda chance: HELD[language].text(chance, chance.randint(1, 28)))


def _word(chance: Random) -> str:
    return "".join(
        chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(chance.randint(2, 4))
    )


def _rows(least: int, most: int, row: Callable[[Random, int], str], joint: str = "\n") -> Writer:
    return lambda chance: joint.join(row(chance, at) for at in range(1, chance.randint(least, most) + 1))


def _fenced(language: str, write: Writer) -> Writer:
    return lambda chance: (
        f"{_EN.sentence(chance)}\n\n```{language}\n{write(chance)}\n```\n{_EN.sentence(chance)}"
    )


def _french_numbers(chance: Random) -> str:
    ones = ["deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
    teens = [
        "dix",
        "onze",
        "douze",
        "treize",
        "quatorze",
        "quinze",
        "seize",
        "dix sept",
        "dix huit",
        "dix neuf",
    ]
    tens = ["vingt", "trente", "quarante", "cinquante", "soixante"]
    words = [
        "un",
        *ones,
        *teens,
        *(word for ten in tens for word in (ten, f"{ten} et un", *(f"{ten} {one}" for one in ones))),
    ]
    words += [*(f"soixante {one}" for one in teens), "quatre vingts"]
    return chance.choice((", ", " ", "\n", " ; ")).join(words)


def _columns(chance: Random) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = [*letters, *(f"A{letter}" for letter in letters), *(f"B{letter}" for letter in letters)]
    return chance.choice((", ", " ", "\n", " - ")).join(names[: chance.randint(26, 78)])


def _binary(chance: Random) -> str:
    return chance.choice((", ", " ", "\n")).join(f"{number:b}" for number in range(1, chance.randint(16, 81)))


def _fizz(chance: Random) -> str:
    said = [
        "Fizz" * (at % 3 == 0) + "Buzz" * (at % 5 == 0) or str(at) for at in range(1, chance.randint(20, 100))
    ]
    return chance.choice((", ", "\n", " ")).join(said)


def _truth(_: Random) -> str:
    rows = [f"| {a} | {b} | {c} | {a & b | c} |" for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    return "| A | B | C | A and B or C |\n|---|---|---|---|\n" + "\n".join(rows)


def _multiplication(chance: Random) -> str:
    size = chance.randint(5, 12)
    head = "| x | " + " | ".join(str(at) for at in range(1, size)) + " |\n" + "|---" * size + "|\n"
    return head + "\n".join(
        "| **" + str(a) + "** | " + " | ".join(str(a * b) for b in range(1, size)) + " |"
        for a in range(1, size)
    )


def _vectors(chance: Random) -> str:
    return json.dumps(
        [[round(chance.gauss(0, 1), 3) for _ in range(8)] for _ in range(chance.randint(2, 12))]
    )


def _rondel(chance: Random) -> str:
    first, second = _EN.sentence(chance), _EN.sentence(chance)
    return "\n".join(
        (
            first,
            second,
            *(_EN.sentence(chance) for _ in range(4)),
            first,
            second,
            *(_EN.sentence(chance) for _ in range(4)),
            first,
        )
    )


def _letter(chance: Random) -> str:
    return f"Subject: {_word(chance)}\n\nDear {_word(chance).title()},\n\n{_EN.text(chance, chance.randint(2, 9))}\n\nKind regards,\n{_word(chance).title()}"


def _interview(chance: Random) -> str:
    return "\n\n".join(
        f"Q: {_EN.sentence(chance)}\nA: {_EN.text(chance, 2)}" for _ in range(chance.randint(2, 9))
    )


def _polyglot(chance: Random) -> str:
    parts = [_EN.text(chance, 2)]
    parts += [
        f'In {language} they put it thus: "{HELD[language].sentence(chance)}" {_EN.sentence(chance)}'
        for language in chance.sample([name for name in HELD if name != "English"], 3)
    ]
    return "\n\n".join(parts)


def _marks_in_code(chance: Random) -> str:
    mark = chance.choice(("<|fim_prefix|>", "<|channel|>", "</s>", "[INST]", "<pad>"))
    return f"{_EN.text(chance, 2)}\n\n```python\nSTOP = [{mark!r}]\nprint(STOP)\n```\n\nSet `{mark}` as stop."


def _brief(chance: Random) -> str:
    return chance.choice(
        (
            "Ok.",
            "Sí, claro.",
            "1984",
            "네, 맞습니다.",
            "B",
            "no no no",
            "{}",
            "e = 2.71828",
            "Nie wiem.",
            "हाँ।",
            "Go, go, go!",
            "-1",
            "false",
            "🎉",
            "The answer is (c).",
        )
    )


_CODE: dict[str, Writer] = {
    "xml feed": _rows(
        3,
        40,
        lambda c, at: (
            f'  <item id="{at}"><title>{_word(c)}</title><price currency="EUR">{c.randint(1, 900)}</price></item>'
        ),
    ),
    "toml tables": _rows(
        3, 16, lambda c, at: f'[[server]]\nname = "{_word(c)}-{at}"\nport = {9000 + at}\ntls = true\n'
    ),
    "shell echoes": _rows(
        3, 40, lambda c, at: f'echo "step {at}: {_word(c)}" && make {_word(c)} || exit {at}'
    ),
    "css rules": _rows(
        3,
        25,
        lambda c, _: (
            f".{_word(c)} {{\n  color: #{c.randint(0, 0xFFFFFF):06x};\n  margin: 0 auto;\n  padding: {c.randint(0, 40)}px;\n}}"
        ),
    ),
    "go struct": _rows(3, 30, lambda c, _: f'\t{(w := _word(c)).title()} string `json:"{w},omitempty"`'),
    "java setters": _rows(
        2, 14, lambda c, _: f"public void set{(w := _word(c)).title()}(int {w}) {{\n    this.{w} = {w};\n}}\n"
    ),
    "assembly": _rows(
        8,
        60,
        lambda c, at: (
            f"{4096 + 4 * at:08x}:  {c.choice(('mov', 'add', 'cmp', 'ldr', 'str'))} x{c.randint(0, 30)}, x{c.randint(0, 30)}, #{c.randint(0, 255)}"
        ),
    ),
    "git log": _rows(4, 40, lambda c, _: f"{c.getrandbits(28):07x} {_EN.sentence(c)}"),
    "makefile": _rows(
        3, 20, lambda c, _: f"{(w := _word(c))}.o: {w}.c {w}.h\n\t$(CC) $(CFLAGS) -c {w}.c -o {w}.o\n"
    ),
}

HEALTHY: dict[str, Maker] = {
    **{f"prose {language}": _prose(language) for language in HELD},
    **{f"code {name}": _text(_fenced(name.split()[0], write)) for name, write in _CODE.items()},
    **{f"bare {name}": _text(write) for name, write in _CODE.items()},
    "french to 80": _text(_french_numbers),
    "columns of a sheet": _text(_columns),
    "binary": _text(_binary),
    "fizz buzz": _text(_fizz),
    "truth table": _text(_truth),
    "multiplication table": _text(_multiplication),
    "vectors": _text(_vectors),
    "rondel": _text(_rondel),
    "letter": _text(_letter),
    "interview": _text(_interview),
    "quotes in three languages": _text(_polyglot),
    "marks in code": _text(_marks_in_code),
    "brief answer": _text(_brief),
    "checklist": _text(_rows(3, 30, lambda c, _: f"- [{c.choice(' x')}] {_EN.sentence(c)}")),
    "timetable": _text(
        _rows(
            5,
            40,
            lambda c, at: (
                f"{6 + at // 4:02}:{at % 4 * 15:02}  platform {c.randint(1, 9)}  {_word(c).title()}  on time"
            ),
        )
    ),
    "semicolon csv": _text(
        _rows(10, 90, lambda c, at: f"{at};{_word(c)};{c.random():.3f};{c.choice(('A', 'B'))};true")
    ),
    "moves": _text(
        _rows(
            10,
            50,
            lambda c, at: (
                f"{at}. {c.choice('NBRQK')}{c.choice('abcdefgh')}{c.randint(1, 8)} {c.choice('abcdefgh')}{c.randint(3, 6)}"
            ),
            " ",
        )
    ),
    "glossary": _text(_rows(3, 25, lambda c, _: f"**{_word(c).title()}**: {_EN.sentence(c)}")),
}


def _start(chance: Random, language: str = "") -> str:
    return HELD[language or chance.choice(tuple(HELD))].text(chance, chance.randint(1, 9)) + " "


def _flat(chance: Random, language: str, sentences: int) -> str:
    return HELD[language].text(chance, sentences).replace("\n\n", " ")


def _widening_token(chance: Random) -> str:
    """One word without end, in changing case."""
    word = _word(chance)
    return _start(chance) + " ".join(
        chance.choice((word, word.title(), word.upper())) for _ in range(chance.randint(30, 300))
    )


def _synonyms(chance: Random) -> str:
    """A phrase without end in which one word changes among three."""
    left, right = (
        [_word(chance) for _ in range(chance.randint(2, 7))],
        [_word(chance) for _ in range(chance.randint(1, 4))],
    )
    third = [_word(chance) for _ in range(3)]
    return _start(chance) + " ".join(
        " ".join((*left, chance.choice(third), *right)) for _ in range(chance.randint(30, 70))
    )


def _worn(chance: Random) -> str:
    """A paragraph without end, one word in a hundred miswritten."""
    words = _flat(
        chance, chance.choice(("English", "Dutch", "Turkish", "Ukrainian")), chance.randint(3, 6)
    ).split()
    said = [
        word if chance.random() > 0.01 else _word(chance)
        for _ in range(chance.randint(9, 20))
        for word in words
    ]
    return _start(chance) + " ".join(said)


def _growing_sentences(chance: Random) -> str:
    """Each cycle says everything before, and one sentence more."""
    language = chance.choice(("English", "Italian", "Polish", "Korean"))
    said: list[str] = []
    cycles = []
    for _ in range(chance.randint(9, 14)):
        said.append(HELD[language].sentence(chance))
        cycles.append(" ".join(said))
    return "\n".join(cycles)


def _four_attractors(chance: Random) -> str:
    """Four clauses, each with two that may follow it."""
    clauses = [" ".join(_word(chance) for _ in range(chance.randint(3, 9))) for _ in range(4)]
    at, said = 0, []
    for _ in range(chance.randint(40, 90)):
        said.append(clauses[at])
        at = (at + chance.choice((1, 2))) % 4
    return _start(chance) + ", ".join(said)


def _first_order(chance: Random) -> str:
    """A chain over the words of one sentence, in any of the languages with spaces."""
    language = chance.choice(("Korean", "Ukrainian", "Portuguese", "Turkish", "English"))
    words = list(dict.fromkeys(HELD[language].sentence(chance).split()))[:10]
    return _start(chance, language) + " ".join(chance.choice(words) for _ in range(chance.randint(160, 400)))


def _misread(chance: Random) -> str:
    language = chance.choice(("Polish", "Turkish", "Korean", "Hindi", "Portuguese", "Ukrainian"))
    text = HELD[language].text(chance, chance.randint(6, 12))
    return "".join(
        bytes([byte]).decode("cp1252" if byte not in b"\x81\x8d\x8f\x90\x9d" else "latin-1")
        for byte in text.encode()
    )


def _inserted(marks: tuple[str, ...]) -> Writer:
    def write(chance: Random) -> str:
        words = _start(chance).split(" ")
        words.insert(chance.randint(1, len(words) - 1), chance.choice(marks))
        return chance.choice((" ", "")).join((" ".join(words), ""))

    return write


def _ended(chance: Random) -> str:
    end = chance.choice(
        ("<|return|>", "</s>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|endoftext|>", "<end_of_turn>")
    )
    return _start(chance).rstrip() + end + chance.choice(("\n\n", " ", "")) + _start(chance)


def _other_script(chance: Random) -> str:
    pairs = (
        ("English", "Korean"),
        ("Korean", "English"),
        ("Ukrainian", "Traditional Chinese"),
        ("Italian", "Hindi"),
        ("Traditional Chinese", "Ukrainian"),
        ("Dutch", "Traditional Chinese"),
        ("Hindi", "Polish"),
    )
    first, second = chance.choice(pairs)
    start = _flat(chance, first, 9).split(" ") if " " in HELD[first].joint else list(_flat(chance, first, 9))
    cut = int(len(start) * chance.uniform(0.5, 0.9))
    return HELD[first].joint.join(start[:cut]) + " " + _flat(chance, second, 9)


def _other_words(chance: Random) -> str:
    first, second = chance.sample(("English", "Italian", "Portuguese", "Dutch"), 2)
    start = _flat(chance, first, 14).split()
    return " ".join(start[: int(len(start) * chance.uniform(0.5, 0.9))]) + " " + _flat(chance, second, 14)


def _vocabulary_salad(chance: Random) -> str:
    """Tokens as a vocabulary of many languages holds them, drawn evenly."""
    tokens = [
        word[: chance.randint(2, 6)]
        for grammar in HELD.values()
        for words in grammar.slots.values()
        for one in words
        for word in one.split()
    ]
    return _start(chance, "English") + " ".join(
        chance.choice(tokens) for _ in range(chance.randint(100, 300))
    )


def _latin_salad(chance: Random) -> str:
    pieces = [
        "gli",
        "ství",
        "ement",
        "kr",
        "ológ",
        "ution",
        "Vert",
        "phas",
        "dım",
        "igst",
        "elen",
        "oux",
        "rypt",
        "Frag",
        "oso",
        "nych",
        "hew",
        "bbed",
        "tanz",
        "icum",
        "lder",
        "ezza",
        "mö",
    ]
    return _start(chance, "Italian") + " ".join(
        "".join(chance.sample(pieces, chance.randint(1, 3))) for _ in range(chance.randint(140, 260))
    )


def _one_character(chance: Random) -> str:
    return _start(chance) + chance.choice(("!", "a", "\u0627", ".", "#", "ㅋ")) * chance.randint(200, 900)


def _zeros(chance: Random) -> str:
    return _start(chance) + chance.choice((", ", " ", "\n")).join(["0"] * chance.randint(220, 600))


def _lost_bytes(chance: Random) -> str:
    raw = bytearray(HELD[chance.choice(("Hindi", "Korean", "Ukrainian", "Turkish"))].text(chance, 6).encode())
    places = [at for at, byte in enumerate(raw) if byte >= 0xC2][:-1]
    for at in sorted(chance.sample(places, min(4, len(places))), reverse=True):
        del raw[at]
    return raw.decode("utf-8", "replace")


def _silence(chance: Random) -> Reply:
    return Reply(
        text=chance.choice(("", "   ", "\n" * 40, "\u200a\t")),
        completion_tokens=chance.randint(2, 900),
        finish_reason=chance.choice(("stop", "length", "")),
    )


def _only_thought(chance: Random) -> Reply:
    language = chance.choice(tuple(HELD))
    return Reply(
        text="", reasoning=HELD[language].text(chance, 5), completion_tokens=300, finish_reason="length"
    )


DAMAGED: dict[str, Maker] = {
    "one word in changing case": _text(_widening_token),
    "phrase with synonyms": _text(_synonyms),
    "worn paragraph": _text(_worn),
    "growing by sentences": _text(_growing_sentences),
    "four attractors": _text(_four_attractors),
    "first order chain": _text(_first_order),
    "utf-8 misread": _text(_misread),
    "special token": _text(
        _inserted(
            (
                "<|python_tag|>",
                "<|channel|>",
                "<|vision_start|>",
                "<\uff5ctool\u2581calls\u2581begin\uff5c>",
                "<start_of_turn>",
                "<bos>",
            )
        )
    ),
    "thought in the text": _text(_inserted(("<think>", "</think>", "<thinking>"))),
    "text after the end": _text(_ended),
    "drift of script": _text(_other_script),
    "drift of words": _text(_other_words),
    "salad of a vocabulary": _text(_vocabulary_salad),
    "salad of pieces": _text(_latin_salad),
    "one character": _text(_one_character),
    "zeros": _text(_zeros),
    "lost bytes": _text(_lost_bytes),
    "silence": _silence,
    "thought only": _only_thought,
}
