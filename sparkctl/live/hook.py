"""Hook: the owner's own command, called when work is done, failed or needs him, and when a lever has its verdict. I/O.

The event goes to its stdin as JSON, and in a few variables of its environment. It runs beside the work, one call after the other;
one that fails or hangs is ended and told of in one line, and changes nothing else.
"""

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sparkctl.live.event import Ended, Event, Judged, document

LIMIT_S = 10.0
"""How long one call may take, and how long the end of the work waits for calls that are under way. Ours: a mail takes seconds."""

_MOST_SAID = 200


def occasion(event: Event) -> str:
    """Return what a hook is called for: done, failed, needs-you, stopped or verdict; '' where it is not called."""
    match event.what:
        case Ended(outcome=outcome):
            return outcome
        case Judged():
            return "verdict"
        case _:
            return ""


@dataclass(slots=True, kw_only=True)
class Hook:
    """A command without a shell, and whom to tell when it fails."""

    argv: Sequence[str]
    warn: Callable[[str], None]
    limit_s: float = LIMIT_S
    _waiting: "queue.Queue[Event | None]" = field(default_factory=queue.Queue, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def tell(self, event: Event) -> None:
        """Have the hook called, if it is called for this event at all; returns at once."""
        if not occasion(event):
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="hook", daemon=True)
            self._thread.start()
        self._waiting.put(event)

    def close(self) -> None:
        """Wait for what is under way, within the limit."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(self.limit_s + 1)
        if self._thread.is_alive():
            self.warn(f"hook {self.argv[0]}: calls were left out, since earlier ones took too long")

    def _serve(self) -> None:
        while event := self._waiting.get():
            if fault := call(self.argv, event, limit_s=self.limit_s):
                self.warn(f"hook {self.argv[0]} ({occasion(event)}): {fault}")


def call(argv: Sequence[str], event: Event, *, limit_s: float) -> str:
    """Call a hook once, and say what went wrong in one line; '' when it ended with 0."""
    try:
        started = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | environment(event),
            start_new_session=True,
        )
    except OSError as fault:
        return f"cannot be started: {fault.strerror}"
    try:
        _, said = started.communicate(json.dumps(document(event)).encode() + b"\n", timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(started)
        return f"did not end within {limit_s:g} s and was ended"
    except OSError as fault:
        _end(started)
        return f"broke off: {fault.strerror}"
    if started.returncode == 0:
        return ""
    words = " ".join(said.decode("utf-8", "replace").split())[:_MOST_SAID]
    return f"exit {started.returncode}{f': {words}' if words else ''}"


def environment(event: Event) -> dict[str, str]:
    """Return what a hook finds in its environment, so that a one-line script needs no JSON."""
    what = event.what
    why = what.why if isinstance(what, Ended | Judged) else ""
    return {
        "SPARKCTL_EVENT": occasion(event),
        "SPARKCTL_LINE": event.line,
        "SPARKCTL_RUN": event.run,
        "SPARKCTL_WHY": why,
        "SPARKCTL_HINT": what.hint if isinstance(what, Ended) else "",
        "SPARKCTL_LEVER": what.lever if isinstance(what, Judged) else "",
        "SPARKCTL_VERDICT": what.verdict if isinstance(what, Judged) else "",
    }


def parse(text: str) -> tuple[str, ...]:
    """Read a command as a shell would split it.

    Raises:
        ValueError: a quote is not closed, or there is no command.

    """
    argv = tuple(shlex.split(text))
    if not argv:
        raise ValueError("no command")
    return argv


def _end(started: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    for stream in (started.stdin, started.stderr):
        if stream:
            with suppress(OSError):
                stream.close()
