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
        with _client(_LOOK_S, clock) as client:
            return client.get(f"{line.url}/health").status_code == 200
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def served_names(line: Line, clock: Clock) -> tuple[str, ...]:
    """Return the names of the models that the API lists; none when it does not answer as it should."""
    try:
        with _client(_LOOK_S, clock) as client:
            answer = client.get(f"{line.url}/v1/models").json()
        return tuple(str(model["id"]) for model in answer["data"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
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
        with _client(_REPLY_S, clock) as client:
            answer = client.post(f"{line.url}/v1/chat/completions", json=body)
        if answer.status_code != 200:
            return Smoked(name=asked.name, fault=f"HTTP {answer.status_code}", reply=answer.text)
        reply = answer.json()["choices"][0]["message"]["content"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as fault:
        return Smoked(name=asked.name, fault=f"no usable reply ({type(fault).__name__}: {fault})", reply="")
    return smoke.judge(asked, reply if isinstance(reply, str) else "")


def _client(limit_s: float, clock: Clock) -> httpx.Client:
    """Make a client that asks the line itself: a proxy of the environment knows nothing of a private address."""
    return httpx.Client(timeout=max(_LEAST_S, clock.real_s(limit_s)), trust_env=False)
