"""Memory: the start check, the KV cache, and who killed the engine for want of memory."""

import math

from launcher.troubles.trouble import (
    KIB_IN_GIB,
    MIB_IN_GIB,
    NUMBER,
    Lines,
    Told,
    Trouble,
    compiled,
    every,
    gib,
    has,
)

GB10_TOTAL_GIB = 121.69
"""What CUDA reports as total on a GB10 (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47, reported).

Used only to turn a gap in GiB into a step of utilisation when the log does not name the total, and then said so.
"""

BLOCK_TOKENS = 128
"""Tokens in a KV block of V4.1's sparse attention on a GB10 (vLLM 0.33.0); a length that is no multiple wastes the rest."""

_ROUNDING_GIB = 0.005
"""vLLM prints two decimals: what is behind them may be against us."""

_ADMISSION = compiled(r"Free memory on device\b.*\bon startup is less than desired GPU memory utilization")
_ADMISSION_FIGURES = compiled(
    rf"Free memory on device(?: [\w:]+)? \((?P<have>{NUMBER})/(?P<total>{NUMBER}) GiB\) on startup is less than desired "
    rf"GPU memory utilization \((?P<share>{NUMBER}), (?P<need>{NUMBER}) GiB\)"
)
_TOTAL = compiled(rf"Free memory on device(?: [\w:]+)? \({NUMBER}/(?P<total>{NUMBER}) GiB\) on startup")

_KV_SHORT = compiled(r"KV cache is needed, which is larger than the available KV cache memory")
_KV_SHORT_FIGURES = compiled(
    rf"max seq len \((?P<length>[0-9]{{1,9}})\), \(?(?P<need>{NUMBER}) GiB KV cache is needed, which is larger than the "
    rf"available KV cache memory \((?P<have>{NUMBER}) GiB\)"
)
_KV_FITS = compiled(r"estimated maximum model length is (?P<fits>[0-9]{1,9})\.(?:\s|$)")

_NO_BLOCKS = compiled(r"No available memory for the cache blocks")
_KV_NEGATIVE = compiled(rf"Available KV cache memory: -(?P<below>{NUMBER}) GiB")

_RANK_BLOCKS = compiled(
    r"\brank (?P<rank>[0-9]{1,4})\b.*\bnum_gpu_blocks\s*=\s*(?P<blocks>[0-9]{1,9})(?![0-9.,])"
)

_EARLYOOM = compiled(
    r"(?P<killer>earlyoom|dgx-anti-oom)\b.*sending (?P<signal>SIG[A-Z]+) to process (?P<pid>[0-9]{1,9})(?=[ :])"
)
_VICTIM = compiled(rf'uid [0-9]+ "(?P<victim>[^"]{{1,64}})":.*\bVmRSS (?P<mib>{NUMBER}) MiB')
_LIMITS = compiled(rf"at or below SIG[A-Z]+ limits: mem\s+(?P<mem>{NUMBER})%, swap\s+(?P<swap>{NUMBER})%")

_KERNEL_OOM = compiled(
    r"[Oo]ut of memory: Kill(?:ed)? process (?P<pid>[0-9]{1,9}) \((?P<victim>[^)]{1,64})\)"
)
_ANON = compiled(rf"anon-rss:(?P<kib>{NUMBER})kB")
_ENGINE = compiled(r"(?i)^(vllm|python|ray|pt_main)")

_CUDA_OOM = compiled(r"CUDA out of memory")
_CUDA_OOM_FIGURES = compiled(
    rf"Tried to allocate (?P<wanted>{NUMBER}) (?P<unit>[MG]iB)\. GPU [0-9]+ has a total capacity of (?P<total>{NUMBER}) GiB of "
    rf"which (?P<free>{NUMBER}) (?P<free_unit>[MG]iB) is free"
)


def highest_utilisation(have_gib: float, total_gib: float) -> float:
    """Return the highest utilisation, in steps of 0.01, that the start check lets pass with so much memory available."""
    return max(0.0, math.floor((have_gib - _ROUNDING_GIB) / (total_gib + _ROUNDING_GIB) * 100) / 100)


