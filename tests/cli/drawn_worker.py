"""A worker of a climb whose boots are drawn instead of booted: it writes the rows that a real one writes, in a process of its own."""

import hashlib
import math
import random
import time
from dataclasses import dataclass
from typing import Any

from launcher import plan as plans
from ledger import record
from sparkctl.cli.measurer import Measurer
from sparkctl.live.event import Booted, Booting
from tuner.climb import Climb
from tuner.metrics import Metric
from tuner.steps import Boot, Trial, name_of

BASE = {
    "A": {"c1_per_stream_tok_s": 57.0, "c6_agg_tok_s": 178.0, "prefill_47k_tok_s": 1400.0},
    "B": {"c1_per_stream_tok_s": 63.0, "c6_agg_tok_s": 190.0, "prefill_47k_tok_s": 1500.0},
}
NOISE = {"A": 0.01, "B": 0.015}
GAINS = {"nccl-channels": 1.08, "async-scheduling": 1.09}
BREAKS = "b12x-mxfp8"


@dataclass(slots=True, kw_only=True)
class DrawnWorker(Measurer):
    """Boots in a hundredth of a second, or in as many as a file `slow` in the state folder says.

    A file `off-B` takes line B's nodes away from the boot on whose number is in it.
    """

    def _try(self, step: Boot) -> tuple[plans.Boot, Trial | None]:
        """Draw a boot from its line, its levers and its number there."""
        line, state = self.served.line.name, self.session.state
        off = state / f"off-{line}"
        if off.exists() and step.number >= int(off.read_text(encoding="utf-8")):
            why, node = "the node did not answer in 30 s", f"spark-{line.lower()}2"
            return self._ended(
                stage="check", why=why, node=node, hint="look at its cable", unclear=True
            ), None
        trial = _drawn(line, step, self.session.new_id(f"boot-{line}"))
        self.teller.tell(Booting(boot=trial.boot, number=step.number, on=step.on, reason=step.reason))
        slow = state / "slow"
        time.sleep(float(slow.read_text(encoding="utf-8")) if slow.exists() else 0.01)
        self._boot(trial)
        if trial.outcome != "failed":
            body = record.bench(trial, None, climb=self.climb, simulated=self.session.simulated)
            self._append("bench", body)
        self.teller.tell(
            Booted(boot=trial.boot, number=step.number, on=step.on, outcome=trial.outcome, seconds=600.0)
        )
        return self._ended(stage="ready", why=trial.why), trial

    def _ended(self, **how: Any) -> plans.Boot:
        return plans.Boot(boot="", line=self.served.line.name, findings=(), seconds=600.0, **how)

    def serve(self, ended: Climb) -> None:
        """Keep in a file what would serve."""
        path = self.session.state / f"serves-{self.served.line.name}"
        path.write_text(name_of(ended.stack), encoding="utf-8")

    def _boot(self, trial: Trial) -> None:
        body = record.boot(
            boot=trial.boot,
            climb=self.climb,
            on=trial.arm,
            why=trial.why,
            simulated=self.session.simulated,
            recipe_digest="",
            seconds=600.0,
            findings=(),
        )
        self._append("boot", body)


def _drawn(line: str, step: Boot, boot: str) -> Trial:
    if BREAKS in step.on:
        return Trial(boot=boot, arm=step.on, outcome="failed", why="corrupt text")
    seed = hashlib.sha256(f"{line}/{step.on}/{step.number}".encode()).digest()
    drawn = random.Random(seed)  # noqa: S311 - noise, not a secret
    gain = math.prod(GAINS.get(lever, 1.0) for lever in step.on)
    metrics = tuple(
        Metric(name=name, value=level * gain * math.exp(drawn.gauss(0, NOISE[line])), unit="tok/s", n=1)
        for name, level in BASE[line].items()
    )
    return Trial(boot=boot, arm=step.on, outcome="measured", metrics=metrics)
