"""Track: what the guard knows of one node, line by line of its /proc/meminfo: samples, lowest, whether anything moves. No I/O.

Times come in as arguments: `at_s` in monotonic seconds of ours, `line_s` in the line's.
"""

from collections import deque
from dataclasses import dataclass, field

from launcher import watermark
from launcher.watermark import Ask, Limits, Sample


@dataclass(slots=True, kw_only=True)
class Track:
    """One node; `began_s` is when it was first asked. `moved_s` is when its memory last showed work, in the line's seconds.

    `is_flushing` holds while a flush is under way: it may take longer than the pause between two, and is not asked for again.
    """

    began_s: float
    samples: "deque[Sample]" = field(default_factory=lambda: deque(maxlen=watermark.KEPT))
    lowest: int | None = None
    moved_s: float | None = None
    flushes: int = 0
    may_flush: bool = True
    is_flushing: bool = False
    is_warned: bool = False
    said: str = ""
    """Its last line when that did not lead to a sample."""
    _rows: dict[str, int] = field(default_factory=dict)
    _reference: Sample | None = None
    _flushed_s: float | None = None

    def silent_s(self, now_s: float) -> float:
        """Return for how many seconds no sample has come."""
        return now_s - (self.samples[-1].at_s if self.samples else self.began_s)

    def take(self, line: str, at_s: float, line_s: float, limits: Limits) -> Ask:
        """Take one line; when it completes a sample, say what that asks for."""
        self.said = line
        row = watermark.row(line)
        if row is None:
            return "nothing"
        if row[0] == "MemTotal":
            self._rows = {}
        self._rows[row[0]] = row[1]
        now = watermark.sample(self._rows, at_s)
        if now is None:
            return "nothing"
        self._rows = {}
        self._keep(now, line_s)
        ask = watermark.judge(now, limits, self._flushed_s)
        if ask != "flush":
            return ask
        if not self.may_flush or self.is_flushing:
            return "nothing"
        self.is_flushing, self._reference = True, None
        return "flush"

    def flushed(self, at_s: float, *, done: bool) -> None:
        """Take the end of a flush; the next one may come a pause later, since a slow node needs it most."""
        self.is_flushing, self._flushed_s, self._reference = False, at_s, None
        self.flushes += done

    def _keep(self, now: Sample, line_s: float) -> None:
        self.samples.append(now)
        self.said, self.is_warned = "", False
        self.lowest = now.available if self.lowest is None else min(self.lowest, now.available)
        if self.is_flushing and self._reference is not None and now.free > self._reference.free:
            # What a flush gives back is our doing and no sign of work; what is taken meanwhile is.
            self._reference = None
        moved = self._reference is not None and watermark.has_moved(self._reference, now)
        if moved or self.moved_s is None:
            self.moved_s = line_s
        is_old = self._reference is None or now.at_s - self._reference.at_s >= watermark.MOVED_S
        if moved or is_old:
            self._reference = now
