"""Foreign recipes: those of eugr/spark-vllm-docker (v1) and spark-arena/sparkrun (v1, v2), read into ours. Pure.

Both hold a command template with defaults, an environment and an image. What has no place in a recipe of ours is not lost in silence:
each such piece is told with where it belongs.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from bootcheck import redact
from launcher.recipe import Argument, EngineFacts
from sparkctl.errors import UsageFault
from sparkctl.units import GIB

_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-q": "quantization",
    "-O": "optimization-level",
}
_LONG = {"tensor-parallel": "tensor-parallel-size", "pipeline-parallel": "pipeline-parallel-size"}
_FOLLOWS = frozenset({"nnodes", "node-rank", "master-addr", "master-port", "headless", "model"})
_SPECULATIVE = {
    "method": "method",
    "num_speculative_tokens": "tokens",
    "draft_sample_method": "draft_sample_method",
    "rejection_sample_method": "rejection_sample_method",
    "enable_adaptive_verification": "enable_adaptive_verification",
}
_READ = frozenset(
    {
        "recipe_version",
        "sparkrun_version",
        "name",
        "description",
        "model",
        "container",
        "defaults",
        "env",
        "command",
        "runtime",
    }
)
_BELONGS = {
    "build_args": "how the image is built",
    "mods": "changes to the image",
    "pre_exec": "commands that run in the container before the engine",
    "post_exec": "commands that run after the start",
    "executor_config": "options of the container; see container.* of a recipe",
    "cluster_only": "the number of nodes follows from parallel.*",
    "solo_only": "the number of nodes follows from parallel.*",
    "min_nodes": "the number of nodes follows from parallel.*",
    "max_nodes": "the number of nodes follows from parallel.*",
    "metadata": "words about the recipe",
    "model_revision": "which files lie in the model's folder is the owner's to see to",
    "distribution_config": "how files reach the nodes",
    "benchmark": "what a bench sends is a workload's",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A recipe of ours as plain data, and what could not be carried over, a sentence each."""

    recipe: dict[str, Any]
    left: tuple[str, ...]


