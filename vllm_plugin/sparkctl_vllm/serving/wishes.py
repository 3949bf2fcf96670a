"""Wishes: what one request asks of budget reads, through `vllm_xargs` of the API. Pure.

`sparkctl_full` true reads every expert of the request whole; `sparkctl_eps` is what a token of it may cost on the mean, in nats.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sparkctl_vllm.damage import MOST_NATS

FULL, EPS = "sparkctl_full", "sparkctl_eps"
TRUE, FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
"""How yes and no arrive: JSON's true passes the API's types as a number or a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a request is given, and what is said of a wish that makes no sense: such a request is read whole."""

    whole: bool
    eps: float
    fault: str = ""


def read(extra: Mapping[str, object] | None, eps: float) -> Wish:
    """Return what a request is given; `eps` is the plan's, for those that ask for none."""
    asked = extra or {}
    full = str(asked.get(FULL, False)).strip().lower()
    if full not in TRUE + FALSE:
        return Wish(whole=True, eps=eps, fault=f"{FULL}: {asked[FULL]!r}, allowed: true or false")
    own = asked.get(EPS, eps)
    try:
        number = float(str(own))
    except ValueError:
        number = math.nan
    if not 0 <= number <= MOST_NATS:
        return Wish(whole=True, eps=eps, fault=f"{EPS}: {own!r}, allowed: 0 to {MOST_NATS:g} nats a token")
    return Wish(whole=full in TRUE, eps=number)
