"""Wire: what all requests of a quality run share: time limit, run tag, and the tokens that were charged for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkctl.clock import Clock
from tuner.client import Connection
from tuner.quality import answers

CHAT, PLAIN = "v1/chat/completions", "v1/completions"


@dataclass(slots=True, kw_only=True)
class Wire:
    """Sends one request at a time on a connection; `prompt` and `made` grow by what each reply's usage says."""

    clock: Clock
    limit_s: float
    body: Mapping[str, object]
    """Joins every chat request."""
    run_tag: str
    report: Callable[[str], None]
    prompt: int = 0
    made: int = 0

    async def chat(self, line: Connection, body: Mapping[str, object]) -> tuple[object, str]:
        """Ask a chat completion; return its JSON and '', or None and what went wrong."""
        return await self._post(line, CHAT, {"temperature": 0, **self.body, **body})

    async def complete(self, line: Connection, body: Mapping[str, object]) -> tuple[object, str]:
        """Ask a plain completion of one token."""
        return await self._post(line, PLAIN, {"max_tokens": 1, "temperature": 0, **body})

    async def _post(self, line: Connection, path: str, body: Mapping[str, object]) -> tuple[object, str]:
        answer, fault = await line.post(path, body, self.clock, self.limit_s)
        prompt, made = answers.usage(answer)
        self.prompt += prompt or 0
        self.made += made or 0
        return answer, fault
