"""The second fitting set: other words, formats and damage. What the first reading of the audit missed on it was mended.

Two sources are not of this folder: the practice cluster's engine, written before the audit, answers in whole English, code
and JSON, and garbles in its own way.
"""

import json
import math
from collections.abc import Callable
from itertools import islice
from random import Random

from rehearsal.engine import language as practice
from tuner.audit import Reply

from .grammar import MORE

Maker = Callable[[Random], Reply]

_EN = MORE["English"]


def _text(make: Callable[[Random], str]) -> Maker:
    return lambda chance: Reply(text=make(chance), completion_tokens=200, finish_reason="length")


def _prose(language: str) -> Maker:
    return _text(lambda chance: MORE[language].text(chance, chance.randint(2, 30)))


def _name(chance: Random) -> str:
    syllables = "ka|lo|mi|ren|tas|vo|du|shi|bel|nor|pe|gra|zu|fen|ol"
    return "".join(chance.choice(syllables.split("|")) for _ in range(chance.randint(2, 4))).capitalize()


def _counted_words(chance: Random) -> str:
    ones = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy"]
    teens = [
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ]
    words = [
        *ones,
        *teens,
        *(f"{ten}-{one}".removesuffix("-") for ten in tens for one in ("", *ones)),
        "eighty",
    ]
    return chance.choice((", ", "\n", " ... ")).join(words)


def _counted_lines(chance: Random) -> str:
    what = chance.choice(("Line", "Step", "Sheep", "Zeile", "第"))
    return "\n".join(f"{what} {at}" for at in range(1, chance.choice((30, 80, 120)) + 1))


