"""Simulates ladders of known levers and says how the factorial climb judges them: errors, power, boots, hours, regret.

    python benchmarks/tuner_study.py --ladders 60 --null-ladders 60 --json
    python benchmarks/tuner_study.py --ladders 2000 --null-ladders 2000 --resume rows.jsonl --shard 1/4
    python benchmarks/tuner_study.py --ladders 400 --rivals --plots FOLDER
    python benchmarks/tuner_study.py --ladders 400 --null-ladders 400 --lines unlike

Everything is a simulation on the line of study_line.yml; nothing was measured. Seeds `design` are those the method was tuned
on, `result` (the default) those of the published figures. A shard does every Nth ladder; with --resume each ladder is kept
as a line of FILE, those there are not done again, and the figures are of all of FILE. --rivals adds other rules on the same
lines. --lines has two lines climb together instead, alike or not, beside each of them alone with as many runs. Prints tables, or one JSON
document.
"""

import argparse
import json
import os
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Matrices of 60 x 13: threads cost more than they bring. Before numpy is loaded.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

import study_figures as figures  # noqa: E402
import study_line  # noqa: E402
import study_lines  # noqa: E402
import study_rivals  # noqa: E402
from study_figures import Row  # noqa: E402
from study_lines import KINDS, LinesStudy  # noqa: E402
from tuner.factorial import replay  # noqa: E402
from tuner.factorial.plan import Plan, plan  # noqa: E402
from tuner.steps import Boot  # noqa: E402

if TYPE_CHECKING:
    from tuner.lever import Ladder

OWN = "factorial"
ERROR = 0.032
"""The ladder's error that the method is run at. Chosen on the design seeds: sizes and futility leave part of it unspent."""

SEEDS = {"design": 1_000, "result": 20_261_130}


class Study:
    """One regime: draws ladders, and has them climbed."""

    def __init__(self, model: study_line.Model, regime: str, seed: int, arming: str) -> None:
        """Plan for the regime's noise, as a calibration would tell it."""
        self.model, self.regime, self.seed = model, regime, seed
        self.ladder: Ladder = model.ladder(ERROR)
        self.plan: Plan = plan(self.ladder, model.noise(regime), arming=arming)
        self.rivals = study_rivals.of(regime)
        self.name = f"{seed} {model.extension.about}, {arming}, {ERROR}, {self.plan.most} runs"

    def row(self, method: str, kind: study_line.Kind, at: int) -> Row:
        """Climb one ladder by one method; the ladder depends on seed, kind and number alone, never on the method."""
        truth = study_line.draw_truth(
            self.model, kind, np.random.default_rng((self.seed, KINDS.index(kind), at))
        )
        random = np.random.default_rng((self.seed, KINDS.index(kind), at, 1))
        line = study_line.Line(self.model, self.regime, truth, random)
        if method == OWN:
            accepted, boots, more = self._climb(line, at)
        else:
            bench = study_rivals.Bench(line)
            own = np.random.default_rng((self.seed, KINDS.index(kind), at, zlib.crc32(method.encode())))
            accepted, more = self.rivals[method](bench, own), {}
            boots = line.boots
        gains = np.array(truth.gains)
        return {
            "study": self.name,
            "method": method,
            "regime": self.regime,
            "kind": kind,
            "at": at,
            "boots": boots,
            "wrong": bool((accepted & (gains == 0)).any()),
            "costly": bool((accepted & np.array(truth.costly)).any()),
            "good": [
                (gain, where, bool(on))
                for gain, where, costly, on in zip(gains, truth.where, truth.costly, accepted, strict=True)
                if gain and not costly
            ],
            "regret": 100 * (truth.best - truth.value(accepted)),
            **more,
        }

    def _climb(self, line: study_line.Line, seed: int) -> tuple[study_rivals.Mask, int, dict[str, object]]:
        """Climb until every lever is decided; what the confirmation would take is counted apart and not booted."""
        now = replay.start(self.ladder, self.plan, seed)
        while now.phase in {"arming", "blocks"} and isinstance(step := replay.ahead(now), Boot):
            now = replay.advance(now, line.boot(step.on))
        accepted = np.array([lever.id in now.stack for lever in self.ladder.levers])
        return accepted, len(now.trials), {"confirming": len(now.queue) if now.phase == "confirming" else 0}


