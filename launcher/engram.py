"""Engram: the section of a recipe by which the plug-in brings Engram rows: from where, and how many stay in memory. Pure."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Engram:
    """Engram rows by the plug-in, which must lie in the image: `rows` is a rank's folder inside the container, or none to leave the tables to vLLM.

    `resident` rows of each table, over all ranks, stay in memory where that is faster than the disk; each rank measures it at its start.
    """

    rows: str | None = None
    resident: int = 0
    format: Literal["fp8", "fp4"] = "fp8"

    def __post_init__(self) -> None:
        if self.resident < 0:
            raise ValueError(f"resident: wanted 0 or more rows of each table, found {self.resident}")
        if self.resident and not self.rows:
            raise ValueError(
                "resident: rows stay in memory beside a folder with all of them; set engram.rows"
            )

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the plug-in is told; it heeds none else."""
        if not self.rows:
            return {}
        told = {"SPARKCTL_ENGRAM_ROWS": self.rows}
        kept = {"SPARKCTL_ENGRAM_RESIDENT": str(self.resident), "SPARKCTL_ENGRAM_FORMAT": self.format}
        return {**told, **(kept if self.resident else {})}

    @property
    def proofs(self) -> dict[str, str]:
        """What every rank's log must prove: that it reads rows of its own, and that it measured what stays in memory."""
        if not self.rows:
            return {}
        return {"engram": "reads rows", **({"engram_rows": "keeps"} if self.resident else {})}


VARIABLES = frozenset({"SPARKCTL_ENGRAM_ROWS", "SPARKCTL_ENGRAM_RESIDENT", "SPARKCTL_ENGRAM_FORMAT"})
"""What follows from this section and must not stand in `env` too."""
