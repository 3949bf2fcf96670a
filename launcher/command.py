"""Command: a recipe and a line to the docker command line of every rank. Pure.

Argument lists only: no shell ever parses them. Structured values become compact JSON, as vLLM's flags want them.
"""

import hashlib
import json
import re
from dataclasses import dataclass

from launcher.recipe import Argument, Recipe
from sparkctl.line import Line, Node
from sparkctl.units import GIB

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """What starts one rank: the container's name, the whole `docker run` and the part of it that vLLM sees."""

    node: str
    rank: int
    name: str
    digest: str
    argv: tuple[str, ...]
    engine_argv: tuple[str, ...]


def rank_commands(recipe: Recipe, line: Line, boot: str) -> tuple[RankCommand, ...]:
    """Return the command of every rank, in rank order; `boot` is the id of the boot they belong to."""
    return tuple(_rank_command(recipe, line, node, boot) for node in line.nodes)


def graph_sizes(sequences: int, drafted: int) -> tuple[int, ...]:
    """Return the batch sizes to capture: multiples of k and of k + 1 for 1 to `sequences` sequences.

    A decode step carries k + 1 tokens a sequence and a drafting step k; a padded batch hangs (FlashInfer#5015,
    open), so every size that can occur is captured.
    """
    per_sequence = {size for size in (drafted, drafted + 1) if size > 0}
    return tuple(sorted({size * count for size in per_sequence for count in range(1, sequences + 1)}))


def engine_argv(recipe: Recipe, line: Line, node: Node) -> tuple[str, ...]:
    """Return `serve MODEL --flags` of one rank; ranks above 0 are headless."""
    flags: dict[str, Argument] = {
        "served-model-name": recipe.model.served_name,
        "host": line.api_host,
        "port": line.api_port,
        "tensor-parallel-size": recipe.parallel.tensor,
        "pipeline-parallel-size": recipe.parallel.pipeline,
        "distributed-executor-backend": recipe.parallel.backend,
        "nnodes": len(line.nodes),
        "node-rank": node.rank,
        "master-addr": line.head.fabric_address if recipe.parallel.meet == "fabric" else line.head.host,
        "master-port": line.master_port,
        "gpu-memory-utilization": recipe.memory.utilisation,
    }
    if node.rank > 0:
        flags["headless"] = True
    if recipe.memory.kv_cache_gib is not None:
        flags["kv-cache-memory-bytes"] = round(recipe.memory.kv_cache_gib * GIB)
    flags.update(_decoding_flags(recipe))
    flags.update(recipe.flags)
    return (
        "serve",
        recipe.model.path,
        *(part for name, value in flags.items() for part in _render(name, value)),
    )


def _decoding_flags(recipe: Recipe) -> dict[str, Argument]:
    flags: dict[str, Argument] = {}
    drafted = 0
    if recipe.speculative:
        drafted = recipe.speculative.tokens
        flags["speculative-config"] = {
            "method": recipe.speculative.method,
            "num_speculative_tokens": drafted,
            "draft_sample_method": recipe.speculative.draft_sample_method,
            "rejection_sample_method": recipe.speculative.rejection_sample_method,
            "enable_adaptive_verification": recipe.speculative.enable_adaptive_verification,
        }
    if recipe.graphs and recipe.max_num_seqs:
        flags["compilation-config"] = {
            "cudagraph_mode": recipe.graphs.mode,
            "cudagraph_capture_sizes": list(graph_sizes(recipe.max_num_seqs, drafted)),
        }
    return flags


def _render(name: str, value: Argument) -> tuple[str, ...]:
    if value is True:
        return (f"--{name}",)
    if value is False:
        return (f"--no-{name}",)
    if isinstance(value, (dict, list)):
        return (f"--{name}", json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    return (f"--{name}", str(value))


PLACEHOLDERS = ("fabric_address", "fabric_interface", "hca", "hcas", "management_address", "rank")
"""What `{...}` in a recipe's environment may name; each is filled in for the node."""


def rank_name(line: Line, node: Node) -> str:
    """Return the name of a rank's container."""
    return f"sparkctl-{line.name.lower()}-rank{node.rank}"


def environment(recipe: Recipe, node: Node) -> dict[str, str]:
    """Return a rank's environment: the recipe's, with `{fabric_address}` and the like filled in for the node."""
    first = node.rails[0]
    hcas = ",".join(rail.hca for rail in node.rails)
    filled = (node.fabric_address, first.interface, first.hca, hcas, node.host, str(node.rank))
    values = dict(zip(PLACEHOLDERS, filled, strict=True))
    return {
        name: _PLACEHOLDER.sub(lambda found: values[found[1]], text)
        for name, text in recipe.environment.items()
    }


def placeholder_faults(text: str) -> tuple[str, ...]:
    """Return a fault for each `{...}` in one environment variable that nothing fills in."""
    return tuple(
        f"unknown placeholder {{{hole}}}; wanted one of {', '.join(PLACEHOLDERS)}"
        for hole in _PLACEHOLDER.findall(text)
        if hole not in PLACEHOLDERS
    )


def _rank_command(recipe: Recipe, line: Line, node: Node, boot: str) -> RankCommand:
    name = rank_name(line, node)
    engine = engine_argv(recipe, line, node)
    rest = (*_docker_options(recipe, node), "--entrypoint", "vllm", recipe.engine.image, *engine)
    digest = hashlib.sha256("\0".join((boot, *rest)).encode()).hexdigest()
    labels = {
        "sparkctl.line": line.name,
        "sparkctl.rank": str(node.rank),
        "sparkctl.boot": boot,
        "sparkctl.digest": digest,
    }
    label_options = tuple(part for key, value in labels.items() for part in ("--label", f"{key}={value}"))
    argv = ("docker", "run", "-d", "--name", name, *label_options, *rest)
    return RankCommand(
        node=node.name, rank=node.rank, name=name, digest=digest, argv=argv, engine_argv=engine
    )


def _docker_options(recipe: Recipe, node: Node) -> tuple[str, ...]:
    container, memory = recipe.container, recipe.memory
    options = [
        # A restart policy turns one failed boot into an outage (eugr/spark-vllm-docker#257).
        ("--restart", "no"),
        ("--gpus", "all"),
        ("--network", "host"),
        # What a rank leaves in shared memory goes with its container (sgl-project/sglang#28089, reported); docker heeds
        # --shm-size in a private namespace only.
        ("--ipc", "private"),
        ("--shm-size", f"{memory.shared_gib}g"),
        # The same number twice: a container that may not swap.
        ("--memory", f"{memory.container_gib}g"),
        ("--memory-swap", f"{memory.container_gib}g"),
        ("--oom-score-adj", str(container.oom_score_adj)),
        *(("--ulimit", f"{name}={value}") for name, value in container.ulimits.items()),
        *(("--cap-add", name) for name in container.capabilities),
        *(("--device", name) for name in container.devices),
        *(("-v", f"{outside}:{inside}") for outside, inside in container.mounts.items()),
        *(("-e", f"{name}={value}") for name, value in environment(recipe, node).items()),
    ]
    return tuple(part for option in options for part in option)
