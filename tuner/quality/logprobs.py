"""Log-probabilities of a prompt as an engine gave them: each token of a text with its own and its alternatives'.

Reads `/v1/completions` with `prompt_logprobs` (vLLM: keys are token ids) or with `echo` and `logprobs` (others: keys are the
tokens' texts). Both are natural logarithms. Scores of the two forms name tokens differently and are never compared.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Mix = Literal["alone", "loaded"]
"""What else the engine computed at the same time: nothing, or other requests."""

MIXES: tuple[Mix, ...] = get_args(Mix)

DIGITS = 6
"""Decimals of a log-probability that are kept, so that a stored one equals the one that was measured."""

_BY_ID = "token_id:"
"""Before the number of a token where vLLM was asked to name tokens by their ids."""

_TOP_SLACK = 1e-4
"""By how much probabilities may sum above 1: engines add in single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One token of a text given all before it: its name, its log-probability, and the likeliest, likeliest first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One text as scored under one mix; the first token, before which there is nothing, is left out."""

    text: str
    mix: Mix
    positions: tuple[Position, ...]


def read(answer: object, top: int) -> tuple[Position, ...]:
    """Read what an engine answered.

    Args:
        answer: the answer's JSON.
        top: how many alternatives were asked for.

    Raises:
        ValueError: the answer holds no log-probabilities of the prompt, or they are none.

    """
    choice = _only(_get(answer, "choices", "the answer"))
    if isinstance(found := _at(choice, "prompt_logprobs"), list):
        positions = tuple(_by_id(one, top) for one in found if one is not None)
    elif isinstance(found := _at(choice, "logprobs"), dict):
        positions = _echoed(found, _prompt_tokens(answer), top)
    else:
        raise ValueError("the answer has no prompt_logprobs and no echoed logprobs")
    if not positions:
        raise ValueError("the answer scores no token, wanted a text of at least two")
    return positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A reply as it was made: token ids of its prompt and its own, and what each of its tokens was sampled from."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    positions: tuple[Position, ...]


def sampled(answer: object, top: int) -> Sampled:
    """Read the reply of a chat that was asked for token ids, and for tokens named by them.

    Raises:
        ValueError: the answer holds no ids, or no log-probabilities of its tokens.

    """
    choice = _only(_get(answer, "choices", "the answer"))
    prompt, reply = _ids(answer, "prompt_token_ids"), _ids(choice, "token_ids")
    content = _at(_at(choice, "logprobs"), "content")
    if not isinstance(content, list) or len(content) != len(reply):
        raise ValueError("the answer has no log-probability of each of its tokens")
    return Sampled(prompt=prompt, reply=reply, positions=tuple(_named(one, top) for one in content))


def _named(found: object, top: int) -> Position:
    tops = _at(found, "top_logprobs")
    own = _name(found)
    value = _number(_get(found, "logprob", "a token"))
    values = (
        {_name(one): _number(_get(one, "logprob", "a token")) for one in tops or ()}
        if isinstance(tops, list)
        else {}
    )
    return _position(own, value, {own: value} | values, top)


def _name(found: object) -> str:
    token = _at(found, "token")
    if not isinstance(token, str) or not token.startswith(_BY_ID):
        raise ValueError("the answer names its tokens by text, wanted by id")
    return token.removeprefix(_BY_ID)


def _ids(found: object, key: str) -> tuple[int, ...]:
    ids = _at(found, key)
    if not isinstance(ids, list) or not ids or not all(isinstance(one, int) for one in ids):
        raise ValueError(f"the answer has no {key}: the engine gives no token ids")
    return tuple(ids)


def pack(scored: Sequence[Scored]) -> bytes:
    """Write scores as compact JSON, the same bytes for the same scores."""
    plain = [
        [
            one.text,
            one.mix,
            [[at.token, at.logprob, [part for pair in at.top for part in pair]] for at in one.positions],
        ]
        for one in scored
    ]
    return json.dumps({"schema": 1, "scored": plain}, separators=(",", ":"), ensure_ascii=False).encode()


def unpack(data: bytes) -> tuple[Scored, ...]:
    """Read scores back.

    Raises:
        ValueError: these are no scores.

    """
    try:
        found = json.loads(data)
        if found["schema"] != 1:
            raise ValueError(f"schema is {found['schema']}, wanted 1")
        return tuple(_unpacked_text(*one) for one in found["scored"])
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"no log-probabilities: {type(fault).__name__}: {fault}") from fault


def _unpacked_text(text: str, mix: Mix, positions: Sequence[Sequence[Any]]) -> Scored:
    if mix not in MIXES:
        raise ValueError(f"a text was scored {mix}, wanted {' or '.join(MIXES)}")
    return Scored(text=text, mix=mix, positions=tuple(_unpacked(*one) for one in positions))


def _unpacked(token: str, logprob: float, flat: Sequence[str | float]) -> Position:
    names, values = flat[::2], [float(value) for value in flat[1::2]]
    if not names:
        raise ValueError("a position names no likely token")
    return Position(token=token, logprob=float(logprob), top=tuple(zip(map(str, names), values, strict=True)))


def _by_id(found: object, top: int) -> Position:
    """Read vLLM's form: the likeliest by rank and, first of all, the token that stands there."""
    if not isinstance(found, dict) or not found:
        raise ValueError(f"a position is {type(found).__name__}, wanted tokens with log-probabilities")
    values = {str(token): _number(_get(told, "logprob", "a token")) for token, told in found.items()}
    own = next(iter(values))
    return _position(own, values[own], values, top)


