"""Which language a reply speaks, as far as damage goes: a drift from one to another, and tokens that are none.

Scripts tell Russian from Chinese, small words tell German from French. A drift is a reply whose first part is one
language and whose rest is another, changed where nobody changes it on purpose: within a paragraph, without a colon or
a quote. Salad is what has words of many scripts side by side, or prose without any small word.

Every threshold here is ours, fitted on the fit half of the corpus in tests/tuner/corpus, never on the held-out half.
Note: an English text of English words in senseless order passes; only a language model would know.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tuner.audit import words as read
from tuner.audit.reply import Damage, Where, excerpt

SMALL_WORDS = {
    "English": "the and of to is that it was for with as are this be by from have or an which you not they he she we at on were has had their what when there would could can about into than then some these only other more who",
    "German": "der die und das ist nicht ein eine zu den mit sich auf dem von auch wird es im sie oder einen aber wir noch nur haben war kann nach bei über aus wie wenn man nach zum zur sind diese durch weil dass oft sehr",
    "French": "on y le la les des et est un une du que dans qui pour pas sur au avec ce il elle sont ne nous vous mais leur plus été avoir même aussi comme tout deux donc sans cette ces leurs fait peut très être ont était aux",
    "Spanish": "el la los las de que y en un una es por con para del se no su al lo como pero sus este esta hay muy cuando del más también donde tiene son fue desde todo antes después porque entre ya muy hasta nadie siempre otra los",
    "Italian": "il lo la gli le di che e un una per con non sono del della si nel alla anche ma come questo dei da ogni gli nel più essere stato tutto anche hanno dopo dove quando perché molto sempre nella delle degli sulla",
    "Portuguese": "o a os as de que e do da em um uma para com não por mais dos como mas ao foi ele das à seu sua quando pelo pela também são tem está muito já depois onde nos nas ser isso ela até sem mesmo",
    "Dutch": "de het een en van ik te dat die in is niet zijn op aan met als voor er maar om hem dan zou wat mijn wordt zijn deze naar heeft bij uit ook nog geen veel werd worden door over tot hebben wel",
    "Swedish": "och att det som en på är av för med den till inte ett om men var jag han sig från vi så kan",
    "Danish": "og at det som en på er af for med den til ikke et om men var jeg han sig fra vi så kan",
    "Finnish": "ja on ei se että oli hän mutta ovat kun niin myös kuin tai joka sen mitä vain jo nyt sitä ole",
    "Polish": "i w na z nie się że do jest to jak ale po co tak za od przez dla był o które tym już",
    "Czech": "a v na se je že s z do to i o k jako ale by za pro po tak které nebo jsem už byl",
    "Hungarian": "a az és hogy nem is egy ez van de meg volt csak el mint ha azt már még ki",
    "Romanian": "și de la în a cu nu un o pe care este din să mai pentru că sunt ca dar",
    "Turkish": "ve bir bu da de için ile çok daha ne gibi ama o kadar sonra her olarak olan var",
    "Vietnamese": "và của là có không được một cho các với trong người này đã để những khi thì ở như",
    "Indonesian": "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke adalah oleh ada",
}
"""The commonest small words of each language."""

_DRIFTING = ("English", "German", "French", "Spanish", "Italian", "Portuguese", "Dutch")

LEAST_WORDS = 7
"""Words that show a language, on either side of a drift."""

PURE = 0.85
"""Share of them that must be of the side's own language: who quotes or alternates is below."""

INTRODUCTION = 12
"""Characters before the new language within which a colon, bar or quote introduces it."""

BARREN_WINDOW = 60
BARREN = 0.05
"""Words of a window without small words, and their share in it; English prose has above 0.3, Finnish above 0.08."""

MIXED_WINDOW = 60
MIXED_SCRIPTS = 3
MIXED_CHANGES = 8
"""Words of a window, scripts in it and changes of script with no more than a space between: a table of translations has
bars, commas or line ends there.
"""

GLUED = 3
"""Words that change within themselves between Latin and another alphabet."""