def read(document: Mapping[str, Any], facts: EngineFacts, source: str) -> Imported:
    """Read a foreign recipe; the flags of its command are told apart by what the engine knows.

    Raises:
        UsageFault: it serves another engine, or has neither a model nor a command.

    """
    runtime = str(document.get("runtime", "vllm"))
    if not runtime.startswith("vllm"):
        raise UsageFault(
            f"{source}: runtime {runtime}; sparkctl serves vLLM", hint="import a recipe whose runtime is vllm"
        )
    if "model" not in document:
        raise UsageFault(f"{source}: no key model", hint="wanted a recipe of spark-vllm-docker or sparkrun")
    reading = _Reading(document=document, facts=facts)
    flags, before = _flags(document)
    for text in before:
        reading.left.append(f"command: {text}")
    for name, value in flags.items():
        if (name, value) != ("distributed-executor-backend", "mp"):
            reading.place(name, value)
    reading.place_environment()
    reading.left += [
        f"{key}: {_BELONGS.get(key, 'sparkctl has no such key')}" for key in document if key not in _READ
    ]
    return Imported(recipe=reading.recipe(source), left=tuple(reading.left))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What is being put together."""

    document: Mapping[str, Any]
    facts: EngineFacts
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def put(self, section: str, name: str, value: object) -> None:
        self.sections.setdefault(section, {})[name] = value

    def place(self, name: str, value: Argument) -> None:
        """Put one flag where a recipe of ours has it."""
        match name:
            case "tensor-parallel-size" | "pipeline-parallel-size":
                self.put("parallel", name.partition("-")[0], value)
            case "gpu-memory-utilization":
                self.put("memory", "utilisation", value)
            case "kv-cache-memory-bytes" if isinstance(value, int):
                self.put("memory", "kv_cache_gib", value / GIB)
            case "served-model-name":
                self.put("model", "served_name", value[0] if isinstance(value, list) else str(value))
            case "speculative-config" if isinstance(value, dict):
                self._speculate(value)
            case "compilation-config" if isinstance(value, dict):
                self._compile(value)
            case _ if name in _FOLLOWS:
                pass
            case _ if why := _elsewhere(name, value):
                self.left.append(why)
            case _:
                self.put("args" if name in self.facts.flags else "fork.args", name, value)

    def _speculate(self, told: dict[str, Any]) -> None:
        for key, value in told.items():
            if key in _SPECULATIVE:
                self.put("speculative", _SPECULATIVE[key], value)
            else:
                self.left.append(f"--speculative-config {key}={value}: no key of speculative")

    def _compile(self, told: dict[str, Any]) -> None:
        for key, value in told.items():
            if key == "cudagraph_mode":
                self.put("graphs", "mode", value)
            elif key == "cudagraph_capture_sizes":
                self.left.append(f"{key}: they follow from max-num-seqs and the drafted tokens")
            else:
                self.left.append(f"--compilation-config {key}={value}: no key of graphs")

    def place_environment(self) -> None:
        """Put the variables; one that names a secret stays out."""
        for name, value in (self.document.get("env") or {}).items():
            if redact.names_a_secret(str(name)):
                self.left.append(f"env {name}: a secret has no place in a recipe")
            else:
                self.put("env", str(name), str(value))

    def recipe(self, source: str) -> dict[str, Any]:
        """Return the recipe, as what it differs from any-model in."""
        document, sections = self.document, dict(self.sections)
        folder = str(document["model"]).rstrip("/").rpartition("/")[2]
        name = re.sub(r"[^a-z0-9]+", "-", str(document.get("name") or folder).lower()).strip("-")
        sections.setdefault("model", {}).setdefault("served_name", folder.lower())
        sections["model"]["path"] = f"/models/{folder}"
        fork_args = sections.pop("fork.args", None)
        told: dict[str, Any] = {
            "schema": 1,
            "base": "any-model",
            "name": name,
            "about": " ".join(str(document.get("description") or document["model"]).split()),
            "sources": [f"imported from {source}"],
        }
        if "container" in document:
            sections["engine"] = {"image": str(document["container"])}
        mounts = {"/srv/models/model": None, f"/srv/models/{folder}": f"/models/{folder}:ro"}
        sections["container"] = {"mounts": mounts}
        if fork_args:
            sections["fork"] = {
                "of": f"whatever the image {document.get('container', '')} holds",
                "args": fork_args,
            }
        order = (
            "model",
            "engine",
            "parallel",
            "memory",
            "speculative",
            "graphs",
            "args",
            "env",
            "fork",
            "container",
        )
        return told | {section: sections[section] for section in order if section in sections}


def _elsewhere(name: str, value: Argument) -> str:
    """Say where a flag belongs that no recipe holds; empty for one that a recipe may hold."""
    if redact.names_a_secret(name):
        return f"--{name}: a secret has no place in a recipe"
    if name in {"host", "port"}:
        return f"--{name} {value}: api_{name} of the line in the inventory"
    return (
        f"--{name} {value}: sparkctl starts every rank itself (mp)"
        if name == "distributed-executor-backend"
        else ""
    )


def _flags(document: Mapping[str, Any]) -> tuple[dict[str, Argument], tuple[str, ...]]:
    """Return the flags of the command by name, and what else the command holds; without a command, those that the defaults mean."""
    defaults = {str(key): value for key, value in (document.get("defaults") or {}).items()}
    if not document.get("command"):
        named = {key.replace("_", "-"): value for key, value in defaults.items()}
        return {_LONG.get(name, name): value for name, value in named.items()}, ()
    text, missing = _filled(str(document["command"]), {"model": document["model"], **defaults})
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as fault:
        raise UsageFault(
            f"command: {fault}", hint="mend its quotes; a shell could not read it either"
        ) from fault
    if "serve" not in words:
        return {}, ("no `vllm serve` in it",)
    at = words.index("serve")
    before = [f"`{' '.join(words[: at - 1])}` runs before the engine"] if at > 1 else []
    return dict(_pairs(words[at + 1 :])), (*before, *missing)


def _filled(text: str, values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Fill in `{name}`; doubled braces are braces, and what nothing fills in is told and left as it stands."""
    parts, missing = [], []
    try:
        pieces = list(Formatter().parse(text))
    except ValueError:
        return text, ("its braces do not pair up, so no default was filled in",)
    for plain, name, _, _ in pieces:
        parts.append(plain)
        if name is None:
            continue
        if name not in values:
            missing.append(f"{{{name}}} has no default")
        parts.append(str(values.get(name, f"{{{name}}}")))
    return "".join(parts), tuple(missing)


def _pairs(words: list[str]) -> Iterator[tuple[str, Argument]]:
    name, values = "", list[str]()
    for word in (*words, "--"):
        if not (word.startswith("--") or word in _SHORT):
            values.append(word)
            continue
        if name:
            yield _pair(name, values)
        given, equals, value = word.partition("=")
        name, values = _SHORT.get(given, given.removeprefix("--")), [value] if equals else []


def _pair(name: str, values: list[str]) -> tuple[str, Argument]:
    if not values:
        return (name.removeprefix("no-"), False) if name.startswith("no-") else (name, True)
    read = [_value(text) for text in values]
    return name, read[0] if len(read) == 1 else read


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