def _admission(lines: Lines) -> Told | None:
    if not has(_ADMISSION, lines):
        return None
    free = "stop what else holds memory on this node, or ask for less: memory.utilisation"
    plain = Told(said="the start check found less memory available than the utilisation asks for", hint=free)
    # The rank with least decides: a utilisation is one number for the line.
    found = sorted(every(_ADMISSION_FIGURES, lines), key=lambda one: float(one["have"]))
    if not found:
        return plain
    have, total, share, need = (float(found[0][name]) for name in ("have", "total", "share", "need"))
    if not (have <= need <= total + _ROUNDING_GIB and 0 < share <= 1):
        return plain
    passes = highest_utilisation(have, total)
    exit_ = (
        f"the highest memory.utilisation that passes now is {passes:.2f}"
        if passes
        else "no utilisation passes now"
    )
    return Told(
        said=f"the start check wanted {gib(need)} ({share:g} of {gib(total)}) and found {gib(have)}: {gib(need - have)} short",
        hint=f"{exit_}; or stop what holds memory on this node. vLLM reads MemAvailable on a GB10, which page cache hardly "
        "lowers and a raised vm.min_free_kbytes does",
        figures={
            "have_gib": have,
            "total_gib": total,
            "share": share,
            "need_gib": need,
            "gap_gib": need - have,
            "passes": passes,
        },
    )


def _kv_short(lines: Lines) -> Told | None:
    if not has(_KV_SHORT, lines):
        return None
    found = every(_KV_SHORT_FIGURES, lines)
    if not found or float(found[0]["need"]) < float(found[0]["have"]):
        return Told(
            said="the KV cache cannot hold one request of the longest length",
            hint="raise memory.utilisation (memory.kv_cache_gib where it is pinned) or lower args.max-model-len",
        )
    length, need, have = (float(found[0][name]) for name in ("length", "need", "have"))
    gap = need - have
    total, of = _total(lines)
    more = math.ceil(round((gap + 2 * _ROUNDING_GIB) / total * 100, 6)) / 100
    pin = math.ceil(round(need * 10, 6)) / 10
    exits = [
        f"raise memory.utilisation by {more:.2f} ({of}), or memory.kv_cache_gib to {pin:.1f} where it is pinned"
    ]
    figures = {
        "length": length,
        "need_gib": need,
        "have_gib": have,
        "gap_gib": gap,
        "more": more,
        "pin_gib": pin,
    }
    fits = _fitting(lines, length)
    if fits:
        exits.append(f"lower args.max-model-len to {fits} (a multiple of {BLOCK_TOKENS})")
        figures["fits"] = fits
    return Told(
        said=f"one request of {length:.0f} tokens needs {gib(need)} of KV cache and {gib(have)} are there: {gib(gap)} short",
        hint="; or ".join(exits),
        figures=figures,
    )


def _total(lines: Lines) -> tuple[float, str]:
    totals = [float(found["total"]) for found in every(_TOTAL, lines) if float(found["total"]) > 0]
    if totals:
        return totals[0], f"of {gib(totals[0])}"
    return GB10_TOTAL_GIB, f"of {gib(GB10_TOTAL_GIB)}, a GB10's"


def _fitting(lines: Lines, length: float) -> int:
    """Return the longest length that fits, whole blocks only; 0 when the log names none that can be."""
    named = [int(found["fits"]) for found in every(_KV_FITS, lines)]
    return min(named) // BLOCK_TOKENS * BLOCK_TOKENS if named and 0 < min(named) < length else 0


def _kv_negative(lines: Lines) -> Told | None:
    below = [float(found["below"]) for found in every(_KV_NEGATIVE, lines)]
    if not below and not has(_NO_BLOCKS, lines):
        return None
    left = f"{gib(-max(below))} were left" if below else "no memory was left"
    return Told(
        said=f"{left} for the KV cache after profiling, which on unified memory counts page cache of the load as used",
        hint="pin memory.kv_cache_gib: nothing is profiled then and memory.utilisation is only the start check; without a pin "
        "a second boot with a warm cache may pass with the same settings",
        figures={"left_gib": -max(below)} if below else {},
    )


def _blocks_differ(lines: Lines) -> Told | None:
    told = every(_RANK_BLOCKS, lines)
    counts = {found["blocks"] for found in told}
    # A log that was cut in its last number must not look like a difference.
    if (
        told
        and told[-1].string == lines[-1]
        and any(one.startswith(told[-1]["blocks"]) for one in counts - {told[-1]["blocks"]})
    ):
        told = told[:-1]
    by_rank = {int(found["rank"]): int(found["blocks"]) for found in told}
    if len(set(by_rank.values())) < 2:
        return None
    shown = ", ".join(f"rank {rank} has {blocks}" for rank, blocks in sorted(by_rank.items()))
    return Told(
        said=f"the ranks disagree on KV blocks: {shown}; an engine that does not take the least crashes beyond it",
        hint="give every rank the same memory.kv_cache_gib; a pin that differs from rank to rank is never right",
        figures={f"rank_{rank}": float(blocks) for rank, blocks in by_rank.items()},
    )


