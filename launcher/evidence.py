"""Evidence: what the ranks' logs prove of what was started: version, kernels, memory, graphs, network. Pure.

A setting that the engine takes is no proof that it took effect: kernels are chosen by what is there, NCCL falls back, a table of
Engram that cannot be read is served as zeros. Wordings are those of vLLM 0.32 and 0.33; an older one stands beside its follower.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bootcheck import redact

Values = Mapping[str, tuple[str, ...]]
"""By the name of a proof every different value that one rank's log gives, in order; what it does not speak of is left out."""

_LONGEST = 160
_MOST = 12
"""Different values of one proof that are kept: an engine names a dozen kernels, and a line a layer would be no proof but a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a log may prove: each pattern's groups, joined by a blank, are a value. `head_only` marks what only rank 0 says."""

    name: str
    about: str
    patterns: tuple[re.Pattern[str], ...]
    head_only: bool = False


def _proof(name: str, about: str, *patterns: str, head_only: bool = False) -> Proof:
    compiled = tuple(re.compile(pattern, re.ASCII) for pattern in patterns)
    return Proof(name=name, about=about, patterns=compiled, head_only=head_only)


PROOFS: tuple[Proof, ...] = (
    _proof(
        "version",
        "version of the engine",
        r"\bLLM engine \(v([\w.+-]+)\)",
        r"vLLM API server version ([\w.+-]+)",
        r"Launching vLLM \(v([\w.+-]+)\) headless",
        r"█ +version ([\w.+-]+)$",
    ),
    _proof(
        "quantisation",
        "quantisation that the engine reads the weights by",
        r"\bquantization=([\w-]+)",
        head_only=True,
    ),
    _proof(
        "moe",
        "kernels of the experts",
        r"Using '?([\w .-]+?)'? (?:[\w-]+ )?(?:MoE|MOE) backend\b",
    ),
    _proof(
        "linear",
        "kernels of the dense layers",
        r"Using (\w+) for ([\w-]+) GEMM",
        r"Using (\w+) for (mixed-precision linear|\w+LinearMethod)",
    ),
    _proof("attention", "kernels of the attention", r"Using (\w+) attention backend"),
    _proof("weights_gib", "memory that the weights took", r"Model loading took ([\d.]+) Gi?B"),
    _proof(
        "kv_gib",
        "what the rank offers to the KV cache, or what is pinned",
        r"Available KV cache memory: (-?[\d.]+) GiB",
        r"reserved ([\d.]+) GiB memory for KV Cache as specified",
        r"Explicitly set \(([\d.]+)/[\d.]+\) GiB for KV cache",
    ),
    _proof(
        "kv_tokens",
        "tokens that the KV cache holds; derived from the context length (vllm-project/vllm#54662): compare GiB",
        r"KV cache size: ([\d,]+) tokens",
        head_only=True,
    ),
    _proof(
        "kv_blocks",
        "blocks of the KV cache, before vLLM 0.8",
        r"# (?:GPU|CPU) blocks: (\d+)",
        head_only=True,
    ),
    _proof(
        "graphs",
        "graphs that were captured, by mode",
        r"Capturing CUDA graphs \((?:[^,()]+, )?(\w+)\): +100%.*?\b(\d+)/\2\b",
        head_only=True,
    ),
    _proof(
        "graphs_gib",
        "memory that the graphs took",
        r"Graph capturing finished in \d+ secs?, took (-?[\d.]+) GiB",
    ),
    _proof("nccl", "NCCL that is in use", r"vLLM is using nccl==([\w.]+)"),
    _proof(
        "network",
        "network that NCCL uses; said under NCCL_DEBUG=INFO only",
        r"NCCL INFO Using network (\w+)",
        r"NCCL INFO NET/(IB|Socket)\s?: Using ",
    ),
    _proof(
        "ray",
        "address of the Ray that the engine serves on",
        r"Connecting to existing Ray cluster at address: ([\w.:-]+?)\.{0,3}$",
    ),
    _proof(
        "budget",
        "whether experts are read by budget, and by which plan",
        r"sparkctl budget reads: (on\b.*)",
        r"sparkctl: [\w ,]*budget reads[\w ,]* left (off\b.*)",
    ),
    _proof(
        "exl3",
        "whether the plug-in serves EXL3 experts, and who else could",
        r"sparkctl EXL3 experts: (on\b.*)",
        r"sparkctl: [\w ,]*EXL3 experts[\w ,]* left (off\b.*)",
    ),
    _proof(
        "engram",
        "from where the rank reads its Engram rows",
        r"([^\]]*read from node-local.*)",
        r"\] ([^\]]*\b[Ee]ngram\b.*\bunusable\b.*)",
        r"Engram (layer \d+ reads rows .*)",
    ),
    _proof(
        "engram_rows",
        "whether hot Engram rows stay in memory: both paths as the rank timed them, and the one it keeps",
        r"Engram (layer \d+ keeps .*)",
    ),
)

