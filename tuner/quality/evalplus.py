"""EvalPlus: HumanEval+ or MBPP+ from a local file, judged by the `evalplus` package in a process of its own.

The data are read from the file that is named and never fetched: the package is told where they lie, and its process has no
network where the kernel allows that. It runs the programs with a guard of its own, not in our sandbox.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from sparkctl.errors import FileFault, Refused, Unclear
from tuner.quality import answers, sandbox
from tuner.quality.answers import Said
from tuner.quality.outcome import Dataset, Score
from tuner.quality.tasks import Task

MOST_TOKENS = 1024
LIMIT_S = 3600.0
"""Ours, for judging: some ten minutes on two cores, most of it the reference solutions."""

_ASK = "Write a Python program that solves this. Keep the name of the function, and write only code.\n\n```python\n{prompt}\n```"
_OVERRIDES: Mapping[Dataset, str] = {"humaneval": "HUMANEVAL_OVERRIDE_PATH", "mbpp": "MBPP_OVERRIDE_PATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """A file of problems, in its own order: task id and what is asked."""

    path: Path
    digest: str
    dataset: Dataset
    asked: tuple[tuple[str, str], ...]


def version() -> str:
    """Return the version of the installed package.

    Raises:
        Refused: it is not installed.

    """
    try:
        return metadata.version("evalplus")
    except metadata.PackageNotFoundError:
        raise Refused(
            "the package evalplus is not installed beside sparkctl, wanted for --evalplus",
            hint=f"{sys.executable} -m pip install evalplus",
        ) from None


def read(path: Path) -> Problems:
    """Read a file of problems as EvalPlus publishes them: JSON lines, plain or gzip.

    Raises:
        FileFault: it cannot be read, or is none.

    """
    hint = (
        "name HumanEvalPlus.jsonl(.gz) or MbppPlus.jsonl(.gz) as EvalPlus releases them; nothing is fetched"
    )
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        rows = [json.loads(line) for line in text.decode().splitlines() if line.strip()]
        asked = tuple((str(row["task_id"]), str(row["prompt"])) for row in rows)
    except OSError as fault:
        raise FileFault(f"{path}: cannot be read: {fault.strerror or fault}", hint=hint) from fault
    except (ValueError, KeyError, TypeError, EOFError, zlib.error) as fault:
        raise FileFault(
            f"{path}: no problems of EvalPlus: {type(fault).__name__}: {fault}", hint=hint
        ) from fault
    kinds = {task.partition("/")[0].lower() for task, _ in asked}
    for dataset in _OVERRIDES:
        if kinds == {dataset}:
            return Problems(path=path, digest=sha256(text).hexdigest(), dataset=dataset, asked=asked)
    raise FileFault(
        f"{path}: task ids begin with {', '.join(sorted(kinds)) or 'nothing'}, wanted HumanEval or Mbpp",
        hint=hint,
    )


def tasks(problems: Problems) -> tuple[Task, ...]:
    """Return the questions, greedy, one a problem."""
    return tuple(
        Task(
            part="code",
            id=task,
            body={
                "messages": [{"role": "user", "content": _ASK.format(prompt=prompt.strip())}],
                "max_tokens": MOST_TOKENS,
            },
        )
        for task, prompt in problems.asked
    )


def judge(problems: Problems, said: Sequence[Said]) -> Score:
    """Have the answers judged.

    Raises:
        Unclear: the package gave no result.

    """
    with tempfile.TemporaryDirectory(prefix="sparkctl-evalplus-") as own:
        samples = Path(own) / "samples.jsonl"
        solved = zip(problems.asked, said, strict=True)
        rows = [
            json.dumps({"task_id": task, "solution": answers.code(one.text)}) for (task, _), one in solved
        ]
        samples.write_text("\n".join(rows) + "\n", encoding="utf-8")
        _run(problems, samples)
        results = samples.with_name("samples_eval_results.json")
        try:
            found = json.loads(results.read_text(encoding="utf-8"))["eval"]
            marks = [found[task][0] for task, _ in problems.asked]
            base = [mark["base_status"] == "pass" for mark in marks]
            plus = [mark["base_status"] == mark["plus_status"] == "pass" for mark in marks]
        except (OSError, ValueError, KeyError, IndexError, TypeError) as fault:
            raise Unclear(
                f"evalplus left no result that can be read: {type(fault).__name__}: {fault}",
                hint="try another release of it: this was written for 0.3.1",
            ) from fault
    return Score(
        dataset=problems.dataset,
        digest=problems.digest,
        version=version(),
        problems=len(marks),
        base=sum(base),
        plus=sum(plus),
    )


def _run(problems: Problems, samples: Path) -> None:
    argv = [
        *sandbox.walls(),
        sys.executable,
        "-m",
        "evalplus.evaluate",
        problems.dataset,
        "--samples",
        str(samples),
    ]
    # Its caches go where its samples are, so that nothing of another file is taken for this one's.
    home = {"HOME": str(samples.parent), "XDG_CACHE_HOME": str(samples.parent), "PATH": os.defpath}
    try:
        ran = subprocess.run(
            argv,
            cwd=samples.parent,
            env={**home, _OVERRIDES[problems.dataset]: str(problems.path.resolve())},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unclear(
            f"evalplus still ran after {LIMIT_S:g} s", hint="try a machine with more cores"
        ) from None
    if ran.returncode:
        last = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Unclear(
            f"evalplus ended with {ran.returncode}: {last[:200]}", hint="run it by hand on the same file"
        )