_SCRIPTS = (
    ("Chinese", "\u3400-\u4dbf\u4e00-\u9fff"),
    ("Japanese", "\u3040-\u30ff"),
    ("Korean", "\u1100-\u11ff\uac00-\ud7af"),
    ("Cyrillic", "\u0400-\u052f"),
    ("Arabic", "\u0600-\u06ff\u0750-\u077f"),
    ("Hebrew", "\u0590-\u05ff"),
    ("Greek", "\u0370-\u03ff"),
    ("Devanagari", "\u0900-\u097f"),
    ("Thai", "\u0e00-\u0e7f"),
    ("Latin", "A-Za-z\u00c0-\u024f\u1e00-\u1eff"),
)
_SCRIPT = tuple((name, re.compile(f"[{ranges}]")) for name, ranges in _SCRIPTS)
_FOREIGN = re.compile("[\u0370-\u1dff\u3040-\ud7af]")
_GLUED = re.compile(r"[A-Za-z][\u0400-\u06ff\u0900-\u0e7f]|[\u0400-\u06ff\u0900-\u0e7f][A-Za-z]")
_ASIDE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]{1,400}\"|\u201c[^\u201d]{1,400}\u201d|\u201e[^\u201c\u201d]{1,400}[\u201c\u201d]"
    r"|\u00ab[^\u00bb]{1,400}\u00bb|\u300c[^\u300d]{1,400}\u300d|\([^()\n]{1,400}\)|\*[^*\n]{1,400}\*",
    re.DOTALL,
)
_ON_PURPOSE = re.compile('[\n:|>\u2014\uff1a"\u201c\u201e\u00ab\u300c]')
_ASKED = re.compile(
    r"translat|\xfcbersetz|tradu|language|sprache|idioma|langue|bilingual|chinese|japanese|english|german|french|spanish"
    r"|russian|arabic|korean|italian|portuguese|dutch|\u7ffb\u8bd1|\u7ffb\u8a33|\u043f\u0435\u0440\u0435\u0432",
    re.IGNORECASE,
)


