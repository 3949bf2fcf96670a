"""What the ledger's tests share: a journal in a fresh folder, and rows of a climb as the command line writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.entry import Json, Kind, Row, chain
from ledger.journal import Journal


@dataclass
class Story:
    """Writes rows of one line one after the other, eleven minutes apart, without a file."""

    line: str = "A"
    simulated: bool = True
    rows: list[Row] = field(default_factory=list)
    boots: int = 0

    def add(self, kind: Kind, body: Mapping[str, Json]) -> Row:
        """Add any row."""
        minutes = 11 * len(self.rows)
        row = chain(
            self.rows[-1] if self.rows else None,
            kind=kind,
            line=self.line,
            body={"simulated": self.simulated, **body},
            at=f"2026-10-03T{minutes // 60:02d}:{minutes % 60:02d}:00Z",
        )
        self.rows.append(row)
        return row

    def plan(self, climb: str, levers: Sequence[str], **more: Json) -> Row:
        """Begin a climb."""
        digests: dict[str, Json] = dict.fromkeys(
            ("ladder_digest", "recipe_digest", "workload_digest"), "0" * 64
        )
        body: dict[str, Json] = {"climb": climb, "ladder": "quick", "recipe": "flash", "levers": levers}
        return self.add("plan", body | digests | more)

    def boot(self, climb: str | None, on: Sequence[str], *, why: str = "", void: bool = False) -> Row:
        """Boot; with `why` it failed, or a gate stopped it when that is `void`."""
        self.boots += 1
        body: dict[str, Json] = {
            "boot": f"b{self.boots}",
            "climb": climb,
            "on": on,
            "ok": not why,
            "why": why,
        }
        return self.add("boot", body | ({"void": True} if void else {}))

    def bench(self, climb: str | None, on: Sequence[str], value: float, *, voids: Sequence[str] = ()) -> Row:
        """Boot and measure one metric."""
        self.boot(climb, on)
        return self.figures(climb, on, value, voids=voids)

    def figures(
        self, climb: str | None, on: Sequence[str], value: float, *, voids: Sequence[str] = ()
    ) -> Row:
        """Measure one metric on the boot that is up."""
        metric: Json = {"name": "c1_per_stream_tok_s", "value": value, "unit": "tok/s", "n": 8}
        body: dict[str, Json] = {"boot": f"b{self.boots}", "climb": climb, "on": on}
        return self.add("bench", body | {"voids": voids, "metrics": [metric]})

    def verdict(self, climb: str, lever: str, verdict: str, *, low: float, high: float) -> Row:
        """Judge a lever."""
        effect: Json = {"c1_per_stream_tok_s": {"estimate": (low + high) / 2, "low": low, "high": high}}
        told: dict[str, Json] = {"boots": 3, "voids": 0, "seed_rule": "accept", "why": "as measured"}
        return self.add(
            "verdict", {"climb": climb, "lever": lever, "verdict": verdict, "metrics": effect} | told
        )

    def end(self, climb: str, stack: Sequence[str]) -> Row:
        """End a climb."""
        return self.add("note", {"climb": climb, "ended": True, "stack": stack, "why": "no lever is open"})


@pytest.fixture
def story() -> Story:
    """A practice line's story that has not begun."""
    return Story()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal whose folder does not exist yet."""
    return Journal(tmp_path / "state" / "ledger.jsonl", wait_s=5.0)
