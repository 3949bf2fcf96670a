"""API: what launch and status ask of a served line: is it up, does it want a key, what does it serve and answer. I/O."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from bootcheck import redact
from launcher import smoke
from launcher.smoke import Smoke, Smoked
from sparkctl import key
from sparkctl.clock import Clock
from sparkctl.line import Line

# In the line's seconds; never less than a client on this machine may need.
_LOOK_S = 10.0
_REPLY_S = 120.0
_LEAST_S = 2.0


_LOCKED = (401, 403)
_SHOWN = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the API said: the status of /health (None: no answer), whether it wants a key, and what it lists.

    An API that answers 401 is up: whoever waits for 200 without a key waits for ever
    (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark PR#64). vLLM's own key guards /v1 only, a proxy's may guard /health too.
    """

    health: int | None
    is_locked: bool = False
    had_key: bool = False
    """Whether it was asked with a key: a locked API then refuses this one."""
    serves: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether anything answers at all."""
        return self.health is not None


def look(line: Line, clock: Clock) -> Seen:
    """Ask /health, and what is served if that is 200: it stays 200 when a worker is dead, so it is never enough by itself."""
    health = _get(line, "/health", clock)
    if health is None:
        return Seen(health=None)
    if health.status_code != httpx.codes.OK:
        is_locked = health.status_code in _LOCKED
        return Seen(health=health.status_code, is_locked=is_locked, had_key=bool(line.api_key_file))
    models = _get(line, "/v1/models", clock)
    is_locked = models is not None and models.status_code in _LOCKED
    return Seen(
        health=health.status_code,
        is_locked=is_locked,
        had_key=bool(line.api_key_file),
        serves=_names(models),
    )


def metrics_text(line: Line, clock: Clock) -> str | None:
    """Return the page of counters in Prometheus' text format; None when the API does not give it."""
    answer = _get(line, "/metrics", clock)
    return answer.text if answer is not None and answer.status_code == httpx.codes.OK else None


def _get(line: Line, path: str, clock: Clock) -> httpx.Response | None:
    try:
        with _client(line, _LOOK_S, clock) as client:
            return client.get(f"{line.url}{path}")
    except (httpx.HTTPError, httpx.InvalidURL):
        return None


def _names(answer: httpx.Response | None) -> tuple[str, ...]:
    if answer is None:
        return ()
    try:
        return tuple(str(model["id"]) for model in answer.json()["data"])
    except (ValueError, KeyError, TypeError):
        return ()


def ask(line: Line, model: str, asked: Sequence[Smoke], clock: Clock) -> tuple[Smoked, ...]:
    """Ask smokes, all at once, and judge each reply; no usable reply is a fault of the smoke, with what came instead."""
    with (
        _client(line, _REPLY_S, clock) as client,
        ThreadPoolExecutor(max_workers=len(asked)) as pool,
    ):
        return tuple(pool.map(lambda one: _ask(client, f"{line.url}/v1/chat/completions", model, one), asked))


def _ask(client: httpx.Client, url: str, model: str, asked: Smoke) -> Smoked:
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": asked.prompt}],
        "max_tokens": asked.max_tokens,
        "temperature": 0,
    }
    if asked.tools:
        body |= {"tools": list(asked.tools), "tool_choice": "auto"}
    try:
        answer = client.post(url, json=body)
        if answer.status_code != 200:
            return Smoked(name=asked.name, fault=f"HTTP {answer.status_code}", reply=answer.text)
        message = answer.json()["choices"][0]["message"]
        reply = _call(message) if asked.tools else message["content"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as fault:
        return Smoked(name=asked.name, fault=f"no usable reply ({type(fault).__name__}: {fault})", reply="")
    return smoke.judge(asked, reply if isinstance(reply, str) else "")


def _call(message: Any) -> str:
    """Return the first tool call of a message as JSON; empty where there is none."""
    calls = message.get("tool_calls")
    if not calls:
        return ""
    called = calls[0]["function"]
    arguments = json.loads(called["arguments"])
    return json.dumps({"name": str(called["name"]), "arguments": dict(arguments)})


def complete(line: Line, model: str, clock: Clock, limit_s: float) -> str:
    """Ask for one token; return what was wrong with the answer, empty when a token came."""
    body = {"model": model, "prompt": "1 2 3", "max_tokens": 1, "temperature": 0}
    try:
        with _client(line, limit_s, clock) as client:
            answer = client.post(f"{line.url}/v1/completions", json=body)
        if answer.status_code != 200:
            return f"HTTP {answer.status_code}: {redact.text(' '.join(answer.text.split()))[:_SHOWN]}"
        tokens = answer.json()["usage"]["completion_tokens"]
    except httpx.TimeoutException:
        return f"no answer within {limit_s:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as fault:
        return f"no usable answer ({type(fault).__name__}: {fault})"
    return "" if tokens == 1 else f"wanted 1 token, the API counted {tokens}"


def _client(line: Line, limit_s: float, clock: Clock) -> httpx.Client:
    """Make a client that asks the line itself: a proxy of the environment knows nothing of a private address."""
    limit_s = max(_LEAST_S, clock.real_s(limit_s))
    limits = httpx.Limits(max_connections=None)
    return httpx.Client(
        timeout=limit_s, limits=limits, trust_env=False, headers=key.header(line.api_key_file)
    )
