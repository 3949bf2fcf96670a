"""The KV cache by component: what one request of full length takes on a rank, part by part, as the allocator's arithmetic has it."""

from ledger.page.chart import WIDTH, bar, bottom, mark, plain, scale, svg, words
from ledger.page.facts import Facts

_LEFT, _ROW, _TOP = 168.0, 24.0, 8.0
_GIB = 1024**3


def cache_plot(facts: Facts, name: str) -> str:
    """Return the plot, or nothing where the cache of the model is not known."""
    if not facts.parts:
        return ""
    axis = scale([one.n_bytes / _GIB for one in facts.parts], _LEFT, WIDTH - 12, zero=True)
    height = _TOP + _ROW * len(facts.parts)
    parts = [bottom(axis, height, "GiB of one full-length request on a rank, predicted", plain, _TOP)]
    for at, one in enumerate(facts.parts):
        y, size = _TOP + _ROW * at, one.n_bytes / _GIB
        parts.append(words(2, y + 16, one.name, style="tick"))
        parts.append(
            mark("part", bar(axis.at(0), y + 4, axis.at(size) - axis.at(0), _ROW - 8), part=one.name, x=size)
        )
    return svg(name, height + 38, "KV cache by component", "".join(parts))
