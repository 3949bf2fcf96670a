"""What a rank will find inside its container: NCCL's binary and settings, the PTX assembler, the model.

Read in the serving image with the recipe's binds, without a GPU and without a network.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.burn import watchdog
from bootcheck.probes.probe import Probe, Target

# Of the recipe's environment only what decides which library or tool is loaded: the rest is nobody's business here.
_DECIDING = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NCCL_CONF_FILE",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
    "VLLM_NCCL_SO_PATH",
)
_TARGET = re.compile(r"\bsm_\d+[af]?\b")

# NCCL: every libnccl that the loader could take, by content (same version, other binary: vllm-project/vllm#42354).
# ptxas: the one that Triton takes for Blackwell; newer releases have a binary and a variable of their own for it (triton/knobs.py).
RUNTIME_SCRIPT = (
    watchdog(55)
    + """
import glob, hashlib, importlib.util, json, os, re, shutil, subprocess, sys
env = os.environ.get
def said(*argv):
    try:
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
def folders(package):
    found = importlib.util.find_spec(package)
    return list(found.submodule_search_locations or ()) if found else []
def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 22):
            found.update(chunk)
    return found.hexdigest()
def text(path):
    try:
        with open(os.path.expanduser(path), errors="replace") as file:
            return file.read()
    except OSError:
        return None
named = [env("VLLM_NCCL_SO_PATH", ""), *re.split("[: ]", env("LD_PRELOAD", ""))]
places = [*env("LD_LIBRARY_PATH", "").split(":"), *(one + "/nccl/lib" for one in folders("nvidia")), *(one + "/lib" for one in folders("torch"))]
named += [path for place in places if place for path in glob.glob(glob.escape(place) + "/libnccl.so*")]
named += re.findall(r"libnccl[.]so.* => (.+)", said("/sbin/ldconfig", "-p")) + glob.glob("/usr/lib/*-linux-gnu/libnccl.so*")
nccl = sorted({os.path.realpath(path) for path in named if "libnccl" in os.path.basename(path) and os.path.isfile(path)})
settings = [text(path) for path in (env("NCCL_CONF_FILE", "~/.nccl.conf"), "/etc/nccl.conf")]
settings = [one for one in settings if one is not None]
bundled = [place + "/backends/nvidia/bin/" for place in folders("triton")]
newer = any(os.path.exists(place + "ptxas-blackwell") for place in bundled)
tool, told = ("ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH") if newer else ("ptxas", "TRITON_PTXAS_PATH")
tools = [env(told, ""), *(place + tool for place in bundled), shutil.which("ptxas") or "", "/usr/local/cuda/bin/ptxas"]
ptxas = next((path for path in tools if path and os.access(path, os.X_OK) and os.path.isfile(path)), "")
release = re.findall("release .*", said(ptxas, "--version")) if ptxas else []
targets = sorted(set(re.findall("'(sm_[0-9]+[af]?)'", said(ptxas, "--help")))) if ptxas else []
model = sys.argv[1]
print(json.dumps({
    "probe": "runtime",
    "nccl": [{"path": path, "sha256": digest(path)} for path in nccl],
    "nccl_conf": "\\n".join(settings) if settings else None,
    "ptxas": " ".join([ptxas, *release[:1], *targets]),
    "model_exists": os.path.exists(model),
    "model_entries": len(os.listdir(model)) if os.path.isdir(model) else int(os.path.isfile(model)),
}))
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A shared library inside the image, by content."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Inside of a rank's container. `nccl_conf` is None without such a file; `ptxas` names the tool and its targets."""

    probe: ClassVar[str] = "runtime"

    nccl: tuple[Library, ...]
    nccl_conf: str | None
    ptxas: str
    model_exists: bool
    model_entries: int

    @property
    def nccl_settings(self) -> tuple[str, ...]:
        """The settings of nccl.conf, sorted; comments and empty lines set nothing."""
        lines = (line.strip() for line in (self.nccl_conf or "").splitlines())
        return tuple(sorted({line for line in lines if line and not line.startswith("#")}))

    @property
    def targets(self) -> frozenset[str]:
        """The GPUs that ptxas assembles for: `sm_121a` and so on."""
        return frozenset(_TARGET.findall(self.ptxas))


def runtime_argv(target: Target) -> tuple[str, ...]:
    """Run the script in the serving image as the node's rank would run there.

    --mount and not -v: of a source that is not there docker makes an empty folder, and a check changes nothing.
    """
    needs = target.needs
    environment = needs.environments.get(target.node.name, {})
    options = ("--rm", "--label", "sparkctl.probe=runtime", "--network", "none", "--pull", "never")
    return (
        *("docker", "run", *options),
        *(word for outside, inside in needs.mounts.items() for word in ("--mount", _mount(outside, inside))),
        *(
            word
            for name in _DECIDING
            if name in environment
            for word in ("-e", f"{name}={environment[name]}")
        ),
        *("--entrypoint", "python3", needs.image, "-c", RUNTIME_SCRIPT, needs.model_path),
    )


def _mount(outside: str, inside: str) -> str:
    """Return one bind in the CSV that --mount takes."""
    fields = ("type=bind", f"source={outside}", f"target={inside.removesuffix(':ro')}", "readonly")
    return ",".join(_quoted(one) for one in fields)


def _quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if set(cell) & {",", '"'} else cell


def parse_runtime(record: Record) -> Runtime | Unread:
    """Read the last line of the script; what libraries print before it does not count."""
    lines = record.stdout.strip().splitlines()
    if record.rc != 0 or not lines:
        said = next(iter(_complaints(record.stderr)), "no output")
        return Unread(probe=record.probe, why=f"the look inside ended with {record.rc}: {said}")
    try:
        answer: Any = json.loads(lines[-1])
        conf = answer["nccl_conf"]
        return Runtime(
            nccl=tuple(Library(path=str(one["path"]), sha256=str(one["sha256"])) for one in answer["nccl"]),
            nccl_conf=None if conf is None else str(conf),
            ptxas=str(answer["ptxas"]).strip(),
            model_exists=answer["model_exists"] is True,
            model_entries=_count(answer["model_entries"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return unread(record, "not the JSON line of the look inside")


def _count(told: Any) -> int:
    if type(told) is not int or told < 0:
        raise ValueError(f"{told!r} is no count")
    return told


def _complaints(stderr: str) -> Iterator[str]:
    """Give the lines that say something, docker's own refusal and the watchdog first, and docker's advice to read the help never."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and "--help" not in line]
    yield from (line for line in lines if line.lower().startswith(("docker:", "exec ", "timeout (")))
    yield from reversed(lines)


PROBES = (
    Probe(
        name="runtime",
        about="inside the serving image: NCCL's binary and settings, ptxas, the model's folder; no GPU is asked for",
        argvs=lambda target: (runtime_argv(target),),
        parse=parse_runtime,
        limit_s=60,
    ),
)