def _roman(chance: Random) -> str:
    def of(number: int) -> str:
        said = ""
        for value, letters in ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
            said += letters * (number // value)
            number %= value
        return said

    return chance.choice((", ", " ", "\n")).join(of(number) for number in range(1, 81))


def _german_numbers(chance: Random) -> str:
    ones = ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
    tens = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig"]
    words = [
        *ones,
        "zehn",
        *(word for ten in tens for word in (ten, *(f"{one}und{ten}" for one in ones))),
        "achtzig",
    ]
    return "Gern: " + chance.choice((", ", " – ", "\n")).join(words)


def _spanish_numbers(chance: Random) -> str:
    ones = ["uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"]
    tens = ["treinta", "cuarenta", "cincuenta", "sesenta", "setenta"]
    words = [*ones, *(word for ten in tens for word in (ten, *(f"{ten} y {one}" for one in ones))), "ochenta"]
    return chance.choice((", ", " ", "\n", "... ")).join(words)


def _down(chance: Random) -> str:
    return (
        "Counting down: "
        + ", ".join(str(at) for at in range(chance.randint(40, 100), -1, -1))
        + ". Lift-off!"
    )


def _points(chance: Random) -> str:
    rows = [
        {"x": chance.randint(0, 99), "y": chance.randint(0, 99), "on": True}
        for _ in range(chance.randint(8, 60))
    ]
    return json.dumps({"points": rows}, indent=chance.choice((None, 1, 4)))


def _nested(chance: Random) -> str:
    one = [
        {
            "sku": f"{chance.randint(10**5, 10**6)}",
            "title": _name(chance),
            "stock": {"berlin": chance.randint(0, 9), "lyon": 0},
            "tags": ["new", "sale"],
        }
        for _ in range(chance.randint(4, 25))
    ]
    return json.dumps(one, indent=2)


def _yaml(chance: Random) -> str:
    return "\n".join(
        f"- name: {_name(chance)}\n  image: registry/{_name(chance).lower()}:1.{at}\n  ports:\n    - {8000 + at}\n  restart: always"
        for at in range(chance.randint(3, 20))
    )


def _html(chance: Random) -> str:
    rows = "\n".join(
        f"  <tr>\n    <td>{_name(chance)}</td>\n    <td>{chance.randint(1, 999)}</td>\n    <td>{chance.choice(('open', 'shut'))}</td>\n  </tr>"
        for _ in range(chance.randint(4, 30))
    )
    return f"<table>\n{rows}\n</table>"


def _wide(chance: Random) -> str:
    rows = [
        f"| {_name(chance)} | "
        + " | ".join(chance.choice(("\u2713", "\u2717", "-")) for _ in range(6))
        + " |"
        for _ in range(chance.randint(5, 30))
    ]
    return (
        "| who | Mo | Tu | We | Th | Fr | Sa |\n|:--|--|--|--|--|--|--|\n"
        + "\n".join(rows)
        + "\n\n"
        + _EN.sentence(chance)
    )


def _sql(chance: Random) -> str:
    return "\n".join(
        f"INSERT INTO cities (id, name, people) VALUES ({at}, '{_name(chance)}', {chance.randint(900, 10**6)});"
        for at in range(1, chance.randint(6, 60))
    )


def _c_cases(chance: Random) -> str:
    cases = "\n".join(
        f'        case {at}:\n            return "{_name(chance)}";' for at in range(chance.randint(5, 40))
    )
    return f"```c\nconst char *name_of(int code)\n{{\n    switch (code) {{\n{cases}\n        default:\n            return NULL;\n    }}\n}}\n```"


def _tests(chance: Random) -> str:
    asserts = "\n".join(
        f"    assert_eq!(add({(a := chance.randint(0, 99))}, {(b := chance.randint(0, 99))}), {a + b});"
        for _ in range(chance.randint(5, 40))
    )
    return f"```rust\n#[test]\nfn adds() {{\n{asserts}\n}}\n```\n\n{_EN.sentence(chance)}"


def _js(chance: Random) -> str:
    return "\n".join(
        f"document.getElementById('{(name := _name(chance).lower())}').addEventListener('click', () => show('{name}', {at}));"
        for at in range(chance.randint(4, 25))
    )


def _ini(chance: Random) -> str:
    return "\n\n".join(
        f"[{_name(chance)}]\nenabled = true\nretries = {chance.randint(1, 9)}\ntimeout = {chance.randint(5, 90)}"
        for _ in range(chance.randint(3, 14))
    )


def _diff(chance: Random) -> str:
    return (
        "```diff\n"
        + "\n".join(
            f"@@ -{at},7 +{at},7 @@\n-    old_{_name(chance)} = {at}\n+    new_{_name(chance)} = {at + 1}"
            for at in range(1, 200, 17)
        )
        + "\n```"
    )


def _access(chance: Random) -> str:
    return "\n".join(
        f'10.0.{chance.randint(0, 9)}.{chance.randint(1, 254)} - - [12/Mar/2026:08:{at % 60:02}:11 +0000] "GET /{_name(chance).lower()} HTTP/1.1" {chance.choice((200, 304, 404))} {chance.randint(100, 9999)}'
        for at in range(chance.randint(10, 70))
    )


def _song(chance: Random) -> str:
    refrain = f"Oh, {_name(chance)}, oh, {_name(chance)}, carry me home,\nla la la la, carry me home!"
    return "\n\n".join(
        f"{_EN.sentence(chance)}\n{_EN.sentence(chance)}\n{_EN.sentence(chance)}\n{refrain}"
        for _ in range(chance.randint(2, 6))
    )


def _matrix(chance: Random) -> str:
    size = chance.randint(2, 8)
    rows = " \\\\\n".join(
        " & ".join("1" if row == column else "0" for column in range(size)) for row in range(size)
    )
    return f"The identity is\n$$\\begin{{pmatrix}}\n{rows}\n\\end{{pmatrix}}$$\n{_EN.sentence(chance)}"


def _algebra(chance: Random) -> str:
    a, b = chance.randint(2, 19), chance.randint(2, 99)
    steps = [f"Step {at}: ${a}^{at} = {a**at}$, so $x_{{{at}}} = {a**at + b}$." for at in range(1, 13)]
    return (
        "We solve it step by step.\n"
        + "\n".join(steps)
        + f"\nTherefore the root is about {math.sqrt(a * b):.6f}."
    )


def _chat(chance: Random) -> str:
    return "\n".join(
        f"**{who}:** {_EN.sentence(chance)}"
        for _ in range(chance.randint(4, 14))
        for who in ("User", "Assistant")
    )


def _brief(chance: Random) -> str:
    return chance.choice(
        (
            "No.",
            "Canberra",
            "7",
            "true",
            "It depends.",
            "Very, very, very good!",
            "Row, row, row your boat.",
            "不知道。",
            "Нет.",
            "null",
            "[]",
            "C",
            "hahaha",
            "Ja, gern!",
            "...",
            "\U0001f600\U0001f600\U0001f600",
        )
    )


def _vocabulary(chance: Random) -> str:
    rows = (
        ("apple", "яблоко", "苹果", "تفاح"),
        ("bread", "хлеб", "面包", "خبز"),
        ("water", "вода", "水", "ماء"),
        ("house", "дом", "房子", "بيت"),
        ("book", "книга", "书", "كتاب"),
        ("river", "река", "河", "نهر"),
        ("night", "ночь", "夜晚", "ليل"),
    )
    some = chance.sample(rows, chance.randint(3, 7))
    joint = chance.choice((" | ", " – ", ", ", "\t"))
    return "Words to learn:\n\n" + "\n".join(f"{at}. " + joint.join(row) for at, row in enumerate(some, 1))


def _translated(chance: Random) -> str:
    other = chance.choice(("German", "French", "Spanish", "Chinese", "Russian", "Arabic", "Japanese"))
    return f"{_EN.text(chance, 4)}\n\n**{other}:**\n\n{MORE[other].text(chance, 6)}"


def _quoted(chance: Random) -> str:
    other = chance.choice(("German", "French", "Spanish", "Chinese", "Russian", "Arabic"))
    left, right = chance.choice((('"', '"'), ("\u00ab", "\u00bb"), ("(", ")")))
    return f"{_EN.text(chance, 3)} One letter reads {left}{MORE[other].sentence(chance)}{right}, which is plain. {_EN.sentence(chance)}"


def _of_tokens(chance: Random) -> str:
    mark = chance.choice(("<|im_end|>", "</s>", "<|endoftext|>", "<think>"))
    return f"{_EN.sentence(chance)} The template closes a turn with `{mark}`, so `{mark}` must be among the stops.\n\n{_EN.text(chance, 3)}"


def _technical(chance: Random) -> str:
    names = ("Python", "Kubernetes", "API", "Linux", "GPU", "JSON", "Redis")
    language, frames = chance.choice(
        (
            (
                "Chinese",
                (
                    "我们使用 {} 和 {} 来部署服务。",
                    "请先安装 {}，然后检查 {} 的版本。",
                    "{} 的配置文件在 {} 目录下。",
                ),
            ),
            (
                "Russian",
                (
                    "Сервис написан на {} и работает через {}.",
                    "Сначала установите {}, затем проверьте {}.",
                    "Файл {} лежит рядом с {}.",
                ),
            ),
        )
    )
    return "\n".join(
        chance.choice(frames).format(*chance.sample(names, 2)) + MORE[language].sentence(chance)
        for _ in range(8)
    )


def _chart(chance: Random) -> str:
    rows = [f"{_name(chance):>12} {'#' * chance.randint(1, 50)}" for _ in range(12)]
    return "\n".join(["=" * 79, *rows, "-" * 79])


def _names_list(chance: Random) -> str:
    return ", ".join(_name(chance) for _ in range(chance.randint(20, 120)))


def _practice(kind: str) -> Maker:
    asks = {
        "prose": "Tell me about bridges",
        "code": "Write a Python class",
        "json": 'Write a JSON array with "name", "city" and "age"',
    }
    return _text(
        lambda chance: "".join(
            islice(
                practice.pieces(f"[{chance.random()}] {asks[kind]}", ends=kind != "prose"),
                chance.randint(60, 900),
            )
        )
    )


HEALTHY: dict[str, Maker] = {
    **{f"prose {language}": _prose(language) for language in MORE},
    "counting in words": _text(_counted_words),
    "counting by lines": _text(_counted_lines),
    "roman to 80": _text(_roman),
    "german to 80": _text(_german_numbers),
    "spanish to 80": _text(_spanish_numbers),
    "counting down": _text(_down),
    "json points": _text(_points),
    "json nested": _text(_nested),
    "yaml services": _text(_yaml),
    "html table": _text(_html),
    "table of ticks": _text(_wide),
    "sql inserts": _text(_sql),
    "c switch": _text(_c_cases),
    "rust asserts": _text(_tests),
    "javascript handlers": _text(_js),
    "ini sections": _text(_ini),
    "diff": _text(_diff),
    "access log": _text(_access),
    "song": _text(_song),
    "matrix": _text(_matrix),
    "algebra": _text(_algebra),
    "chat transcript": _text(_chat),
    "brief answer": _text(_brief),
    "vocabulary": _text(_vocabulary),
    "translation": _text(_translated),
    "foreign quote": _text(_quoted),
    "speaks of tokens": _text(_of_tokens),
    "technical foreign": _text(_technical),
    "bar chart": _text(_chart),
    "list of names": _text(_names_list),
    **{f"practice {kind}": _practice(kind) for kind in ("prose", "code", "json")},
}


def _before(chance: Random, language: str | None = None) -> str:
    return MORE[language or chance.choice(tuple(MORE))].text(chance, chance.randint(1, 10)) + " "


def _dekameters(chance: Random) -> str:
    word = chance.choice(
        ("dekameters", "}} ", "ować", "的", "\u0e01\u0e32\u0e23", "nbsp", "0x", "ser", "Слово")
    )
    joint = chance.choice((" ", ", ", " - ", "\n"))
    return (
        _before(chance) + joint.join([word] * chance.randint(24, 300))
        if word.strip().isalnum()
        else _before(chance) + "! " * 400
    )


def _chinese_loop(chance: Random) -> str:
    language = chance.choice(("Chinese", "Japanese"))
    phrase = MORE[language].sentence(chance)[: chance.randint(3, 24)]
    return _before(chance, language) + phrase * chance.randint(12, 60)


def _paragraph_loop(chance: Random) -> str:
    paragraph = MORE[chance.choice(("English", "German", "Russian", "Arabic"))].text(
        chance, chance.randint(3, 8)
    )
    return "\n\n".join([_before(chance), *[paragraph] * chance.randint(5, 12)])


def _code_loop(chance: Random) -> str:
    line = f"    result_{_name(chance)} = compute({_name(chance)}, {_name(chance)}[0])\n"
    return "```python\ndef run():\n" + line * chance.randint(12, 80)


def _json_loop(chance: Random) -> str:
    one = json.dumps({"id": 1, "name": _name(chance), "city": _name(chance)})
    return "[" + ", ".join([one] * chance.randint(12, 60))


def _accumulating(chance: Random) -> str:
    """Each cycle puts one word in front of what was said before."""
    said, cycles = [_name(chance)], []
    for _ in range(chance.randint(22, 40)):
        said = [_name(chance), *said]
        cycles.append("and the " + " of the ".join(said) + ".")
    return _before(chance, "English") + " ".join(cycles)


def _three_attractors(chance: Random) -> str:
    language = chance.choice(("English", "German", "French", "Russian", "Chinese"))
    three = [MORE[language].sentence(chance) for _ in range(3)]
    return _before(chance, language) + " ".join(chance.choice(three) for _ in range(chance.randint(30, 70)))


def _second_order(chance: Random) -> str:
    """A chain of order two over eight words that it never leaves."""
    words = [_name(chance).lower() for _ in range(7)] + ["the"]
    said = words[:2]
    after = {(a, b): chance.sample(words, 2) for a in words for b in words}
    while len(said) < chance.randint(180, 400):
        said.append(chance.choice(after[said[-2], said[-1]]))
    return _before(chance, "English") + " ".join(said)


def _cp1252(chance: Random) -> str:
    language = chance.choice(("German", "French", "Spanish"))
    text = MORE[language].text(chance, chance.randint(4, 12)) + " \u2013 \u201cc\u2019est \u00e7a\u201d"
    return text.encode().decode("cp1252", "replace").replace("\ufffd", "")


def _twice(chance: Random) -> str:
    """Read wrongly and written again, twice."""
    text = MORE[chance.choice(("Russian", "Chinese", "Arabic"))].text(chance, 3)
    return text.encode().decode("latin-1").encode().decode("latin-1")


def _inside(mark: tuple[str, ...]) -> Callable[[Random], str]:
    def make(chance: Random) -> str:
        words = _before(chance).split(" ")
        words.insert(chance.randint(1, len(words)), chance.choice(mark))
        return " ".join(words)

    return make


def _next_turn(chance: Random) -> str:
    end = chance.choice(
        ("<|eot_id|>", "<end_of_turn>\n", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|im_end|>\n", "<eos>")
    )
    return _before(chance) + end + chance.choice(("user\n", "assistant", "")) + _before(chance)


def _script_drift(chance: Random) -> str:
    first, second = chance.choice(
        (
            ("Chinese", "English"),
            ("Russian", "Chinese"),
            ("German", "Arabic"),
            ("English", "Arabic"),
            ("Japanese", "Russian"),
            ("Spanish", "Chinese"),
        )
    )
    start = MORE[first].text(chance, 8).replace("\n", " ")
    cut = int(len(start) * chance.uniform(0.5, 0.9))
    return start[:cut] + " " + MORE[second].text(chance, 8)[chance.randint(0, 9) :]


def _word_drift(chance: Random) -> str:
    first, second = chance.sample(("English", "German", "French", "Spanish"), 2)
    start = MORE[first].text(chance, 12).replace("\n", " ").split()
    return " ".join(start[: int(len(start) * chance.uniform(0.5, 0.9))]) + " " + MORE[second].text(chance, 12)


def _any_script(chance: Random) -> str:
    """Single characters and pieces drawn from blocks of Unicode."""
    blocks = (
        (0x61, 0x7A),
        (0x430, 0x44F),
        (0x4E00, 0x5E00),
        (0xAC00, 0xB000),
        (0x5D0, 0x5EA),
        (0x905, 0x939),
    )
    words = []
    for _ in range(chance.randint(80, 250)):
        low, high = chance.choice(blocks)
        words.append("".join(chr(chance.randint(low, high)) for _ in range(chance.randint(1, 6))))
    return _before(chance, "English") + " ".join(words)


def _latin_pieces(chance: Random) -> str:
    pieces = [
        "ation",
        "ierung",
        "Quel",
        "zzo",
        "ptr",
        "naires",
        "ulk",
        "Brit",
        "ovsk",
        "hoc",
        "ungen",
        "iffer",
        "Stub",
        "adle",
        "quet",
        "rish",
        "mble",
        "Zw",
        "orthy",
        "pcs",
    ]
    words = (
        chance.choice(pieces) + chance.choice(("", "", chance.choice(pieces), _name(chance)))
        for _ in range(chance.randint(140, 260))
    )
    return _before(chance, "English") + " ".join(words)


def _no_numbers(chance: Random) -> str:
    return chance.choice(("", _before(chance, "English"))) + chance.choice("!?!!") * chance.randint(40, 600)


def _half_characters(chance: Random) -> str:
    raw = MORE[chance.choice(("Chinese", "Russian", "Japanese", "Arabic"))].text(chance, 4).encode()
    cut = chance.randint(1, len(raw) // 2)
    while raw[cut] & 0xC0 != 0x80:
        cut += 1
    return (raw[:cut] + raw[cut + 1 :]).decode("utf-8", "replace")


def _garbled(chance: Random) -> str:
    return "".join(islice(practice.garbled(str(chance.random())), chance.randint(60, 400)))


def _blank(chance: Random) -> Reply:
    return Reply(
        text=chance.choice(("", " ", "\n\n", "\t")),
        completion_tokens=chance.randint(0, 512),
        finish_reason="length",
    )


def _thinking(chance: Random) -> Reply:
    return Reply(text="", reasoning=_EN.text(chance, 6), completion_tokens=512, finish_reason="length")


DAMAGED: dict[str, Maker] = {
    "one token in changing joints": _text(_dekameters),
    "chinese phrase loop": _text(_chinese_loop),
    "paragraph loop": _text(_paragraph_loop),
    "code line loop": _text(_code_loop),
    "json object loop": _text(_json_loop),
    "accumulating in front": _text(_accumulating),
    "three attractors": _text(_three_attractors),
    "second order chain": _text(_second_order),
    "utf-8 as cp1252": _text(_cp1252),
    "utf-8 misread twice": _text(_twice),
    "template token": _text(
        _inside(
            (
                "<|start_header_id|>",
                "<\uff5cAssistant\uff5c>",
                "[INST]",
                "<|reserved_special_token_3|>",
                "<pad>",
            )
        )
    ),
    "thinking tag": _text(_inside(("</think>", "<think>", "</thinking>"))),
    "next turn": _text(_next_turn),
    "drift of script": _text(_script_drift),
    "drift of words": _text(_word_drift),
    "salad of any script": _text(_any_script),
    "salad of pieces": _text(_latin_pieces),
    "exclamation marks": _text(_no_numbers),
    "half a character": _text(_half_characters),
    "practice garbled": _text(_garbled),
    "blank": _blank,
    "thinking only": _thinking,
}
