"""Ground: what a quality run is judged against: the reference, the runs that make its floor, and whose boot is being asked."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger import retractions
from ledger.entry import Body, Row
from ledger.fields import mapping
from ledger.journal import Journal
from ledger.quality import Fingerprint, Quality, floor_of, quality, rows, same_configuration
from ledger.texts import Texts
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session
from sparkctl.errors import FileFault, Refused, UsageFault
from tuner.quality import logprobs
from tuner.quality.battery import Battery, digest
from tuner.quality.floor import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What scores are compared with: the hash of its own, where it was found, its fingerprint, and the scores."""

    hash: str
    source: str
    fingerprint: Fingerprint
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What is on record for a battery: its quality rows, and the store with their scores."""

    found: tuple[tuple[Row, Quality], ...]
    store: Texts
    digest: str

    def floor(self, reference: Reference) -> tuple[Run, ...]:
        """Return the runs that make the floor of a reference."""
        return tuple(self._run(one) for one in floor_of(self.found, reference.hash))

    def alike(self, reference: Reference, fingerprint: Fingerprint) -> tuple[Run, ...]:
        """Return earlier runs of the configuration in question, on other boots."""
        return tuple(self._run(one) for one in same_configuration(self.found, reference.hash, fingerprint))

    def reference(self, named: str | None, model: str) -> Reference | None:
        """Return the reference with this row number or in this file; without a name the newest of the model."""
        if named is None:
            own = [(row, one) for row, one in self.found if one.role == "reference" and one.model == model]
            return self._kept(*own[-1]) if own else None
        if named.isdigit():
            row = next(((row, one) for row, one in self.found if row.n == int(named)), None)
            if row is None or row[1].scores is None:
                numbers = ", ".join(str(row.n) for row, one in self.found if one.scores) or "none"
                raise UsageFault(
                    f"row {named} holds no scores of this battery; rows that do: {numbers}",
                    hint="sparkctl ledger list shows every row; --keep stores a reference",
                )
            return self._kept(*row)
        return _of_file(Path(named), self.digest)

    def demand_repeat(self, reference: Reference | None, asked: Fingerprint) -> None:
        """Refuse to take a run into the floor that would not show what a restart does.

        Raises:
            Refused: there is no reference, it is of another configuration, or this boot is part of the floor already.

        """
        if reference is None:
            raise Refused(
                "there is no reference yet whose floor this run could be part of",
                hint="run it once with --keep, restart the line, and then again with --floor",
            )
        ours, theirs = asked.recipe_digest, reference.fingerprint.recipe_digest
        if ours and theirs and ours != theirs:
            raise Refused(
                f"the reference ({reference.source}) is of another recipe ({theirs[:12]}) than this boot ({ours[:12]}): a floor is "
                "what one configuration shows by itself",
                hint="leave --floor out to judge this configuration, or keep a reference of its own with --keep",
            )
        known = {reference.run.boot, *(run.boot for run in self.floor(reference))}
        if asked.identity and asked.identity in known:
            raise Refused(
                f"this boot ({asked.identity}) is part of the floor already: only a restart shows what a restart does",
                hint="restart it (for a line: sparkctl down, then sparkctl boot) and run this again",
            )

    def _kept(self, row: Row, one: Quality) -> Reference:
        name = one.scores or ""
        return Reference(
            hash=name, source=f"row {row.n} of {row.at}", fingerprint=one.fingerprint, run=self._run(one)
        )

    def _run(self, one: Quality) -> Run:
        content = self.store.get(one.scores or "")
        return Run(
            boot=one.fingerprint.identity or one.quality, scored=_scored(content, str(self.store.folder))
        )


def ground(session: Session, battery: Battery) -> Ground:
    """Read what the ledger knows of a battery."""
    counted = retractions.live(read(session).rows)
    found = rows(counted, battery_digest=digest(battery), simulated=session.simulated)
    return Ground(found=found, store=Texts.beside(session.ledger_path), digest=digest(battery))


def fingerprint(session: Session, boot: str, url: str) -> Body:
    """Return what is known of the boot that is asked, for the row of a run; without a boot of ours only the address."""
    boots = [row.n for row in read(session).rows if row.kind == "boot" and row.body.get("boot") == boot]
    of_boot: Body = Journal(session.ledger_path).whole(boots[-1:])[0].body if boot and boots else {}
    return {
        "boot": boot,
        "url": "" if boot else url,
        "recipe_digest": str(of_boot.get("recipe_digest", "")),
        "on": of_boot.get("on", ()),
        "climb": of_boot.get("climb"),
        "evidence": of_boot.get("evidence") or {},
    }


def read_fingerprint(body: Body) -> Fingerprint:
    """Return what tells one boot from another."""
    known = {
        key: str(body.get(key, "")) for key in ("boot", "recipe_digest", "engine_version", "engine_started")
    }
    return Fingerprint(**known)


def document(body: Body, scores: bytes, replies: bytes) -> dict[str, Any]:
    """Return a run as the file that -o writes and --reference reads."""
    return {
        "schema": 1,
        "run": body,
        "scores": edge.parse_json(scores.decode(), source="scores") if scores else None,
        "replies": edge.parse_json(replies.decode(), source="replies"),
    }


def _of_file(path: Path, battery_digest: str) -> Reference:
    found: Any = edge.parse_json(edge.read_text(path), source=str(path))
    hint = "name a file that sparkctl quality -o FILE wrote, or the number of a row"
    try:
        one = quality(mapping(found["run"]))
        content = json.dumps(found["scores"], separators=(",", ":"), ensure_ascii=False).encode()
    except (KeyError, TypeError, ValueError) as fault:
        raise FileFault(f"{path}: not a quality run: {fault}", hint=hint) from fault
    if one.scores != hashlib.sha256(content).hexdigest():
        raise FileFault(f"{path}: the scores are not those that the run names", hint=hint)
    if one.battery_digest != battery_digest:
        raise FileFault(
            f"{path}: the run asked battery {one.battery} with the digest {one.battery_digest[:12]}, wanted {battery_digest[:12]}",
            hint="name the battery that the reference was asked with --battery",
        )
    return Reference(
        hash=one.scores,
        source=str(path),
        fingerprint=one.fingerprint,
        run=Run(boot=one.fingerprint.identity or one.quality, scored=_scored(content, str(path))),
    )


def _scored(content: bytes, source: str) -> tuple[logprobs.Scored, ...]:
    try:
        return logprobs.unpack(content)
    except ValueError as fault:
        raise FileFault(f"{source}: {fault}", hint="measure it anew with sparkctl quality --keep") from fault