_OWN = {name: frozenset(word for word in SMALL_WORDS[name].split() if len(word) > 1) for name in _DRIFTING}
_SMALL = frozenset(word for words in SMALL_WORDS.values() for word in words.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spoken:
    """A word that shows a language, and where it stands."""

    language: str
    start: int
    end: int


def script(word: str) -> str:
    """Return the script of a word by its first letter, or an empty text for numbers and the like."""
    return _script(word[:1])


@lru_cache(maxsize=8192)
def _script(letter: str) -> str:
    return next((name for name, pattern in _SCRIPT if pattern.match(letter)), "")


def drifts(text: str, prompt: str, where: Where) -> tuple[Damage, ...]:
    """Return where a reply leaves its language for another; nothing where it keeps it or changes it on purpose."""
    if _ASKED.search(prompt):
        return ()
    words, places = read.found(_ASIDE.sub(lambda aside: " " * len(aside[0]), text))
    for names in (() if text.isascii() else (_by_script(words),)) + (_by_small_words(words),):
        spoken = [
            _Spoken(language=name, start=start, end=start + len(word))
            for name, word, start in zip(names, words, places, strict=True)
            if name
        ]
        if found := _drift(spoken, text, prompt, where):
            return (found,)
    return ()


def _drift(spoken: list[_Spoken], text: str, prompt: str, where: Where) -> Damage | None:
    names = Counter(one.language for one in spoken).most_common(2)
    if len(names) < 2 or names[1][1] < LEAST_WORDS:
        return None
    first, second = sorted((names[0][0], names[1][0]), key=lambda name: _mean_place(spoken, name))
    at = _border(spoken, first)
    before, after = spoken[:at], spoken[at:]
    if (
        min(len(before), len(after)) < LEAST_WORDS
        or min(_purity(before, first), _purity(after, second)) < PURE
    ):
        return None
    place = after[0].start
    # A prompt without a letter of the new script did not ask for it, however tidily the reply changes over.
    unasked = bool(prompt) and second not in {*_by_script(read.found(prompt)[0]), *_DRIFTING}
    introduced = _ON_PURPOSE.search(text[max(before[-1].end, place - INTRODUCTION) : place])
    if not unasked and (introduced or "\n" in text[before[-2].end : after[1].start]):
        return None
    return Damage(
        kind="drift",
        measured=f"{first} for {len(before)} telling words, then {second} for {len(after)}",
        wanted="one language, or a change after a colon or line end",
        at=place,
        excerpt=excerpt(text, place),
        where=where,
    )


def _by_script(words: Sequence[str]) -> list[str]:
    """Return the script of each word; Chinese characters are Japanese where kana stand among them."""
    scripts = [script(word) for word in words]
    found = Counter(scripts)
    if 10 * found["Japanese"] > found["Chinese"]:
        return ["Japanese" if name == "Chinese" else name for name in scripts]
    return scripts


def _by_small_words(words: Sequence[str]) -> list[str]:
    """Return the language of each small word that only one of the reply's two commonest languages has."""
    found = Counter(words)
    said = {name: sum(found[word] for word in own) for name, own in _OWN.items()}
    first = max(said, key=lambda name: said[name])
    rest = {name: sum(found[word] for word in own - _OWN[first]) for name, own in _OWN.items()}
    second = max(rest, key=lambda name: rest[name])
    names = dict.fromkeys(_OWN[first] - _OWN[second], first)
    names |= dict.fromkeys(_OWN[second] - _OWN[first], second)
    return [names.get(word, "") for word in words]


def _mean_place(spoken: list[_Spoken], name: str) -> float:
    places = [at for at, one in enumerate(spoken) if one.language == name]
    return sum(places) / len(places)


def _border(spoken: list[_Spoken], first: str) -> int:
    """Return where the words part best into those of the first language and the rest."""
    best = score = border = 0
    for at, one in enumerate(spoken, 1):
        score += 1 if one.language == first else -1
        if score > best:
            best, border = score, at
    return border


def _purity(spoken: list[_Spoken], name: str) -> float:
    return sum(one.language == name for one in spoken) / max(1, len(spoken))


def salads(text: str, where: Where) -> tuple[Damage, ...]:
    """Return where a reply is tokens rather than language; nothing if it reads as one."""
    found = _glued(text) or _mixed(text) or _barren(text)
    if not found:
        return ()
    measured, wanted, at = found
    return (
        Damage(kind="salad", measured=measured, wanted=wanted, at=at, excerpt=excerpt(text, at), where=where),
    )


def _glued(text: str) -> tuple[str, str, int] | None:
    if text.isascii():
        return None
    glued = list(_GLUED.finditer(text))
    if len(glued) < GLUED:
        return None
    return f"{len(glued)} words of two alphabets", f"fewer than {GLUED}", glued[0].start()


def _mixed(text: str) -> tuple[str, str, int] | None:
    if text.isascii() or not _FOREIGN.search(text):
        return None
    words, places = read.found(text)
    scripts = [script(word) for word in words]
    changes = [
        bool(here and there and here != there)
        and {here, there} != {"Chinese", "Japanese"}
        and text[places[at] + len(words[at]) : places[at + 1]] in {"", " "}
        for at, (here, there) in enumerate(pairwise(scripts))
    ]
    for at in range(0, max(1, len(words) - MIXED_WINDOW + 1), MIXED_WINDOW // 4):
        changed = sum(changes[at : at + MIXED_WINDOW])
        kinds = {name for name in scripts[at : at + MIXED_WINDOW] if name} - {"Greek"}
        number = len(kinds) - ({"Chinese", "Japanese"} <= kinds)
        if changed >= MIXED_CHANGES and number >= MIXED_SCRIPTS:
            measured = f"{number} scripts and {changed} changes among {MIXED_WINDOW} words"
            return measured, f"fewer than {MIXED_SCRIPTS} scripts side by side", places[at]
    return None


def _barren(text: str) -> tuple[str, str, int] | None:
    plain = _ASIDE.sub(lambda aside: " " * len(aside[0]), text)
    words, places = read.found(plain)
    small = [word in _SMALL for word in words]
    for at in range(0, len(words) - BARREN_WINDOW + 1, BARREN_WINDOW // 4):
        share = sum(small[at : at + BARREN_WINDOW]) / BARREN_WINDOW
        if share < BARREN and _is_prose(
            words[at : at + BARREN_WINDOW], plain[places[at] : places[at + BARREN_WINDOW - 1]]
        ):
            return f"{share:.0%} small words among {BARREN_WINDOW}", f"at least {BARREN:.0%}", places[at]
    return None


_ROMAN = re.compile("[ivxlc]+")
_SEPARATORS = re.compile(r"\s[-\u2013\u2014]\s|\.\.\.|[\u2026\n,;|=\u2022{}<>\[\]\\/#+]")


def _is_prose(words: Sequence[str], shown: str) -> bool:
    """Whether a window claims to be prose in Latin letters: words with spaces between, no list, code, formula or numeral."""
    latin = sum(script(word) == "Latin" and not _ROMAN.fullmatch(word) for word in words)
    if sum(map(str.isupper, shown)) > sum(map(str.islower, shown)):
        return False
    return latin > 0.85 * len(words) and len(_SEPARATORS.findall(shown)) < 0.12 * len(words)
