"""Folder: where the files of one rank lie on its node, by layer, and which of them are to be used. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkctl_vllm.engram.row_format import Format
from sparkctl_vllm.refusal import demand

ROWS, RESIDENT, FORMAT = "SPARKCTL_ENGRAM_ROWS", "SPARKCTL_ENGRAM_RESIDENT", "SPARKCTL_ENGRAM_FORMAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A rank's files: `rows-1` (pack --all), `hot-1-20000000-fp8` (pack, of so many rows of the whole table) and `steps-1.npy` (steps)."""

    path: Path
    resident: int = 0
    """Rows of each whole table that are to be resident, over all ranks; 0 for none."""
    kind: Format = "fp8"
    """Of the resident rows; what is read from disk is exact."""

    def all_rows(self, layer: int) -> Path:
        """Return the file with all rows of the rank."""
        return self.path / f"rows-{layer}"

    def hot_rows(self, layer: int) -> Path:
        """Return the file with the resident ones."""
        return self.path / f"hot-{layer}-{self.resident}-{self.kind}"

    def steps(self, layer: int) -> Path:
        """Return the steps on which both paths are timed."""
        return self.path / f"steps-{layer}.npy"


def asked(environment: Mapping[str, str]) -> Folder | None:
    """Return the folder that an environment names, or None where it names none; an empty variable is one that is not there."""
    path, resident, kind = (environment.get(name, "") for name in (ROWS, RESIDENT, FORMAT))
    if not path:
        beside = ", ".join(name for name, text in ((RESIDENT, resident), (FORMAT, kind)) if text)
        demand(not beside, ROWS, f"not set, beside {beside}", "the folder of this rank's rows")
        return None
    whole = resident.isdecimal() or not resident
    demand(whole, RESIDENT, repr(resident), "a whole number: rows of each table over all ranks, 0 for none")
    demand(kind in {"", "fp8", "fp4"}, FORMAT, repr(kind), "fp8 or fp4")
    return Folder(path=Path(path), resident=int(resident or 0), kind="fp4" if kind == "fp4" else "fp8")
