"""Reply: decides, read by read, what of a streamed reply goes on to the client, what is held back, and where it is taken up anew.

Bytes in, a `Step` out: bytes to forward, alarms to tell, and perhaps a repair to try. Then whoever reads the stream says whether
that worked: `turn` when a second stream is there, `stay` when the first has to do. However the stream is cut into reads, the same
is forwarded.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from proxy import repair
from proxy.asked import Asked
from proxy.depth import Depths
from proxy.events import Framer, document, framed
from proxy.repair import Kept
from proxy.said import NOTHING, Said, hidden, read
from proxy.seam import Seam
from proxy.thresholds import Limits
from proxy.watch import Sign, Watch

Action = Literal["continue", "anew", "tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm and what is to be done: continue the reply, ask for it anew, or only tell, and then `why`.

    `at_tokens` is where it was raised; `kept_tokens` of the reply stay, `dropped_tokens` that nobody has seen are thrown away, and
    `late_tokens` behind the last clean point were sent already.
    """

    sign: Sign
    action: Action
    why: str
    at_tokens: int
    kept_tokens: int
    dropped_tokens: int
    late_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows from a read: bytes to forward, then alarms to tell, then the request of a repair to try."""

    forward: bytes = b""
    told: tuple[Alarm, ...] = ()
    alarm: Alarm | None = None
    repair: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    frame: bytes
    said: Said
    document: Mapping[str, object] | None


@dataclass(slots=True)
class _Sent:
    """What the client has of the reply."""

    thoughts: list[str] = field(default_factory=list)
    thought_key: str = ""
    texts: list[str] = field(default_factory=list)
    tokens: int = 0
    role: bool = False
    calls: bool = False
    finished: bool = False

    def add(self, said: Said) -> None:
        """Count in what is sent now."""
        self.thoughts += [said.thought] if said.thought else []
        self.thought_key = said.thought_key or self.thought_key
        self.texts += [said.text] if said.text else []
        self.tokens += said.tokens
        self.role = self.role or said.role
        self.calls = self.calls or said.calls
        self.finished = self.finished or said.finished

    def kept(self) -> Kept:
        """Return it as what a second stream takes up."""
        thought, text = "".join(self.thoughts), "".join(self.texts)
        return Kept(thought=thought, thought_key=self.thought_key, text=text, tokens=self.tokens)


@dataclass(slots=True, kw_only=True)
class Reply:
    """One reply under watch; `hold` tokens are held back, so that damage within them is never seen."""

    asked: Asked
    limits: Limits
    hold: int = 0
    mends: bool = True
    _framer: Framer = field(default_factory=Framer, init=False)
    _frames: deque[bytes] = field(default_factory=deque, init=False)
    _held: deque[_Held] = field(default_factory=deque, init=False)
    _held_tokens: int = field(default=0, init=False)
    _watch: Watch = field(init=False)
    _first: Mapping[str, object] | None = field(default=None, init=False)
    _sent: _Sent = field(default_factory=_Sent, init=False)
    _seam: Seam | None = field(default=None, init=False)
    _planned: Seam | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Begin to watch."""
        self._watch = Watch(limits=self.limits)

    @property
    def healthy(self) -> Depths | None:
        """The depths of what was fed, None where it loops (see `proxy.watch`)."""
        return self._watch.healthy

    def feed(self, data: bytes) -> Step:
        """Take the next read of the stream."""
        self._frames.extend(self._framer.feed(data))
        return self._go_on()

    def stay(self) -> Step:
        """Go on with the stream that is there, since no second one could be had."""
        self._planned = None
        self.mends = False
        return self._go_on()

    def turn(self) -> None:
        """Go on with the second stream, which is fed next; what was held back of the first is gone."""
        self._seam, self._planned = self._planned, None
        self._held.clear()
        self._held_tokens = 0
        self._frames.clear()
        self._framer, self._watch = Framer(), Watch(limits=self.limits)
        self._over = False

    def end(self) -> bytes:
        """Return what is still held when the stream has ended."""
        return self._released(0) + self._framer.rest

    def _go_on(self) -> Step:
        out: list[bytes] = []
        told: list[Alarm] = []
        while self._frames:
            held = self._took(self._frames.popleft())
            if held is None:
                continue
            sign = self._watch.feed(held.said)
            self._held.append(held)
            self._held_tokens += held.said.tokens
            if sign:
                out.append(self._clean(sign))
                action, why = self._decide()
                if action != "tell":
                    return self._repair(b"".join(out), tuple(told), sign, action)
                told.append(self._alarm(sign, action, why))
            self._over = self._over or held.said.finished
            out.append(self._released(0 if self._over else self.hold))
        return Step(forward=b"".join(out), told=tuple(told))

    def _took(self, frame: bytes) -> _Held | None:
        """Read a frame, and of a second stream make it the first's; None where the client must not see it."""
        told = document(frame)
        said = read(told) if told else NOTHING
        if told and self._first is None:
            self._first = told
        if told and self._seam:
            joined = self._seam.joined(told, said)
            return _Held(framed(joined), said, joined) if joined else None
        return _Held(frame, said, told)

    def _clean(self, sign: Sign) -> bytes:
        """Return what stands before the last clean point; the event that showed the sign never does."""
        at = self._watch.tokens - self._held_tokens
        out = []
        while len(self._held) > 1 and at + self._held[0].said.tokens <= sign.clean_tokens:
            at += self._held[0].said.tokens
            out.append(self._pass(self._held.popleft()))
        return b"".join(out)

    def _decide(self) -> tuple[Action, str]:
        """Return what can be done, when what was sent stands and all that is held is thrown away."""
        answered = bool(self._sent.texts)
        refusals = (
            (not self.mends, "nothing is repaired here"),
            (self._seam is not None, "it is read in full already"),
            (self.asked.full, "it was asked for full reads"),
            (self._sent.calls, "a tool call was sent already"),
            (self._sent.finished, "its end was sent already"),
            (answered and bool(self.asked.fixed), self.asked.fixed),
            (answered and not repair.room(self.asked, self._sent.tokens), "no token is left"),
        )
        why = next((why for refused, why in refusals if refused), "")
        if why:
            return "tell", why
        # Where nothing of the answer was seen the whole is asked again: new thoughts follow those that were seen.
        return ("continue" if answered else "anew"), ""

    def _repair(self, forward: bytes, told: tuple[Alarm, ...], sign: Sign, action: Action) -> Step:
        kept = self._sent.kept()
        self._planned = Seam(
            first=self._first or {},
            begun=self._sent.role,
            seen_tokens=kept.tokens,
            given_tokens=kept.tokens if action == "continue" else 0,
        )
        body = repair.continued(self.asked, kept) if action == "continue" else repair.anew(self.asked)
        return Step(forward=forward, told=told, alarm=self._alarm(sign, action, ""), repair=body)

    def _alarm(self, sign: Sign, action: Action, why: str) -> Alarm:
        return Alarm(
            sign=sign,
            action=action,
            why=why,
            at_tokens=self._watch.tokens,
            kept_tokens=self._sent.tokens,
            dropped_tokens=0 if action == "tell" else self._held_tokens,
            late_tokens=max(0, self._watch.tokens - self._held_tokens - sign.clean_tokens),
        )

    def _released(self, hold: int) -> bytes:
        """Return what need not be held any longer, so that at most `hold` tokens are."""
        out = []
        while self._held and self._held_tokens - self._held[0].said.tokens >= hold:
            out.append(self._pass(self._held.popleft()))
        return b"".join(out)

    def _pass(self, held: _Held) -> bytes:
        self._held_tokens -= held.said.tokens
        self._sent.add(held.said)
        bare = hidden(held.document) if self.asked.hides and held.document else None
        return framed(bare) if bare else held.frame
