"""Redact: withhold what looks like a secret from everything that leaves a node. Pure.

Applied when records come in, so that no secret ever lies in a bundle, a ledger or a terminal. What it costs is that a harmless
value with a telling name is withheld too. JSON stays JSON: parsers read it afterwards.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bootcheck.facts import Record

WITHHELD = "<withheld>"

SECRET_NAME = r"""(?isx)                      # HF_TOKEN, VLLM_API_KEY, aws_secret_access_key, DB_PASS, password ...
    \A (?! .* [_.-] (?: FILE | PATH | DIR | SOCK ) \Z )  # but not where one lies
    .* (?:
        (?<! TIK )                            # tiktoken's settings, and special or counted tokens: pad_token, mask_token_id
        (?<! (?<! [a-z] ) (?: BOS | EOS | PAD | UNK | SEP | CLS | MAX | MIN | NUM | PER ) [_-] )
        (?<! (?<! [a-z] ) (?: MASK | STOP ) [_-] )
        (?<! (?<! [a-z] ) (?: IMAGE | VIDEO | AUDIO | DRAFT ) [_-] )
        (?<! BATCHED [_-] ) (?<! SPECIAL [_-] ) (?<! SPECULATIVE [_-] )
        TOKEN (?! [a-z] | [_-]? (?: IDS? | COUNT | BUDGET | LIMIT | LENGTH | SIZE | THRESHOLD | TYPE ) (?! [a-z] ) )
    |   (?: API | ACCESS | AUTH | REFRESH | HF ) [_-]? TOKENS (?! [a-z] )  # other plurals are counts
    |   (?: SECRETS? | PASSW(?:OR)?DS? | PASSPHRASES? | CREDENTIALS? | CREDS | AUTH(?:ORIZATION)?S? | COOKIES?
        |   (?: API | ACCESS | PRIVATE | SECRET ) [_.-]? KEYS?
        ) (?! [a-z] )
    |   (?<= [a-z0-9] [_.-] )                 # OPENAI_KEY, WANDB_KEY ...; the python image has its makers' GPG_KEY
        (?<! (?: GPG | PUB ) [_-] ) (?<! (?: HASH | SORT ) [_-] ) (?<! CACHE [_-] ) (?<! PUBLIC [_-] )
        KEYS? (?= [_-]? \d* \Z )
    |   (?: (?<= [a-z0-9] [_.-] ) | (?<= SSH ) ) PASS (?= [_-]? \d* \Z )
    |   (?: (?<= [a-z0-9] [_.-] ) | (?<= [a-z0-9] ) ) (?<! OLD ) PWDS? (?= [_-]? \d* \Z )  # PWD and OLDPWD are folders
    )"""  # noqa: S105  # names of secrets, not one
"""Names that tell. playbooks/module_utils/spark_docker.py has the same text: a node has no bootcheck."""

_SECRET = re.compile(SECRET_NAME)
_HARMLESS = frozenset({"", "null", "None", "true", "True", "false", "False", "0", "1"})

# A shape tells, whatever the name: Hugging Face, GitHub, OpenAI-like, AWS, Slack, JSON web tokens, NVIDIA, GitLab.
_SHAPED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{12,}"
    r"|xox[abpr]-[A-Za-z0-9-]{8,}|(?<!-)eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]+|nvapi-[A-Za-z0-9_-]{16,}"
    r"|glpat-[A-Za-z0-9_-]{16,})"
)
# Keys in blocks, also those of which a log's tail shows the end only.
_BLOCKS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?<![A-Za-z0-9+/=\\\s])[A-Za-z0-9+/=\\\s]++-----END [A-Z ]*PRIVATE KEY-----"),
)
_REST = r"""(?P<quote>["'])?(?(quote)(?:(?!(?P=quote)).)++|[^\s"',]++)"""
_PLACES = (
    re.compile(r"\b(?:Bearer|Basic)\s+(?P<value>[A-Za-z0-9._~+/=-]{8,})"),
    re.compile(r"""://[^\s:/@"'<>]*+:(?P<value>[^\s@/"'<>]++)(?=@)"""),
    # curl -u NAME:PASSWORD, but not docker run -u 1000:1000
    re.compile(
        r"""(?<![^\s"'])(?:-u|--user|--proxy-user)["']?[\s,=]+(?P<quote>["'])?(?!\d+:\d+\b)[^\s"':]*+:"""
        r"""(?P<value>(?(quote)(?:(?!(?P=quote)).)++|[^\s"',]++))"""
    ),
    re.compile(
        r"""\bsshpass["']?[\s,]+["']?-p["']?[\s,]*(?P<quote>["'])?(?P<value>(?(quote)(?:(?!(?P=quote)).)++|[^\s"',]++))"""
    ),
)

# NAME=value, NAME: value, "NAME": "value", ["NAME"] = 'value'; --NAME value, "--NAME","value", and over lines as YAML and shells do.
_NAMED = re.compile(
    r"""(?P<open>\\{0,7}["'])?(?<![A-Za-z0-9_.-])(?:"""
    r"""(?P<name>[A-Za-z0-9_.-]++)(?P<close>\\{0,7}["'])?\]?[ \t]*(?P<sign>[=:]{1,2}>?)[ \t]*"""
    r"""|(?P<option>--?[A-Za-z][A-Za-z0-9_.-]*+)\\{0,7}["']?(?:[ \t]*,\s*|\s*\\\r?\n\s*|\s*\n\s*-[ \t]+|[ \t]+)(?!\\*["']?--))"""
)
_LIST = re.compile(r"""\[(?:[^\[\]"'\\]|\\.|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')*+\]""", re.DOTALL)
_MAPPING = re.compile(r"""\{(?=[\s"'\\}]|\Z)""")
_QUOTE = re.compile(r"""\\{0,7}["']""")
_EMPTY = re.compile(r"""\\{0,7}["'][ \t]*(?:[,\])}\n]|\Z)""")
_LINE = re.compile(r"[^\r\n]*")
_WORD = re.compile(r"""(?:[^\s"',;}\])]|[,;}\])]++(?=[^\s"'])|["'](?=[A-Za-z0-9]))*+""")
_BARE = re.compile(
    r"""(?:(?:Bearer|Basic)\s+)?(?:[^\s"',;}\])]|["',;}\])](?=[A-Za-z0-9]))*+""", re.IGNORECASE
)
_STARTS_LINE = re.compile(r"(?:\A|\n)[ \t]*(?:[-#<>*][ \t]+)?\Z")
# What a quote of some depth holds, on its line: quotes of a greater depth are part of it.
_HELD = {
    "\\" * depth + mark: re.compile(
        rf"""(?:\\{{{depth + 1},}}["']|(?!{re.escape(chr(92) * depth + mark)})[^\n])*+"""
    )
    for depth in range(8)
    for mark in "\"'"
}

_JSON_START = re.compile(r'\s*[\[{"]')
_JSON_LINE = re.compile(r"^[ \t]*[\[{].*$", re.MULTILINE)
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]|[^\s\[\]{},:"]++')
_ENTRY = re.compile(r"\s*(?P<name>[A-Za-z0-9_.-]++)=(?P<value>.+)", re.DOTALL)
_LOGIN = re.compile(r"(?!\d+:\d+\Z)[^:]*:(?P<value>.+)", re.DOTALL)

_ROUNDS = 3
"""What is withheld from a text may make JSON of it, which is then read more closely. Ours."""


def names_a_secret(name: str) -> bool:
    """Whether a variable or flag of that name holds a secret."""
    return _SECRET.match(name) is not None


def text(told: str) -> str:
    """Return the text with every secret withheld; JSON, and each line that is JSON, stays JSON."""
    for _ in range(_ROUNDS):
        shown = _json(told)
        if shown is None:
            shown = "".join(_parts(told))
        if shown == told:
            break
        told = shown
    return told


def lines(told: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a log with every secret withheld, also one that takes several lines: there may be fewer then."""
    return tuple(text("\n".join(told)).splitlines())


def argv(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with the values of telling options and variables withheld."""
    return tuple(document(list(words)))


def record(told: Record) -> Record:
    """Return a record with every secret withheld."""
    return replace(told, argv=argv(told.argv), stdout=text(told.stdout), stderr=text(told.stderr))


def document(value: Any) -> Any:
    """Return a JSON document with every secret withheld; a telling key withholds whatever values lie below it."""
    return json.loads(_pieces(json.dumps(value)))


def _json(told: str) -> str | None:
    """Return JSON with every secret withheld and the rest as it was, None for what is no JSON."""
    if not _JSON_START.match(told):
        return None
    try:
        json.loads(told, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return _pieces(told)


@dataclass(slots=True, kw_only=True)
class _Place:
    """Where in JSON the next value stands: under `key`, None when that comes next, or in a list after `words`."""

    is_list: bool
    is_secret: bool
    key: str | None = None
    words: tuple[str, str] = ("", "")

    @property
    def tells(self) -> bool:
        """Whether the next value is a secret by what stands beside or above it."""
        return self.is_secret or (self.key is not None and names_a_secret(self.key))

    def take(self, word: str) -> None:
        """Go on behind a value."""
        self.key, self.words = None, (self.words[1], word)


def _pieces(told: str) -> str:
    """Return valid JSON with secrets withheld, each in its place."""
    shown: list[str] = []
    done, places = 0, [_Place(is_list=True, is_secret=False)]
    for found in _PIECE.finditer(told):
        piece, place = found[0], places[-1]
        if piece in "[{":
            places.append(_Place(is_list=piece == "[", is_secret=place.tells))
        elif piece in "]}":
            places.pop()
            places[-1].take("")
        else:
            value = json.loads(piece) if piece.startswith('"') else piece
            kept = _told(value, place, is_text=piece.startswith('"'))
            if kept != value:
                shown += [told[done : found.start()], json.dumps(kept)]
                done = found.end()
    return "".join((*shown, told[done:]))


def _told(value: str, place: _Place, *, is_text: bool) -> str:
    """Return what is shown of a key or a plain value, and go on behind it."""
    if not place.is_list and place.key is None:
        place.key = value
        return text(value)
    before, tells = place.words, place.tells
    place.take(value)
    if tells and value not in _HARMLESS:
        return WITHHELD
    if place.is_list:
        value = _word(value, before)
    return text(value) if is_text else value


def _word(word: str, before: tuple[str, str]) -> str:
    """Return a word of a list: `NAME=whatever it is`, or what belongs to the option before it."""
    option = before[1]
    if option.startswith("--") and names_a_secret(option) and not word.startswith("--"):
        return word if word in _HARMLESS else WITHHELD
    if before == ("sshpass", "-p"):
        return WITHHELD
    found = _LOGIN.match(word) if option in {"-u", "--user", "--proxy-user"} else _ENTRY.match(word)
    if found is None or found["value"] in _HARMLESS:
        return word
    if found.re is _ENTRY and not names_a_secret(found["name"]):
        return word
    return word[: found.start("value")] + WITHHELD


def _parts(told: str) -> Iterator[str]:
    """Give a text in pieces: lines of JSON each by itself, what lies between them together."""
    done = 0
    for found in _JSON_LINE.finditer(told):
        line = _json(found[0])
        if line is not None:
            yield from (_plain(told[done : found.start()]), line)
            done = found.end()
    yield _plain(told[done:])


def _plain(told: str) -> str:
    for block in _BLOCKS:
        told = block.sub(WITHHELD, told)
    told = _SHAPED.sub(WITHHELD, told)
    for place in _PLACES:
        told = place.sub(_withhold, told)
    shown: list[str] = []
    done = 0
    for found in _NAMED.finditer(told):
        if not names_a_secret(found["name"] or found["option"]):
            continue
        start, end = _value(told, found) if found.end() >= done else _rest(told, found, done)
        if end > done and told[start:end] not in _HARMLESS:
            shown += [told[done:start], WITHHELD]
            done = end
    return "".join((*shown, told[done:]))


def _withhold(found: re.Match[str]) -> str:
    return found[0][: found.start("value") - found.start()] + WITHHELD


def _value(told: str, found: re.Match[str]) -> tuple[int, int]:
    """Return where the value beside a telling name begins and ends, quotes left out; an empty one ends where it begins."""
    start, sign, quoted = found.end(), found["sign"], found["close"] is not None
    if sign and found["open"] and not quoted:
        return start, _end(_HELD[found["open"]], told, start)
    is_tight = sign is not None and found[0].endswith("=") and not quoted
    mark = _QUOTE.match(told, start)
    if mark:
        held = start if is_tight and _EMPTY.match(told, start) else mark.end()
        return held, held if held == start else _end(_HELD[mark[0]], told, held)
    if told.startswith("[", start):
        listed = _LIST.match(told, start)
        return start, listed.end() if listed else _end(_LINE, told, start)
    if told.startswith("{", start) and (is_tight or _MAPPING.match(told, start)):
        return start, _end(_LINE, told, start) if is_tight else start
    starts_line = _STARTS_LINE.search(told[max(0, found.start() - 80) : found.start()])
    if sign and not is_tight and not quoted and starts_line:
        return start, _end(_LINE, told, start)
    return start, _end(_WORD if is_tight else _BARE, told, start)


def _rest(told: str, found: re.Match[str], done: int) -> tuple[int, int]:
    """Return what lies beyond `done` of a value that begins within another one; nothing is read twice."""
    mark = _QUOTE.match(told, found.end())
    quote = found["open"] if found["sign"] and not found["close"] else None
    return done, _end(_HELD[mark[0]] if mark else _HELD[quote] if quote else _WORD, told, done)


def _end(pattern: re.Pattern[str], told: str, start: int) -> int:
    found = pattern.match(told, start)
    return found.end() if found else start