def _user_killer(lines: Lines) -> Told | None:
    kills = every(_EARLYOOM, lines)
    if not kills:
        return None
    kill = kills[0]
    said = f"{kill['killer']}, not the kernel, sent {kill['signal']} to process {kill['pid']}"
    figures = {"pid": float(kill["pid"])}
    if victim := _VICTIM.search(kill.string):
        figures["resident_gib"] = float(victim["mib"]) / MIB_IN_GIB
        said += f" ({victim['victim']}, {gib(figures['resident_gib'])} resident)"
    if limits := every(_LIMITS, lines):
        figures |= {
            "limit_mem_percent": float(limits[0]["mem"]),
            "limit_swap_percent": float(limits[0]["swap"]),
        }
        said += f"; its limits are {limits[0]['mem']} % of memory and {limits[0]['swap']} % of swap"
    return Told(
        said=said,
        hint=f"{kill['killer']} must keep away from what this configuration leaves free: lower its limit, or leave more with a "
        "smaller memory.utilisation. The swap limit gates it only while there is swap",
        figures=figures,
    )


def _kernel_oom(lines: Lines) -> Told | None:
    kills = every(_KERNEL_OOM, lines)
    if not kills:
        return None
    kill = next((one for one in kills if _ENGINE.search(one["victim"])), kills[0])
    said = f"the kernel ran out of memory and killed {kill['victim']} (pid {kill['pid']}"
    figures = {"pid": float(kill["pid"])}
    if anon := _ANON.search(kill.string):
        figures["resident_gib"] = float(anon["kib"]) / KIB_IN_GIB
        said += f", {gib(figures['resident_gib'])} resident"
    if _ENGINE.search(kill["victim"]):
        return Told(
            said=f"{said})",
            hint="leave more memory free: lower memory.utilisation or memory.kv_cache_gib; sparkctl check names what else holds it",
            figures=figures,
        )
    return Told(
        said=f"{said}), a bystander: the engine lives on, degraded, and may hang at its next request",
        hint=f"start {kill['victim']} again, or stop it for good, and boot the line anew; leave more memory free while weights load",
        figures=figures,
    )


def _cuda_oom(lines: Lines) -> Told | None:
    if not has(_CUDA_OOM, lines):
        return None
    hint = (
        "lower memory.utilisation, memory.kv_cache_gib or args.max-num-batched-tokens; on a GB10 the allocator sees MemFree, so "
        "page cache counts against it: boot drops it, and a copy of files beside the boot brings it back"
    )
    found = every(_CUDA_OOM_FIGURES, lines)
    if not found:
        return Told(said="CUDA ran out of memory", hint=hint)
    wanted, free = (
        float(found[0][name]) / (MIB_IN_GIB if found[0][unit] == "MiB" else 1)
        for name, unit in (("wanted", "unit"), ("free", "free_unit"))
    )
    total = float(found[0]["total"])
    return Told(
        said=f"CUDA ran out of memory: {gib(wanted)} wanted, {gib(free)} of {gib(total)} free",
        hint=hint,
        figures={"wanted_gib": wanted, "free_gib": free, "total_gib": total},
    )


KILLERS = (
    Trouble(
        name="killed-by-user-space",
        read=_user_killer,
        source="Blackwellboy/model-serving-minefield#134; tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31 "
        "(reported); that the line prints limits: rfjakob/earlyoom main.c",
    ),
    Trouble(name="killed-by-kernel", read=_kernel_oom, source="LMCache/LMCache#4759 (reported)"),
)

TROUBLES = (
    Trouble(
        name="memory-admission",
        read=_admission,
        source="vllm-project/vllm#48140; ovg-project/kvcached#110; eugr/spark-vllm-docker#257 (reported)",
    ),
    Trouble(name="kv-negative", read=_kv_negative, source="NVIDIA/xr-ai PR#462 (reported)"),
    Trouble(name="kv-short", read=_kv_short, source="eugr/spark-vllm-docker#396 (reported)"),
    Trouble(
        name="kv-blocks-differ", read=_blocks_differ, source="GeeeekExplorer/nano-vllm#275, #187 (reported)"
    ),
    Trouble(name="cuda-out-of-memory", read=_cuda_oom, source="vllm-project/vllm#17835 (reported)"),
)
