"""Sandbox: runs a program that a model wrote, in a process of its own that can do as little as this machine allows.

The one doorway of code from outside. The child has limits on CPU, memory, files and processes, an empty folder of its own, no
environment and no input, a session of its own that is killed as a whole; where the kernel allows it also no network and process
numbers of its own, and under root it becomes `nobody`. What was in force is told in `held`. It is no jail: a program can still read
what the user that runs it can read.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CPU_S = 5
WALL_S = 30.0
MEMORY_MIB = 1024
FILE_MIB = 1
PROCESSES = 64
"""Ours: a task of a battery takes milliseconds and a few MiB; what needs more is stuck."""

NOBODY = 65534

_SHOWN = 200

_READY = (
    "abc array base64 bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum fractions functools hashlib "
    "heapq itertools json math numbers operator queue random re statistics string struct textwrap time types typing unicodedata "
    "_strptime"
)
"""Modules that are there in any case: under root the child becomes somebody who may not be able to read the interpreter's own."""

# The word comes first and is told back last: a program that ends itself before its asserts has not passed.
_CHILD = f"""
import os, resource, sys
for name in {_READY!r}.split():
    __import__(name)
word, program = sys.stdin.readline(), sys.stdin.read()
def limit(what, most):
    resource.setrlimit(what, (most, most))
limit(resource.RLIMIT_CORE, 0)
limit(resource.RLIMIT_CPU, {CPU_S})
limit(resource.RLIMIT_AS, {MEMORY_MIB} << 20)
limit(resource.RLIMIT_FSIZE, {FILE_MIB} << 20)
limit(resource.RLIMIT_NOFILE, 64)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
limit(resource.RLIMIT_NPROC, {PROCESSES})
told = word
try:
    exec(compile(program, "answer", "exec"), {{"__name__": "answer"}})
except BaseException as fault:
    told = f"{{type(fault).__name__}}: {{str(fault)[:{_SHOWN}]}}"
sys.stderr.write(chr(10) + told)
sys.stderr.flush()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended: `fault` is empty when all its asserts held; `held` is what kept it in."""

    fault: str
    held: tuple[str, ...]


def run(program: str) -> Ran:
    """Run a program to its end or to its limits."""
    before, word = walls(), secrets.token_hex(16)
    held = (
        "cpu",
        "memory",
        "files",
        "processes",
        *(("network",) if before else ()),
        *(("user",) if _is_root() else ()),
    )
    # What it says goes into a file, which its limit on files bounds; a pipe would take whatever it writes.
    with tempfile.TemporaryDirectory(prefix="sparkctl-answer-") as own, tempfile.TemporaryFile() as told:
        # Under root the child becomes somebody else and is still to have a folder that it can use.
        Path(own).chmod(0o777)
        child = subprocess.Popen(
            [*before, sys.executable, "-I", "-S", "-c", _CHILD],
            cwd=own,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=told,
            start_new_session=True,
        )
        try:
            child.communicate(f"{word}\n{program}".encode("utf-8", "replace"), timeout=WALL_S)
        except subprocess.TimeoutExpired:
            return Ran(fault=f"still ran after {WALL_S:g} s", held=held)
        finally:
            _end(child)
        told.seek(0)
        said = told.read().decode("utf-8", "replace")
    return Ran(fault=_fault(said, word, child.returncode), held=held)


def _fault(said: str, word: str, code: int) -> str:
    last = said.rstrip().rpartition("\n")[2]
    if last == word:
        return ""
    if code == 0 and last:
        return last
    return f"ended before its asserts were through, with {code}; it has {CPU_S} s of CPU and {MEMORY_MIB} MiB"


def _is_root() -> bool:
    return os.getuid() == 0


@cache
def walls() -> tuple[str, ...]:
    """Return what to put before a command so that it has no network and dies with its first process; () where that is not possible."""
    tool = shutil.which("unshare")
    own = () if _is_root() else ("--user",)
    argv = (tool or "", *own, "--net", "--pid", "--fork", "--kill-child")
    if tool is None:
        return ()
    probe = subprocess.run([*argv, "true"], capture_output=True, check=False, timeout=WALL_S)
    return argv if probe.returncode == 0 else ()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the child's session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdin:
        child.stdin.close()
