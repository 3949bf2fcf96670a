"""Instructions that decoding and multiplying one weight takes, counted in the machine code of benchmarks/exl3_decode.cu."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

WEIGHTS = 256
"""Of a lane and turn of the loop: 64 inputs by 128 outputs over 32 lanes."""


def per_weight(library: Path) -> dict[tuple[int, bool], float]:
    """Return lane-instructions a weight for (bits, exact), from the first instruction of the loop that multiplies to its last."""
    found = shutil.which("cuobjdump") or next(
        (
            str(one)
            for one in (Path(p) / "triton/backends/nvidia/bin/cuobjdump" for p in sys.path)
            if one.is_file()
        ),
        "",
    )
    if not found:
        return {}
    text = subprocess.run(
        [found, "--dump-sass", str(library)], capture_output=True, text=True, check=True
    ).stdout
    answer = {}
    for kernel in re.split(r"\n\s*Function : ", text)[1:]:
        named = re.match(r"_Z10decode_allILi(\d)ELb(\d)E", kernel)
        if named:
            answer[int(named[1]), named[2] == "1"] = _loop(kernel) / WEIGHTS
    return answer


def _loop(kernel: str) -> int:
    """Return the length of the loop: from where its last backward jump goes to that jump."""
    lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", kernel)
    where = {int(at, 16): place for place, (at, _) in enumerate(lines)}
    products = [place for place, (_, one) in enumerate(lines) if "MMA." in one]
    longest = 0
    for place, (_, one) in enumerate(lines):
        jump = re.search(r"\bBRA\s+(?:`\(\S+\)|0x([0-9a-f]+))", one)
        if jump and jump[1] and int(jump[1], 16) in where:
            begin = where[int(jump[1], 16)]
            if begin < products[-1] < place:
                longest = max(longest, place - begin + 1)
    return longest
