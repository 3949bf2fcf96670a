"""The cases of benchmarks/plugin_gpu.py: which model, with which plan, in which mode of vLLM, each in a process of its own."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
FORMATS = ("bf16", "mxfp4", "exl3")
LIMIT_S = 300
PROOFS = ("sparkctl budget reads:", "sparkctl EXL3 experts:")
"""What the plug-in says in the log of a rank that it serves."""

MODES: Mapping[str, Mapping[str, Any]] = {
    "eager": {"enforce_eager": True},
    # The same operations as eager, neither compiled nor padded, so that numbers are the same to the last bit: only the graph is other.
    "graph": {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL", "cudagraph_capture_sizes": [*range(1, 9)]}},
    "piecewise": {"compilation_config": {"cudagraph_mode": "PIECEWISE"}},
    # As vLLM is served by whoever says nothing: compiled, full graphs for decode steps and piecewise ones for the rest, rows padded.
    "default": {},
}  # fmt: skip

WAYS = ("exact", "stock", "native", "plain", "whole", "half", "wrong")
"""exact: stock vLLM in float32 on plain weights; stock: in bf16; native: stock vLLM in the format itself; plain: EXL3 by the plug-in without a
plan; whole, half, wrong: by the plan of that name."""


CLAMP = 64.0
"""What the plug-in is told that MXFP4 experts are clamped at: the CUDA kernel keeps h in float16 and wants a bound; these experts stay far below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One process."""

    format: str
    way: str
    mode: str

    @property
    def name(self) -> str:
        """Return what it is called in files and tables."""
        return f"{self.format}-{self.way}-{self.mode}"

    def model(self, home: Path) -> Path:
        """Return the folder that is served."""
        if self.way in {"exact", "stock"}:
            return home / ("exl3-decoded" if self.format == "exl3" else "bf16")
        return home / ("exl3-wrong" if (self.format, self.way) == ("exl3", "wrong") else self.format)

    def environment(self, home: Path) -> dict[str, str]:
        """Return the variables that differ from case to case."""
        answer = {"VLLM_CACHE_ROOT": str(home / "cache" / self.name)}
        if self.way in {"whole", "half", "wrong"}:
            answer["SPARKCTL_BUDGET_PLAN"] = str(home / f"{self.format}-{self.way}-plan")
        if self.format == "exl3" and self.way not in {"exact", "stock"}:
            answer["SPARKCTL_EXL3_EXPERTS"] = "1"
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What every case is asked: prompts, tokens of a reply, replies that are given, and timed steps for so many rows at once."""

    prompts: list[list[int]]
    tokens: int
    forced: list[list[int]] | None = None
    steps: int = 0
    rows: tuple[int, ...] = ()


def installed(home: Path) -> Path:
    """Write what pip would write beside the plug-in, so that vLLM finds its entry point, and return the folder for PYTHONPATH."""
    said = tomllib.loads((ROOT / "vllm_plugin" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = home / "plugin" / f"sparkctl_vllm-{said['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: {said['name']}\nVersion: {said['version']}\n"
    (folder / "METADATA").write_text(head, encoding="utf-8")
    rows = [
        row
        for group, entries in said["entry-points"].items()
        for row in (f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder.parent


def talked(case: Case, home: Path, wish: Wish) -> dict[str, Any]:
    """Run a case and return what it answered, or `failed` with the end of what it said."""
    folder = home / "talks"
    folder.mkdir(exist_ok=True)
    asking, answering, log = (folder / f"{case.name}.{end}" for end in ("asked.json", "json", "log"))
    asked = {
        "model": str(case.model(home)),
        "dtype": "float32" if case.way == "exact" else "bfloat16",
        "engine": dict(MODES[case.mode]),
        "clamp": CLAMP if case.format == "mxfp4" and case.way in {"whole", "half", "wrong"} else None,
        "prompts": wish.prompts,
        "tokens": wish.tokens,
        "forced": wish.forced,
        "steps": wish.steps,
        "rows": list(wish.rows),
    }
    asking.write_text(json.dumps(asked), encoding="utf-8")
    answering.unlink(missing_ok=True)
    told = {**os.environ, **_everywhere(home), **case.environment(home)}
    command = [sys.executable, str(HERE / "plugin_gpu_talk.py"), str(asking), str(answering)]
    with log.open("w", encoding="utf-8") as out:
        try:
            subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, env=told, timeout=LIMIT_S)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"failed": f"took longer than {LIMIT_S} s\n{_end(log)}"}
    if not answering.is_file():
        return {"failed": _end(log)}
    answer: dict[str, Any] = json.loads(answering.read_text(encoding="utf-8"))
    answer["said"] = [row for row in log.read_text(encoding="utf-8").splitlines() if any(one in row for one in PROOFS)]  # fmt: skip
    return answer


def _everywhere(home: Path) -> dict[str, str]:
    paths = [str(home / "plugin"), str(ROOT / "vllm_plugin"), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": ":".join(one for one in paths if one),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def _end(log: Path) -> str:
    return log.read_text(encoding="utf-8")[-4000:]
