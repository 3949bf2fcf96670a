"""Figures that every good boot logs: what memory the start check saw, and how large the KV cache became. No troubles."""

from launcher.troubles.trouble import NUMBER, Lines, Told, Trouble, compiled, every, gib

_START = compiled(
    rf"Free memory on device(?: [\w:]+)? \((?P<have>{NUMBER})/(?P<total>{NUMBER}) GiB\) on startup\. Desired GPU memory "
    rf"utilization is \((?P<share>{NUMBER}), (?P<need>{NUMBER}) GiB\)\."
)
_USED = compiled(
    rf"Actual usage is (?P<weights>{NUMBER}) GiB for consumed memory \(weights \+ non-torch\), (?P<activation>{NUMBER}) GiB for "
    rf"peak activation, and (?P<graphs>{NUMBER}) GiB for CUDAGraph memory\."
)
_POOL = compiled(rf"Available KV cache memory: (?P<pool>{NUMBER}) GiB")
_COUNT = r"[0-9]{1,3}(?:,[0-9]{3}){0,4}"
_TOKENS = compiled(rf"KV cache size: (?P<tokens>{_COUNT}) tokens")
_EACH = compiled(rf"Maximum concurrency for (?P<length>{_COUNT}) tokens per request: (?P<times>{NUMBER})x")


def _start(lines: Lines) -> Told | None:
    for found in every(_START, lines):
        have, total, share, need = (float(found[name]) for name in ("have", "total", "share", "need"))
        said = f"at the start {gib(have)} of {gib(total)} were available and {gib(need)} ({share:g}) were asked for"
        figures = {"have_gib": have, "total_gib": total, "share": share, "need_gib": need}
        if used := _USED.search(found.string):
            figures |= {f"{name}_gib": float(text) for name, text in used.groupdict().items()}
            said += (
                f"; weights took {gib(figures['weights_gib'])}, activation {gib(figures['activation_gib'])}, graphs "
                f"{gib(figures['graphs_gib'])}"
            )
        return Told(
            said=said,
            hint="the ceiling is each node's own: never copy a utilisation from other nodes, and take the least of a line's",
            figures=figures,
        )
    return None


def _pool(lines: Lines) -> Told | None:
    pools = [float(found["pool"]) for found in every(_POOL, lines)]
    tokens = [found["tokens"] for found in every(_TOKENS, lines)]
    lengths = [found["length"] for found in every(_EACH, lines)]
    if not pools and not tokens:
        return None
    parts = [gib(pools[0])] if pools else []
    parts += [f"{tokens[0]} tokens"] if tokens else []
    parts += [f"with {lengths[0]} a request"] if lengths else []
    said = f"the KV cache holds {', '.join(parts)}"
    for more, length in zip(tokens[1:], lengths[1:], strict=False):
        said += f"; then {more} tokens with {length} a request"
    figures = {"pool_gib": pools[0]} if pools else {}
    figures |= {"tokens": float(tokens[0].replace(",", ""))} if tokens else {}
    return Told(
        said=said,
        hint="the count of tokens is derived from concurrency and max-model-len: the same bytes give another count at another length, "
        "so compare boots in GiB or at one length",
        figures=figures,
    )


NOTES = (
    Trouble(
        name="kv-size",
        read=_pool,
        source="vllm-project/vllm#51041, comment (reported)",
        kind="information",
    ),
    Trouble(
        name="memory-at-start",
        read=_start,
        source="MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47 (reported)",
        kind="information",
    ),
)
