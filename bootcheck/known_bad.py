"""Known to be bad: kernels on which a line cannot work, as data. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBad:
    """One kernel that public reports found broken.

    `pattern` is a regular expression for the whole release; `unless` are kernel arguments that each undo the fault.
    """

    pattern: str
    breaks: str
    origin: str
    remedies: tuple[str, ...]
    unless: tuple[str, ...] = ()


KERNELS = (
    KnownBad(
        pattern=r"7\.0\.0-1019(-.*)?",
        breaks="ibv_reg_mr ends with ENOMEM, since memory kept for kexec's hand-over is handed out as CMA pages",
        origin="NVIDIA/NV-Kernels#590, #591 and eugr/spark-vllm-docker#389, #392 (reported)",
        remedies=("boot with kho=off on the kernel's command line", "boot a 6.17 kernel"),
        unless=("kho=off",),
    ),
)


def find(release: str) -> KnownBad | None:
    """Return what is known against a kernel of that release."""
    return next((one for one in KERNELS if re.fullmatch(one.pattern, release)), None)


def cure(known: KnownBad, arguments: Iterable[str]) -> str:
    """Return the kernel argument that undoes the fault; empty when none was given."""
    return next((word for word in arguments if word in known.unless), "")
