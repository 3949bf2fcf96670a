"""Roster: which request has which account, and which rows of a step are whose. Pure; what vLLM schedules goes in as values.

An account belongs to a request from its first step to its last, also while it is preempted: what it owes is not forgiven by being pushed
out. A slot that is free again is given to the next request, whose account begins at nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Slots of the requests that are known. A request that finds every slot taken has none, and is read whole."""

    capacity: int
    slots: Mapping[str, int] = field(default_factory=dict)

    @property
    def nobody(self) -> int:
        """The slot after the last: of requests without an account, whose rows are always read whole."""
        return self.capacity

    def slot(self, request: str) -> int:
        """Return the slot of a request."""
        return self.slots.get(request, self.nobody)


def left(roster: Roster, finished: Iterable[str]) -> tuple[Roster, tuple[int, ...]]:
    """Return the roster without the requests that ended, however they did, and the slots that are free now."""
    gone = {one for one in finished if one in roster.slots}
    freed = tuple(sorted(roster.slots[one] for one in gone))
    kept = {name: slot for name, slot in roster.slots.items() if name not in gone}
    return replace(roster, slots=kept), freed


def joined(roster: Roster, request: str) -> tuple[Roster, int | None]:
    """Return the roster with a request, and the slot that it was given now: None where it has one already, or none is free."""
    if request in roster.slots:
        return roster, None
    taken = set(roster.slots.values())
    slot = next((one for one in range(roster.capacity) if one not in taken), None)
    if slot is None:
        return roster, None
    return replace(roster, slots={**roster.slots, request: slot}), slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is scheduled of one request in a step: its rows, in order; all but the first are drafts."""

    request: str
    rows: int
    decoding: bool
    """It extends the reply by its last token and drafts after that, and nothing else."""


def decoding(*, scheduled: int, drafts: int, computed: int, prompt: int, known: int) -> bool:
    """Whether a request decodes: the last known token and its drafts are scheduled, and that token is not of the prompt.

    A prompt, or the tokens of a preempted request that are computed again, are not decoded, were it one token at a time.
    """
    return scheduled == 1 + drafts and computed + 1 == known and computed >= prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A step that is read by budget: by request, in the order of their rows, slot and first row; and how many rows there are."""

    requests: tuple[str, ...]
    slots: tuple[int, ...]
    starts: tuple[int, ...]
    rows: int

    def row_slots(self) -> tuple[int, ...]:
        """Return the slot of each row."""
        ends = (*self.starts[1:], self.rows)
        spans = zip(self.slots, self.starts, ends, strict=True)
        return tuple(slot for slot, start, end in spans for _ in range(end - start))


def batch(roster: Roster, work: Sequence[Work], most_rows: int) -> Batch | str:
    """Return the step as it is read by budget, or why it is read whole."""
    if not all(one.decoding for one in work):
        return "prefill"
    rows = sum(one.rows for one in work)
    if not 1 <= rows <= most_rows:
        return "rows"
    starts = [sum(one.rows for one in work[:place]) for place in range(len(work))]
    return Batch(
        requests=tuple(one.request for one in work),
        slots=tuple(roster.slot(one.request) for one in work),
        starts=tuple(starts),
        rows=rows,
    )
