"""Experts: the sections of a recipe by which the plug-in reads routed experts: to a plan's depths, and those in EXL3 at all. Pure."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budget reads by the plug-in, which must lie in the image: the plan's path inside the container, or none to read every expert whole."""

    plan: str | None = None
    policy: str = "water-filled"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the plug-in is told, and the runner of vLLM that it knows (docs/plugin.md)."""
        if not self.plan:
            return {}
        told = {"SPARKCTL_BUDGET_PLAN": self.plan, "SPARKCTL_BUDGET_POLICY": self.policy}
        return {**told, "VLLM_USE_V2_MODEL_RUNNER": "0"}

    @property
    def flags(self) -> dict[str, bool]:
        """The flags without which the plug-in refuses to start: vLLM schedules a step ahead by itself."""
        return {"async-scheduling": False} if self.plan else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exl3:
    """Whose method reads EXL3 experts: cuda-exl3, which must lie in the image, or our plug-in, which must lie there as well."""

    experts: Literal["cuda-exl3", "sparkctl"] = "cuda-exl3"

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which the plug-in is told; without it the plug-in does not touch EXL3."""
        return {"SPARKCTL_EXL3_EXPERTS": "1"} if self.experts == "sparkctl" else {}

    @property
    def proofs(self) -> dict[str, str]:
        """What every rank's log must prove: that ours serves, where ours was asked for."""
        return {"exl3": "on, "} if self.experts == "sparkctl" else {}


VARIABLES = frozenset({"SPARKCTL_BUDGET_PLAN", "SPARKCTL_BUDGET_POLICY", "SPARKCTL_EXL3_EXPERTS"})
"""What follows from these sections and must not stand in `env` too."""
