"""Settings: every variable of the environment that the features heed, read here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PLAN = "SPARKCTL_BUDGET_PLAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an owner asked for."""

    plan: Path | None = None
    """The plan file of budget reads, without its suffix or with it; None leaves every expert read whole."""


def read(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an environment holds."""
    plan = environment.get(PLAN, "")
    return Settings(plan=Path(plan) if plan else None)
