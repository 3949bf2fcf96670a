"""Rows back to climbs: what `tune --resume` goes on with, and what the tables are made of.

A climb begins with its plan row. It ends with a note row that says `ended`, written when the ladder has no step left
(or its base failed); a climb stopped by a budget, a signal or a crash has no such row and stays open. Only the last
climb of a line can be resumed; if it has ended, there is nothing left to boot. A boot that failed is a trial by itself;
one that came up becomes a trial with its bench row, and without one (the tuner died in between) it is no trial: the
boot is done again. A boot row marked `void` (a gate stopped it) is no trial either: it says nothing of any lever.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ledger import absences, bodies, conclusions
from ledger.entry import Body, Row
from ledger.fields import get, mapping, texts
from ledger.quality import is_run, judged, quality
from ledger.retractions import live
from tuner.predicted import KV_TOKENS
from tuner.steps import Event, Trial
from tuner.verdict import Verdict

Line: TypeAlias = tuple[str, bool]
"""A line's name, and whether it is a practice line."""

Asked: TypeAlias = dict[str, str]
"""By quality battery what its last run of a configuration amounts to."""

Batteries: TypeAlias = Mapping[str, tuple[str, ...]]
"""By lever the batteries that it has to pass."""

Key: TypeAlias = tuple[str, bool, str | None]
"""A line and the id of a climb on it; None for rows outside any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What one boot logged of its KV cache: the levers on, and the tokens that the rank with the fewest takes."""

    on: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """One climb of a line: its plan, its finished boots in order, the last verdict on each lever, and its end if any.

    `caches` are those of its boots that came up and whose logs told.
    """

    line: str
    simulated: bool
    began: str
    last: str
    plan: bodies.Plan
    trials: tuple[Trial, ...]
    caches: tuple[Cache, ...]
    verdicts: tuple[conclusions.Verdict, ...]
    ended: conclusions.Ended | None

    @property
    def id(self) -> str:
        """The climb's id, which its rows carry."""
        return self.plan.climb

    @property
    def stack(self) -> tuple[str, ...]:
        """The levers kept: as the end says, or those accepted so far, in the order of their verdicts."""
        if self.ended:
            return self.ended.stack
        return tuple(one.lever for one in self.verdicts if one.verdict == "accept")


def last_climb(rows: Sequence[Row], line: str, *, simulated: bool) -> Climb | None:
    """Return the line's last climb, ended or open, as the state to resume from; practice and real lines apart."""
    return next(newest(rows).get((line, simulated), iter(())), None)


def newest(rows: Sequence[Row]) -> Mapping[Line, Iterator[Climb]]:
    """Return the climbs of each line, the last one first, each made when it is asked for: most ask for one of hundreds."""
    plans, make = _plans(rows)
    of: dict[Line, list[Row]] = {}
    for row in reversed(plans):
        of.setdefault((row.line, bodies.is_simulated(row.body)), []).append(row)
    return {line: map(make, own) for line, own in of.items()}


def climbs(rows: Sequence[Row]) -> tuple[Climb, ...]:
    """Return every climb in the order of their plans; retracted rows are left out."""
    plans, make = _plans(rows)
    return tuple(map(make, plans))


def events(rows: Sequence[Row], climb: str, *, simulated: bool) -> tuple[Event, ...]:
    """Return what happened in a climb over several lines, in the order of the record: its boots, and lines that left or came back."""
    counted = live(rows)
    qualities = _qualities(counted)
    found: list[tuple[int, Event]] = []
    for first in (row for row in counted if row.kind == "plan" and row.body.get("climb") == climb):
        own = [row for row in counted if row.n >= first.n and _key(row) == _key(first)]
        if bodies.is_simulated(first.body) == simulated:
            trials = _numbered(
                own, qualities.get((first.line, simulated), {}), bodies.plan(first.body).batteries
            )
            found += [(n, replace(trial, line=first.line)) for n, trial in trials]
            notes = ((row.n, absences.read(row.line, row.body)) for row in own if row.kind == "note")
            found += [(n, note) for n, note in notes if note]
    return tuple(event for _, event in sorted(found, key=lambda one: one[0]))


def told(climb: Climb, replayed: Sequence[Verdict]) -> int:
    """Return how many of the replayed verdicts are on record; from there on they are to be noted (again).

    Usually all that were given before the interrupt; fewer when a row was retracted since and a replay decides anew.
    """
    recorded = {one.lever: one.verdict for one in climb.verdicts}
    same = [recorded.get(one.lever) == one.verdict for one in replayed]
    return same.index(False) if False in same else len(same)


def _plans(rows: Sequence[Row]) -> tuple[tuple[Row, ...], Callable[[Row], Climb]]:
    """Return the plan rows that count, and what makes a climb of one."""
    counted = live(rows)
    own: dict[Key, list[Row]] = {}
    for row in counted:
        if "climb" in row.body:
            own.setdefault(_key(row), []).append(row)
    qualities = _qualities(counted)
    plans = tuple(row for row in counted if row.kind == "plan")
    return plans, lambda first: _climb(first, own[_key(first)], qualities)