NAMES = frozenset(one.name for one in PROOFS)

_RELEASE = re.compile(r"(?!0\.1\.dev)\d+\.\d+\b", re.ASCII)
"""What a version is of; a build from a tree without tags calls itself 0.1.dev and says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A rank whose log does not prove what the recipe expects, or proves something else."""

    node: str
    said: str
    hint: str


def read(log: Iterable[str]) -> Values:
    """Return what one rank's whole log proves, secrets withheld."""
    found: dict[str, dict[str, None]] = {}
    for line in log:
        for proof in PROOFS:
            value = next((_value(match) for pattern in proof.patterns if (match := pattern.search(line))), "")
            if value and len(found.get(proof.name, ())) < _MOST:
                found.setdefault(proof.name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _value(match: re.Match[str]) -> str:
    return redact.text(" ".join(group.strip() for group in match.groups() if group))[:_LONGEST]


def seen(logs: Mapping[str, Sequence[str]], texts: Iterable[str]) -> tuple[str, ...]:
    """Return those texts that stand in some rank's log: what proves that a lever took effect."""
    return tuple(text for text in texts if any(text in line for log in logs.values() for line in log))


def unmet(found: Mapping[str, Values], expects: Mapping[str, str], version: str, head: str) -> Unmet | None:
    """Return the first rank whose log contradicts the recipe.

    Args:
        found: what each rank's log proves, by node in rank order; only of ranks that have a log of their own.
        expects: by the name of a proof, a text that one of its values must hold.
        version: of the engine that the recipe is written for; a log that does not tell its version contradicts nothing.
        head: the node of rank 0, which alone says some things.

    """
    alone = {proof.name for proof in PROOFS if proof.head_only}
    for node, values in found.items():
        told = [one for one in values.get("version", ()) if not _is_release(one, version)]
        if told and "version" not in expects:
            return _other_version(node, told[0], version)
        for name, wanted in expects.items():
            if node != head and name in alone:
                continue
            if not any(wanted in value for value in values.get(name, ())):
                return _lacks(node, name, wanted, values.get(name, ()))
    return None


def _is_release(told: str, wanted: str) -> bool:
    """Whether a version is of that minor release: a patch of it, or what a build adds (`+cpu`, `.dev12`), keeps flags and wordings."""
    release, other = _RELEASE.match(told), _RELEASE.match(wanted)
    return release is None or other is None or release[0] == other[0]


def _other_version(node: str, told: str, version: str) -> Unmet:
    return Unmet(
        node=node,
        said=f"its log says version {told}, wanted {version}, which the recipe is written for",
        hint=f"serve it from an image with version {version}; or write the recipe for {told} (engine.version): flags and log lines "
        "differ between versions. A fork that counts otherwise: expects.version with a part of what it says",
    )


def _lacks(node: str, name: str, wanted: str, values: tuple[str, ...]) -> Unmet:
    about = next(one.about for one in PROOFS if one.name == name)
    told = f"says {name} {', '.join(values)}" if values else f"says nothing of {name}"
    return Unmet(
        node=node,
        said=f"its log {told} ({about}); wanted {wanted!r}",
        hint=f"the recipe expects that of every rank (expects.{name}): compare image, patches and mounts of the ranks "
        "(sparkctl check), and read the rank's log (sparkctl logs)",
    )


def wrong_files(text: str, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return what `sha256sum` says against the files that are wanted, by path: another content, or no word of it."""
    rows = (row.split(maxsplit=1) for row in text.splitlines())
    found = {row[1].lstrip("*"): row[0].lstrip("\\") for row in rows if len(row) == 2}
    return tuple(
        f"{path} has SHA-256 {found[path]}, wanted {sha256}"
        if path in found
        else f"{path} cannot be read, wanted {sha256}"
        for path, sha256 in wanted.items()
        if found.get(path) != sha256
    )
