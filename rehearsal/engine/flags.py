"""The command line of `vllm serve` as a rank reads it: flags by kind, and what argparse would say to a wrong one.

Names and kinds are those of vLLM 0.33 (its EngineArgs and front-end arguments); a flag that is not here is refused
as vLLM refuses it.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALUES = _words(
    # whole numbers, numbers and words
    "tensor-parallel-size pipeline-parallel-size data-parallel-size decode-context-parallel-size "
    "distributed-executor-backend nnodes node-rank master-addr master-port api-server-count gpu-memory-utilization "
    "kv-cache-memory-bytes num-gpu-blocks-override max-model-len max-num-seqs max-num-batched-tokens max-num-active-seqs "
    "long-prefill-token-threshold max-num-partial-prefills max-long-partial-prefills prefill-schedule-interval "
    "max-num-queued-reqs prefix-caching-hash-algo block-size kv-cache-dtype spec-method spec-tokens spec-model "
    "moe-backend linear-backend quantization load-format safetensors-load-strategy optimization-level performance-mode "
    "shutdown-timeout tokenizer tokenizer-mode tool-call-parser reasoning-parser mm-processor-cache-gb served-model-name "
    "worker-extension-cls logits-processors model revision dtype seed host port uvicorn-log-level api-key chat-template "
    "root-path download-dir swap-space cpu-offload-gb data-parallel-backend all2all-backend attention-backend "
    "max-parallel-loading-workers response-role otlp-traces-endpoint model-impl generation-config scheduling-policy "
    "stream-interval mm-encoder-tp-mode distributed-timeout-seconds max-logprobs"
)
_JSON = _words(
    "speculative-config compilation-config engram-config kernel-config attention-config default-chat-template-kwargs "
    "limit-mm-per-prompt additional-config hf-overrides override-generation-config kv-transfer-config model-loader-extra-config "
    "mm-processor-kwargs kv-events-config"
)
_BARE = _words(
    "headless async-scheduling enable-prefix-caching enforce-eager disable-custom-all-reduce "
    "enable-batch-sharded-sampling enable-expert-parallel enable-auto-tool-choice language-model-only trust-remote-code "
    "enable-chunked-prefill enable-prompt-tokens-details disable-log-stats enable-log-requests disable-uvicorn-access-log "
    "enable-server-load-tracking skip-tokenizer-init disable-hybrid-kv-cache-manager enable-sleep-mode "
    "calculate-kv-scales enable-eplb disable-cascade-attn enable-force-include-usage return-tokens-as-token-ids"
)
_ALIASES = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dcp": "decode-context-parallel-size",
    "-n": "nnodes",
    "-r": "node-rank",
    "-asc": "api-server-count",
    "-sc": "speculative-config",
    "-cc": "compilation-config",
    "-q": "quantization",
    "-ep": "enable-expert-parallel",
}
_NUMBERS = _words(
    "tensor-parallel-size pipeline-parallel-size nnodes node-rank master-port port max-num-seqs max-num-batched-tokens "
    "block-size"
)
_LISTS = frozenset(("served-model-name", "logits-processors"))

Setting = bool | str


class Argv(NamedTuple):
    """A rank's command line, read."""

    model: str
    settings: dict[str, Setting]
    """By flag without dashes; a bare flag is True, its `--no-` form False."""

    def number(self, flag: str, otherwise: int) -> int:
        """Return a whole number; `read` has checked it."""
        return int(self.settings.get(flag, otherwise))

    def text(self, flag: str, otherwise: str = "") -> str:
        """Return a word."""
        return str(self.settings.get(flag, otherwise))

    def fraction(self, flag: str, otherwise: float) -> float:
        """Return a number."""
        return float(self.settings.get(flag, otherwise))

    def is_on(self, flag: str, *, otherwise: bool = False) -> bool:
        """Whether a bare flag is on."""
        return bool(self.settings.get(flag, otherwise))


def read(words: tuple[str, ...]) -> Argv:
    """Read `serve MODEL --flag value ...`; ValueError carries what argparse would print."""
    if words[:1] != ("serve",):
        raise ValueError(
            f"argument subparser: invalid choice: {(words or ('',))[0]!r} (choose from serve, bench)"
        )
    rest = list(words[1:])
    model = rest.pop(0) if rest and not rest[0].startswith("-") else ""
    settings: dict[str, Setting] = {}
    while rest:
        word, equals, glued = rest.pop(0).partition("=")
        flag = _ALIASES.get(word, word.removeprefix("--").replace("_", "-"))
        if not word.startswith("-"):
            raise ValueError(f"unrecognized arguments: {word}")
        if flag in _BARE:
            settings[flag] = True
        elif flag.startswith("no-") and flag[3:] in _BARE:
            settings[flag[3:]] = False
        elif flag in _VALUES | _JSON:
            if not equals and (not rest or (rest[0].startswith("--"))):
                raise ValueError(f"argument --{flag}: expected one argument")
            settings[flag] = _checked(flag, glued if equals else rest.pop(0))
            while flag in _LISTS and rest and not rest[0].startswith("-"):
                rest.pop(0)
        else:
            raise ValueError(f"unrecognized arguments: {word}")
    return Argv(model or str(settings.get("model", "")), settings)


def _checked(flag: str, value: str) -> str:
    if flag in _JSON:
        try:
            json.loads(value)
        except ValueError as fault:
            raise ValueError(
                f"argument --{flag}: Value {value} cannot be converted to <function loads>."
            ) from fault
    if flag in _NUMBERS and not value.isdigit():
        raise ValueError(f"argument --{flag}: invalid int value: {value!r}")
    return value


def contradictions(argv: Argv) -> str:
    """Return what is wrong with a readable command line, in vLLM's manner; empty when nothing is."""
    return next((f"ValueError: {fault}" for is_wrong, fault in _checks(argv) if is_wrong), "")


def _checks(argv: Argv) -> Iterator[tuple[bool, str]]:
    nnodes, rank = argv.number("nnodes", 1), argv.number("node-rank", 0)
    world = argv.number("tensor-parallel-size", 1) * argv.number("pipeline-parallel-size", 1)
    headless = argv.is_on("headless")
    yield not argv.model, "With `vllm serve`, you should provide the model as a positional argument"
    yield not 0 <= rank < nnodes, f"node_rank ({rank}) must be in the range [0, nnodes ({nnodes}))."
    yield nnodes > 1 and world % nnodes != 0, f"World size ({world}) must be divisible by nnodes ({nnodes})."
    if nnodes > 1:
        backend = argv.text("distributed-executor-backend")
        yield backend != "mp", "nnodes > 1 is only supported with --distributed-executor-backend mp."
        yield "master-addr" not in argv.settings, "master_addr must be set when nnodes > 1."
    yield headless and rank == 0, "headless mode needs node_rank > 0: the head runs the API server."
    yield not headless and rank > 0, f"node_rank {rank} has no API server; start it with --headless."
    count = argv.number("api-server-count", 0)
    yield headless and count > 0, f"api_server_count={count} cannot be used with --headless."
