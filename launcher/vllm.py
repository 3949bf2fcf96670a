"""vLLM: what one rank's container runs so that vLLM serves a recipe over a line. Pure; wordings are those of vLLM 0.33.

The one module that knows how vLLM is told; another engine is another module beside it, and `command.py` picks by `engine.kind`.
"""

import json

from launcher.program import Program
from launcher.recipe import Argument, Recipe
from sparkctl.line import Line, Node
from sparkctl.units import GIB

_RAY_THEN_SERVE = (
    'ray start --head --node-ip-address="$1" --port="$2" --num-gpus=1 --include-dashboard=false --disable-usage-stats || exit; '
    'shift 2; exec vllm "$@"'
)
"""Ray and the engine share a container: a driver finds its node's Ray by files and shared memory of its own container only."""

# Without a token whoever reaches Ray's port may run what he likes: Ray's own warning.
_RAY_ENV = {"RAY_AUTH_MODE": "token"}
_RAY_DRAWN = ("RAY_AUTH_TOKEN",)


def program(recipe: Recipe, line: Line, node: Node) -> Program:
    """Return what a rank's container runs."""
    if recipe.parallel.backend == "mp":
        return Program(entrypoint="vllm", argv=(*_serve(recipe), *_render_all(_flags(recipe, line, node))))
    port = str(line.master_port)
    if node.rank == 0:
        served = (*_serve(recipe), *_render_all(_flags(recipe, line)))
        argv = ("-c", _RAY_THEN_SERVE, "sh", node.address_on(recipe.parallel.meet), port, *served)
        return Program(entrypoint="sh", argv=argv, env=_RAY_ENV, drawn=_RAY_DRAWN)
    joins = (
        f"--address={line.head.address_on(recipe.parallel.meet)}:{port}",
        f"--node-ip-address={node.address_on(recipe.parallel.meet)}",
        "--num-gpus=1",
    )
    argv = ("start", *joins, "--block")
    return Program(entrypoint="ray", argv=argv, env=_RAY_ENV, drawn=_RAY_DRAWN, speaks=False)


def order(recipe: Recipe, line: Line) -> tuple[Node, ...]:
    """Return the nodes in the order in which their ranks start.

    With mp the head comes last: it waits for its workers, and no public launch on GB10 does otherwise. Ray is the other way round:
    a worker joins what the head holds, and the engine waits until all have joined.
    """
    return line.workers_first if recipe.parallel.backend == "mp" else line.nodes


def _serve(recipe: Recipe) -> tuple[str, ...]:
    return ("serve", recipe.model.path)


def _flags(recipe: Recipe, line: Line, node: Node | None = None) -> dict[str, Argument]:
    """Return the flags of the engine, or of one rank that is told its place; ranks above 0 are headless."""
    flags: dict[str, Argument] = {
        "served-model-name": recipe.model.served_name,
        "host": line.api_host,
        "port": line.api_port,
        "tensor-parallel-size": recipe.parallel.tensor,
        "pipeline-parallel-size": recipe.parallel.pipeline,
    }
    if recipe.parallel.data > 1:
        flags |= {"data-parallel-size": recipe.parallel.data, "data-parallel-backend": "ray"}
    flags["distributed-executor-backend"] = recipe.parallel.backend
    if node:
        flags |= {
            "nnodes": len(line.nodes),
            "node-rank": node.rank,
            "master-addr": line.head.address_on(recipe.parallel.meet),
            "master-port": line.master_port,
        }
    flags["gpu-memory-utilization"] = recipe.memory.utilisation
    if node and node.rank > 0:
        flags["headless"] = True
    if recipe.memory.kv_cache_gib is not None:
        flags["kv-cache-memory-bytes"] = round(recipe.memory.kv_cache_gib * GIB)
    return flags | _decoding_flags(recipe) | recipe.flags


def graph_sizes(sequences: int, drafted: int) -> tuple[int, ...]:
    """Return the batch sizes to capture: multiples of k and of k + 1 for 1 to `sequences` sequences.

    A decode step carries k + 1 tokens a sequence and a drafting step k; a padded batch hangs (FlashInfer#5015,
    open), so every size that can occur is captured.
    """
    per_sequence = {size for size in (drafted, drafted + 1) if size > 0}
    return tuple(sorted({size * count for size in per_sequence for count in range(1, sequences + 1)}))


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


def _render_all(flags: dict[str, Argument]) -> tuple[str, ...]:
    return tuple(part for name, value in flags.items() for part in _render(name, value))


def _render(name: str, value: Argument) -> tuple[str, ...]:
    if value is True:
        return (f"--{name}",)
    if value is False:
        return (f"--no-{name}",)
    if isinstance(value, (dict, list)):
        return (f"--{name}", json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    return (f"--{name}", str(value))