def _echoed(found: Mapping[str, object], prompt_tokens: int, top: int) -> tuple[Position, ...]:
    """Read the older form: lists over the prompt and whatever was made behind it."""
    tokens, own, tops = (
        _list(found, key)[:prompt_tokens] for key in ("tokens", "token_logprobs", "top_logprobs")
    )
    if not len(tokens) == len(own) == len(tops):
        raise ValueError("tokens, token_logprobs and top_logprobs differ in length")
    made = []
    for token, logprob, alternatives in zip(tokens, own, tops, strict=True):
        if logprob is None:
            continue
        if not isinstance(alternatives, dict):
            raise ValueError("a position of top_logprobs holds no alternatives")
        name, value = f"text:{token}", _number(logprob)
        values = {name: value} | {f"text:{one}": _number(told) for one, told in alternatives.items()}
        made.append(_position(name, value, values, top))
    return tuple(made)


def _position(token: str, logprob: float, values: Mapping[str, float], top: int) -> Position:
    ranked = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    if sum(math.exp(value) for _, value in ranked) > 1 + _TOP_SLACK:
        raise ValueError("the probabilities of a position sum to more than 1: these are no log-probabilities")
    return Position(token=token, logprob=logprob, top=tuple(ranked))


def _number(found: object) -> float:
    if (
        isinstance(found, bool)
        or not isinstance(found, int | float)
        or not math.isfinite(found)
        or found > _TOP_SLACK
    ):
        raise ValueError(f"a log-probability is {found!r}, wanted a number up to 0")
    return round(min(float(found), 0.0), DIGITS)


def _prompt_tokens(answer: object) -> int:
    found = _at(_at(answer, "usage"), "prompt_tokens")
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError("the answer does not say how many tokens its prompt has")
    return found


def _list(found: Mapping[str, object], key: str) -> list[object]:
    value = found.get(key)
    if not isinstance(value, list):
        raise ValueError(f"logprobs has no list {key}")
    return value


def _only(found: object) -> object:
    if not isinstance(found, list) or len(found) != 1:
        raise ValueError("wanted one choice in the answer")
    return found[0]


def _get(found: object, key: str, what: str) -> object:
    if not isinstance(found, dict) or key not in found:
        raise ValueError(f"{what} has no {key}")
    return found[key]


def _at(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None
