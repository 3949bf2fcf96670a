"""Settings: every variable of the environment that the features heed, read here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl_vllm.engram import folder
from sparkctl_vllm.engram.folder import Folder
from sparkctl_vllm.refusal import demand

PLAN = "SPARKCTL_BUDGET_PLAN"
POLICY = "SPARKCTL_BUDGET_POLICY"
FIGURES = "SPARKCTL_BUDGET_FIGURES"
EXL3 = "SPARKCTL_EXL3_EXPERTS"

WATER_FILLED = "water-filled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an owner asked for."""

    plan: Path | None = None
    """The plan file of budget reads, without its suffix or with it; None leaves every expert read whole."""
    policy: str = WATER_FILLED
    """How depths are chosen."""
    rows: Folder | None = None
    """Where this rank's Engram rows lie, and how many stay in memory; None leaves the tables to vLLM."""
    figures: Path | None = None
    """The file by which rank 0 hands its counters to /metrics; the API's process names one where nobody did."""
    exl3: bool = False
    """Whether EXL3 experts are served by this plug-in; else by whoever has the name `exl3` in vLLM, cuda-exl3 as a rule."""


def read(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an environment holds; an empty variable is one that is not there."""
    found = {name: value for name in (PLAN, POLICY, FIGURES, EXL3) if (value := environment.get(name, ""))}
    asked = found.get(EXL3, "0")
    demand(asked in {"0", "1"}, EXL3, repr(asked), "1, or 0 as if it were not there")
    return Settings(
        plan=Path(found[PLAN]) if PLAN in found else None,
        policy=found.get(POLICY, WATER_FILLED),
        rows=folder.asked(environment),
        figures=Path(found[FIGURES]) if FIGURES in found else None,
        exl3=asked == "1",
    )
