"""API: what launch and status ask of a served line: is it up, what does it serve, what does it answer. I/O."""

import httpx

from launcher import smoke
from launcher.smoke import Smoke, Smoked
from sparkctl.clock import Clock
from sparkctl.line import Line

# In the line's seconds; never less than a client on this machine may need.
_LOOK_S = 10.0
_REPLY_S = 120.0
_LEAST_S = 2.0


def is_up(line: Line, clock: Clock) -> bool:
    """Whether /health answers 200. It stays 200 when a worker is dead, so it is never enough by itself."""
    try:
        return httpx.get(f"{line.url}/health", timeout=_limit(_LOOK_S, clock)).status_code == 200
    except httpx.HTTPError:
        return False


def served_names(line: Line, clock: Clock) -> tuple[str, ...]:
    """Return the names of the models that the API lists; none when it does not answer as it should."""
    try:
        answer = httpx.get(f"{line.url}/v1/models", timeout=_limit(_LOOK_S, clock)).json()
        return tuple(str(model["id"]) for model in answer["data"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return ()


def ask(line: Line, model: str, asked: Smoke, clock: Clock) -> Smoked:
    """Ask one smoke and judge the reply; no usable reply is a fault of the smoke, with what came instead."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": asked.prompt}],
        "max_tokens": asked.max_tokens,
        "temperature": 0,
    }
    try:
        answer = httpx.post(f"{line.url}/v1/chat/completions", json=body, timeout=_limit(_REPLY_S, clock))
        if answer.status_code != 200:
            return Smoked(name=asked.name, fault=f"HTTP {answer.status_code}", reply=answer.text)
        reply = answer.json()["choices"][0]["message"]["content"] or ""
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as fault:
        return Smoked(name=asked.name, fault=f"no usable reply ({type(fault).__name__}: {fault})", reply="")
    return smoke.judge(asked, reply)


def _limit(seconds: float, clock: Clock) -> float:
    return max(_LEAST_S, clock.real_s(seconds))
