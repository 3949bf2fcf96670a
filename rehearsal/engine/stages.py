"""A rank's way to readiness: it loads, profiles and captures, with the lines by which a watcher knows the stages.

Only the first rank draws bars, as in vLLM: of the others a log says when a stage began and when it ended.
"""

from rehearsal import node
from rehearsal.engine import mishap
from rehearsal.engine.life import Life
from rehearsal.faces.system import memory_kib

_SHARDS = 8
_LOADING = 0.62  # share of a boot that public boots spend on reading weights
_PROFILING = 0.14
_COMPILING = 0.8  # of the profile run, and the first part of it
_CAPTURING = 0.14
_AUTOTUNING = 0.6  # of the time before serving that is left; 8 s against 4 s in a public boot
_SIZES = 8  # of graphs

# What 0.33 tries in turn for MXFP8 dense layers; the first name needs another GPU family.
_MXFP8 = ("FlashInferCutlassMxfp8LinearKernel", "MarlinMxfp8LinearKernel", "B12xMxfp8LinearKernel")


async def load(life: Life) -> None:
    """Read the weights: time passes, memory fills, and so does the page cache."""
    channels = life.environment.get("NCCL_MAX_NCHANNELS", "4")
    if life.environment.get("NCCL_DEBUG") == "INFO":
        life.journal.info("pynccl.py:111", f"NCCL INFO {channels} coll channels, {channels} p2p channels")
    life.journal.info("model_runner.py:361", f"Starting to load model {life.argv.model}...")
    whole_s = life.law.boot_s * _LOADING
    _draw(life, _shards(0, 0.0))
    for done in range(1, _SHARDS + 1):
        await life.spend(whole_s / _SHARDS)
        life.show(life.plan.weights * done / _SHARDS)
        _draw(life, _shards(done, whole_s * done / _SHARDS))
        if 2 * done == _SHARDS:
            await mishap.strike(life, life.plan.weights / 2)
    read_kib = int(life.plan.weights * 1024**2)
    node.keep_page_cache(life.node.root, max(node.page_cache_kib(life.node.root), read_kib))
    life.journal.info("default_loader.py:384", f"Loading weights took {whole_s:.2f} seconds")
    if "DSV41_ENGRAM_DIR" in life.environment:
        _find_rows(life)
    life.journal.info("mxfp4.py:212", "Using 'EXL3' Mxfp4 MoE backend.")
    life.journal.info("__init__.py:288", f"Using {_kernel(life)} for MXFP8 GEMM")
    text = f"Model loading took {life.plan.weights:.2f} GiB memory and {whole_s:.6f} seconds"
    life.journal.info("model_runner.py:402", text)


def _find_rows(life: Life) -> None:
    """Say from where each Engram table is read; a table that cannot be read is a warning and zeros."""
    for layer in (1, 14):
        if layer == 14 and life.node.rank_fault == "engram-unusable":
            text = f"Engram layer {layer}: {life.environment['DSV41_ENGRAM_DIR']} unusable, its rows read as zeros"
            life.journal.warning("engram.py:230", text)
        else:
            life.journal.info("engram.py:212", f"Engram layer {layer}: rows read from node-local files")


def _draw(life: Life, bar: str) -> None:
    if life.rank == 0:
        life.journal.bar(bar)


def _shards(done: int, took_s: float) -> str:
    """Return vLLM's bar of the shards, which ends its line each time."""
    return f"Loading safetensors checkpoint shards: {100 * done / _SHARDS:3.0f}% Completed | {_counted(done, _SHARDS, took_s)}"


def _counted(done: int, whole: int, took_s: float) -> str:
    """Return the right end of a tqdm bar."""
    if not done:
        return f"0/{whole} [00:00<?, ?it/s]"
    each_s = took_s / done
    rate = f"{each_s:5.2f}s/it" if each_s > 1 else f"{1 / each_s:5.2f}it/s"
    return f"{done}/{whole} [{_clock(took_s)}<{_clock(each_s * (whole - done))}, {rate}]"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _kernel(life: Life) -> str:
    off = life.environment.get("VLLM_DISABLED_KERNELS", "").split(",")
    return next((name for name in _MXFP8 if name not in off), "TorchMxFp8LinearKernel")


async def profile(life: Life) -> None:
    """Compile, take the profile run's time and say what is left for the KV cache."""
    seconds = life.law.boot_s * _PROFILING
    root = life.environment.get("VLLM_CACHE_ROOT", "/cache/vllm")
    cache = f"{root}/torch_compile_cache/5c1a86d2f0/rank_{life.rank}_0/backbone"
    life.journal.info("backends.py:1089", f"Using cache directory: {cache} for vLLM's torch.compile")
    await life.spend(seconds * _COMPILING)
    life.journal.info("monitor.py:53", f"torch.compile took {seconds * _COMPILING:.2f} s in total")
    await life.spend(seconds * (1 - _COMPILING))
    life.journal.info("monitor.py:81", f"Initial profiling/warmup run took {seconds:.2f} s")
    if life.plan.pinned:
        free = memory_kib(life.node.root)["MemFree"] / 1024**2
        text = (
            f"Initial free memory {free:.2f} GiB, reserved {life.plan.kv:.2f} GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config and skipped memory profiling."
        )
        life.journal.info("gpu_worker.py:501", text)
    life.journal.info("gpu_worker.py:520", f"Available KV cache memory: {life.plan.kv:.2f} GiB")


async def capture(life: Life, kv: float) -> None:
    """Make the pool, tune the kernels and capture the graphs."""
    life.show(life.plan.used(kv))
    seconds = life.law.boot_s * _CAPTURING
    life.journal.kernels("autotuner.py:829", "[Autotuner]: Autotuning process starts ...")
    await life.spend(seconds * _AUTOTUNING)
    life.journal.kernels("autotuner.py:840", "[Autotuner]: Autotuning process ends")
    left_s = seconds * (1 - _AUTOTUNING)
    for done in (0, _SIZES // 2, _SIZES):
        if done:
            await life.spend(left_s / 2)
        if life.rank == 0:
            life.journal.bar(_graphs(done, left_s * done / _SIZES), begins=not done, ends=done == _SIZES)
    text = f"Graph capturing finished in {left_s:.0f} secs, took {life.plan.graphs:.2f} GiB"
    life.journal.info("model_runner.py:618", text)


def _graphs(done: int, took_s: float) -> str:
    """Return tqdm's own bar of the graphs, which goes on in its line."""
    filled = "█" * (10 * done // _SIZES)
    share = f"{100 * done / _SIZES:3.0f}%|{filled:<10}|"
    return (
        f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): {share} {_counted(done, _SIZES, took_s)}"
    )