def _climb(first: Row, rows: Sequence[Row], qualities: Mapping[Line, Mapping[str, Asked]]) -> Climb:
    plan = bodies.plan(first.body)
    line = (first.line, bodies.is_simulated(first.body))
    own = [row for row in rows if row.n >= first.n]
    ends = [end for end in (conclusions.note(row.body) for row in own if row.kind == "note") if end]
    return Climb(
        line=first.line,
        simulated=line[1],
        began=first.at,
        last=own[-1].at,
        plan=plan,
        trials=_trials(own, qualities.get(line, {}), plan.batteries),
        caches=_caches(own),
        verdicts=_verdicts(own),
        ended=ends[-1] if ends else None,
    )


def _key(row: Row) -> Key:
    climb = row.body.get("climb")
    return row.line, bodies.is_simulated(row.body), climb if isinstance(climb, str) else None


def _caches(rows: Sequence[Row]) -> tuple[Cache, ...]:
    up = [(bodies.boot(row.body), _tokens(row.body)) for row in rows if row.kind == "boot"]
    return tuple(Cache(on=boot.on, tokens=min(told)) for boot, told in up if boot.ok and told)


def _tokens(body: Body) -> tuple[int, ...]:
    """Return the tokens of the KV cache that each rank logged, as `launcher.evidence` reads them: `2,561,073`."""
    ranks = get(body, "evidence", mapping) if "evidence" in body else {}
    told = (
        get(get(ranks, rank, mapping), KV_TOKENS, texts)
        for rank in ranks
        if KV_TOKENS in get(ranks, rank, mapping)
    )
    return tuple(int(one.replace(",", "")) for rank in told for one in rank)


def _verdicts(rows: Sequence[Row]) -> tuple[conclusions.Verdict, ...]:
    """Return the last verdict on each lever, in the order in which these were given."""
    last: dict[str, conclusions.Verdict] = {}
    for verdict in (conclusions.verdict(row.body) for row in rows if row.kind == "verdict"):
        last.pop(verdict.lever, None)
        last[verdict.lever] = verdict
    return tuple(last.values())


def _qualities(rows: Sequence[Row]) -> Mapping[Line, Mapping[str, Asked]]:
    """Return by line, by the recipe's digest and by battery what the last quality run amounts to, the last one last."""
    told: dict[Line, dict[str, dict[str, str]]] = {}
    for row in rows:
        if row.kind == "quality" and is_run(row.body):
            one = quality(row.body)
            digest = one.fingerprint.recipe_digest
            if digest and (verdict := judged(row.body)):
                line = (row.line, bodies.is_simulated(row.body))
                of = told.setdefault(line, {}).setdefault(digest, {})
                of.pop(one.battery, None)
                of[one.battery] = verdict
    return told


def _quality(asked: Asked, needed: Sequence[str]) -> str:
    """Return what quality runs say of a configuration whose levers need these batteries, or the last of any where they need none.

    One that fails is enough; one that was not asked leaves it open.
    """
    if not needed:
        return next(reversed(asked.values()), "")
    found = [asked.get(battery, "") for battery in needed]
    if "fails" in asked.values():
        return "fails"
    return "" if "" in found else next((one for one in found if one != "passes"), "passes")


def _trials(rows: Sequence[Row], qualities: Mapping[str, Asked], batteries: Batteries) -> tuple[Trial, ...]:
    return tuple(trial for _, trial in _numbered(rows, qualities, batteries))


def _numbered(
    rows: Sequence[Row], qualities: Mapping[str, Asked], batteries: Batteries
) -> tuple[tuple[int, Trial], ...]:
    """Return one trial a boot, in the order in which the boots were finished; a later bench of a boot replaces an earlier.

    With it stands the row that finished it.
    """
    up: dict[str, bodies.Boot] = {}
    of: dict[str, str] = {}
    trials: dict[str, Trial] = {}
    finished: dict[str, int] = {}
    for row in rows:
        if row.kind == "boot":
            boot = bodies.boot(row.body)
            up[boot.boot] = boot
            needed = [one for lever in boot.on for one in batteries.get(lever, ())]
            of[boot.boot] = _quality(qualities.get(str(row.body.get("recipe_digest", "")), {}), needed)
            if not boot.ok and not boot.void:
                trials[boot.boot] = Trial(boot=boot.boot, arm=boot.on, outcome="failed", why=boot.why)
                finished.setdefault(boot.boot, row.n)
        elif row.kind == "bench":
            bench = bodies.bench(row.body)
            if bench.boot in up and up[bench.boot].ok:
                trials[bench.boot] = _measured(bench)
                finished.setdefault(bench.boot, row.n)
    return tuple(
        (finished[trial.boot], replace(trial, quality=of.get(trial.boot) or trial.quality))
        for trial in trials.values()
    )


def _measured(bench: bodies.Bench) -> Trial:
    return Trial(
        boot=bench.boot,
        arm=bench.on,
        outcome="void" if bench.voids else "measured",
        why="; ".join(bench.voids),
        metrics=bench.metrics,
        quality=bench.quality,
    )
