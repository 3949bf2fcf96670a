"""Redact: withhold what looks like a secret from everything that leaves a node. Pure.

Applied when records come in, so that no secret ever lies in a bundle, a ledger or a terminal. What it costs is that a harmless
value with a telling name is withheld too.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bootcheck.facts import Record

WITHHELD = "<withheld>"

# A name tells: HF_TOKEN, VLLM_API_KEY, aws_secret_access_key, password ...
_NAME = (
    r"[A-Za-z0-9_.-]*(?:TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY"
    r"|AUTH(?:ORIZATION)?|COOKIE)(?![A-Za-z])[A-Za-z0-9_.-]*"
)
# Counted things, not secrets: max_num_batched_tokens, completion_tokens, tokens ... `(?![A-Za-z])` above leaves the plural alone.

_QUOTED = r"""\\?"(?:[^"\\]|\\.)*?\\?"|'(?:[^'\\]|\\.)*'"""
_LIST = rf"\[(?:\s*(?:{_QUOTED}),?)*\s*\]"
_BARE = r"""[^\s"',;}\]]+"""
_WORD = r"""[^\s"']+"""

# "NAME=value with anything" as docker and JSON lists quote it; then NAME=value, NAME: value, "NAME": "value", 'name': ['value'].
_ENTRY = re.compile(
    rf"""(?P<name>(?P<quote>\\?["']){_NAME}=)(?P<value>(?:(?!(?P=quote)).)+)""", re.IGNORECASE
)
_ASSIGNED = re.compile(
    rf"""(?P<name>(?<![A-Za-z0-9_.-])(?:--)?{_NAME}\\?["']?)(?:(?P<equals>=)|(?P<colon>\s*[=:]\s*))"""
    rf"""(?P<value>{_LIST}|{_QUOTED}|(?:(?:Bearer|Basic)\s+)?(?(equals){_WORD}|{_BARE}))""",
    re.IGNORECASE,
)
_FLAG = re.compile(
    rf"""(?P<name>--{_NAME}["']?,?\s+)(?P<value>{_QUOTED}|(?!-)[^\s"',;}}\]]+)""", re.IGNORECASE
)
# A shape tells, whatever the name: Hugging Face, GitHub, OpenAI-like, AWS, Slack, JSON web tokens, keys in URLs.
_SHAPED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{12,}"
    r"|xox[abpr]-[A-Za-z0-9-]{8,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+|nvapi-[A-Za-z0-9_-]{16,})"
)
_BEARER = re.compile(r"(?P<name>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_URL = re.compile(r"(?P<name>[a-z][a-z0-9+.-]*://[^\s:/@]*:)(?P<value>[^\s@/]+)(?=@)")
_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_SECRET_NAME = re.compile(rf"^(?:--)?{_NAME}$", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Whether a variable or flag of that name holds a secret."""
    return _SECRET_NAME.match(name) is not None


def text(told: str) -> str:
    """Return the text with every secret withheld."""
    told = _BLOCK.sub(WITHHELD, told)
    for pattern in (_ENTRY, _ASSIGNED, _FLAG, _BEARER, _URL):
        told = pattern.sub(_withhold, told)
    return _SHAPED.sub(WITHHELD, told)


def _withhold(found: re.Match[str]) -> str:
    value = found["value"]
    if value in {"null", "None", '""', "''", "[]", "true", "false"}:
        return found[0]
    quote = re.match(r"""\\?["']""", value)
    mark = quote[0] if quote else ""
    before = found[0][: found.start("value") - found.start()]
    return f"{before}{mark}{WITHHELD}{mark}"


def argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line with the values of telling options withheld."""
    shown: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        is_value = before.startswith("--") and names_a_secret(before) and not word.startswith("--")
        shown.append(WITHHELD if is_value else text(word))
    return tuple(shown)


def record(told: Record) -> Record:
    """Return a record with every secret withheld."""
    return replace(told, argv=argv(told.argv), stdout=text(told.stdout), stderr=text(told.stderr))


def document(value: Any) -> Any:
    """Return a JSON document with every secret withheld; a telling key withholds whatever plain value it has."""
    match value:
        case str():
            return text(value)
        case Mapping():
            return {key: _entry(str(key), one) for key, one in value.items()}
        case list() | tuple():
            words = tuple(one if isinstance(one, str) else "" for one in value)
            shown = argv(words)
            pairs = zip(value, shown, strict=True)
            return [word if isinstance(one, str) else document(one) for one, word in pairs]
        case _:
            return value


def _entry(key: str, value: Any) -> Any:
    if names_a_secret(key) and isinstance(value, str) and value:
        return WITHHELD
    return document(value)