def main() -> None:
    """Run the study and print it."""
    chosen = _arguments()
    begin = time.perf_counter()
    model = study_line.read(chosen.extension)
    seed = SEEDS[chosen.seeds]
    shown: dict[str, object] = {
        "simulated": True,
        "seeds": {chosen.seeds: seed},
        "shard": chosen.shard,
        "extension": chosen.extension or None,
        "error": ERROR,
        "regimes": {},
    }
    known = list(_read(chosen.resume))
    for study in _studies(model, seed, chosen):
        regime, first = study.regime, study_lines.OWN if chosen.lines else OWN
        own = [row for row in known if row["regime"] == regime]
        if strange := next((row["study"] for row in own if row["study"] != study.name), None):
            print(
                f"{chosen.resume} holds rows of another study: {strange}; wanted {study.name}",
                file=sys.stderr,
            )
            sys.exit(2)
        rows = own + list(_rows(study, chosen, own))
        methods = {
            name: figures.summarise(found, model.boot_minutes)
            for name in (first, *study.rivals)
            if (found := [row for row in rows if row["method"] == name])
        }
        rated = len(methods) > 1 and not chosen.lines
        ratio = figures.pairs_at_equal_power(methods, methods[first]) if rated else None
        answer = {
            "plan": {"first": study.plan.first, "step": study.plan.step, "most": study.plan.most},
            "bars": figures.against_bars(regime, methods[first], ratio) if regime in figures.BARS else {},
            "methods": methods,
        }
        if chosen.plots:
            answer["plots"] = figures.plot(regime, methods, chosen.plots)
        shown["regimes"][regime] = answer  # type: ignore[index]
    shown["seconds"] = round(time.perf_counter() - begin, 1)
    print(json.dumps(shown, indent=2) if chosen.json else _table(shown))


def _studies(model: study_line.Model, seed: int, chosen: argparse.Namespace) -> Iterator[Study | LinesStudy]:
    if chosen.lines:
        yield LinesStudy(model, seed, ERROR, chosen.lines)
        return
    for regime in (chosen.regime,) if chosen.regime else tuple(model.regimes):
        yield Study(model, regime, seed, chosen.arming)


def _rows(study: Study | LinesStudy, chosen: argparse.Namespace, known: list[Row]) -> Iterator[Row]:
    """Climb what is not known yet, and keep each row at once."""
    done = {(row["method"], row["regime"], row["kind"], row["at"]) for row in known}
    part, parts = chosen.shard
    first = study_lines.OWN if chosen.lines else OWN
    methods = (first, *(study.rivals if chosen.rivals or chosen.lines else ()))
    for kind, count in zip(KINDS, (chosen.ladders, chosen.null_ladders), strict=True):
        for at in range(part - 1, count, parts):
            for method in methods:
                if (method, study.regime, kind, at) not in done:
                    row = study.row(method, kind, at)
                    if chosen.resume:
                        with chosen.resume.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(row) + "\n")
                    yield row


def _read(path: Path | None) -> Iterator[Row]:
    """Read the rows that are kept; a last line that was broken off is done again."""
    if path is None or not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _table(shown: dict[str, object]) -> str:
    lines = ["Simulation; 95 % intervals in brackets."]
    for regime, answer in shown["regimes"].items():  # type: ignore[attr-defined]
        lines.append(f"\n{regime}: at most {answer['plan']['most']} runs of blocks")
        lines += [
            f"  {name:12} bar {one['bar']:<6} reached {one['reached']}"
            + ("" if one["met"] is None else "  met" if one["met"] else "  MISSED")
            for name, one in answer["bars"].items()
        ]
        for method, found in answer["methods"].items():
            wrong, boots, regret = found["wrong_mixed"], found["boots"], found["regret"]
            powers = "/".join(f"{found['power'][f'all +{size}']['percent']:.0f}" for size in (3, 4, 6, 9))
            lines.append(
                f"  {method:38} wrong {wrong['percent']} % [{wrong['low']}, {wrong['high']}]"
                f"  power {powers}  boots {boots['mean']} (p90 {boots['p90']:.0f})  regret {regret['mean']} %"
            )
    return "\n".join([*lines, f"\n{shown['seconds']} s"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ladders", type=int, default=60, help="mixed ladders")
    parser.add_argument("--null-ladders", type=int, default=0, help="ladders of useless levers")
    parser.add_argument("--regime", choices=("disciplined", "field"), help="one of the two; both by default")
    parser.add_argument(
        "--lines", choices=tuple(study_lines.PAIRS), help="two lines together, and each alone"
    )
    parser.add_argument("--rivals", action="store_true", help="other rules on the same lines")
    parser.add_argument("--seeds", choices=tuple(SEEDS), default="result")
    parser.add_argument("--arming", choices=("blocks", "alone"), default="blocks")
    parser.add_argument("--extension", choices=tuple(study_line.read().extensions), default="")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="rows kept as JSON lines")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="needs matplotlib")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.plots and not chosen.plots.is_dir():
        parser.error(f"--plots {chosen.plots} is no folder")
    if chosen.lines and (chosen.regime or chosen.rivals or chosen.plots):
        parser.error("--lines names its regimes itself, and takes neither --rivals nor --plots")
    if chosen.ladders < 1 or chosen.null_ladders < 0:
        parser.error("wanted at least one ladder")
    return chosen


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text} is no shard, wanted I/N with 1 <= I <= N")
    return int(part), int(parts)


if __name__ == "__main__":
    sys.exit(main())
