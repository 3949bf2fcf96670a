"""One matrix in EXL3: W = diag(suh) H What H diag(svh), used as y = x W + bias; H is block-diagonal, Hadamard 128 over sqrt(128).

Both sides mix 128 neighbours, so exactly whole blocks of 128 can be left unread: `columns` and `rows` cut them, and nothing smaller.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from sparkctl_vllm.exl3 import codebook, trellis
from sparkctl_vllm.refusal import demand

BLOCK = 128
_TILES = BLOCK // trellis.SIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Exl3Matrix:
    """trellis int16 [in/16, out/16, 16 K], suh float16 [in], svh float16 [out], bias float16 or float32 [out] or none."""

    trellis: torch.Tensor
    suh: torch.Tensor
    svh: torch.Tensor
    codebook: str
    bias: torch.Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse what is not this format."""
        words = self.trellis
        demand(
            words.ndim == 3,
            "trellis",
            f"rank {words.ndim}",
            "rank 3; rank 2 is a table of embeddings, another format",
        )
        demand(words.dtype == torch.int16, "trellis", words.dtype, "int16")
        rate = trellis.rate_of(words.shape[2])
        half = rate in trellis.HALF_RATES
        demand(
            not half or self.codebook == "mul1", "codebook", self.codebook, f"mul1 at the half rate {rate}"
        )
        demand(self.codebook in codebook.NAMES, "codebook", self.codebook, ", ".join(codebook.NAMES))
        for name, scale, count in (("suh", self.suh, words.shape[0]), ("svh", self.svh, words.shape[1])):
            demand(
                count > 0 and count % _TILES == 0, f"tiles beside {name}", count, f"a multiple of {_TILES}"
            )
            demand(scale.dtype == torch.float16, name, scale.dtype, "float16")
            demand(
                tuple(scale.shape) == (count * trellis.SIDE,),
                name,
                tuple(scale.shape),
                f"({count * trellis.SIDE},)",
            )
        fits = self.bias is None or self.bias.shape == self.svh.shape
        demand(
            fits, "bias", None if self.bias is None else tuple(self.bias.shape), str(tuple(self.svh.shape))
        )

    @property
    def rate(self) -> float:
        """Bits a weight."""
        return trellis.rate_of(self.trellis.shape[2])

    def coded(self) -> torch.Tensor:
        """Return What, float16 [in, out]: the numbers that the trellis holds."""
        numbers = codebook.table(self.codebook).to(self.trellis.device)[trellis.states(self.trellis)]
        return trellis.tile(numbers).transpose(1, 2).flatten(2).flatten(0, 1)

    def dense(self, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Return W, [in, out]; exact in float64 up to its rounding."""
        rotated = turned(turned(self.coded().to(dtype)).T).T  # the columns of What, then its rows
        return self.suh.to(dtype)[:, None] * rotated * self.svh.to(dtype)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return y = x W + bias in the type of x, [..., in] to [..., out]."""
        y = turned(turned(x * self.suh.to(x.dtype)) @ self.coded().to(x.dtype)) * self.svh.to(x.dtype)
        return y if self.bias is None else y + self.bias.to(x.dtype)

    def columns(self, count: int) -> "Exl3Matrix":
        """Return the first outputs alone: whole blocks of 128."""
        _whole(count, self.svh.numel())
        return self.outputs(0, count)

    def outputs(self, begin: int, end: int) -> "Exl3Matrix":
        """Return these outputs alone; both ends on a block of 128."""
        demand(begin % BLOCK == end % BLOCK == 0, "outputs", (begin, end), f"multiples of {BLOCK}")
        return replace(
            self,
            trellis=self.trellis[:, begin // trellis.SIDE : end // trellis.SIDE].contiguous(),
            svh=self.svh[begin:end].contiguous(),
            bias=None if self.bias is None else self.bias[begin:end].contiguous(),
        )

    def rows(self, count: int) -> "Exl3Matrix":
        """Return what the first inputs give alone: whole blocks of 128, one contiguous read."""
        _whole(count, self.suh.numel())
        return replace(self, trellis=self.trellis[: count // trellis.SIDE], suh=self.suh[:count])


def gathered(tensors: Mapping[str, torch.Tensor], module: str) -> Exl3Matrix:
    """Return the matrix of a module from a checkpoint's tensors; an unknown tensor of the module is refused."""
    mine = {
        name.removeprefix(f"{module}."): tensor
        for name, tensor in tensors.items()
        if name.startswith(f"{module}.")
    }
    known = {"trellis", "suh", "svh", "su", "sv", "scale", "bias", *codebook.MARKERS}
    demand(not set(mine) - known, module, sorted(set(mine) - known), ", ".join(sorted(known)))
    missing = {"trellis"} - set(mine)
    demand(not missing, module, f"no {sorted(missing)}", "a trellis")
    scales = {}
    for new, old in (("suh", "su"), ("svh", "sv")):
        demand(
            (new in mine) != (old in mine),
            f"{module}.{new}",
            "both or neither of the new and the old scale",
            f"{new} or {old}",
        )
        scales[new] = mine[new] if new in mine else signs(mine[old])
    markers = {name: int(mine[name]) for name in codebook.MARKERS if name in mine}
    return Exl3Matrix(
        trellis=mine["trellis"], codebook=codebook.named(markers), bias=mine.get("bias"), **scales
    )


def signs(packed: torch.Tensor) -> torch.Tensor:
    """Return the signs of old files, int16 [n/16] to float16 [n]: bit b of word j, least significant first, makes element 16 j + b -1."""
    bits = packed.to(torch.int64)[:, None] >> torch.arange(16) & 1
    return (1 - 2 * bits).flatten().to(torch.float16)


def turned(numbers: torch.Tensor) -> torch.Tensor:
    """Return the last dimension times the block-diagonal Hadamard matrix (its own inverse)."""
    blocks = numbers.unflatten(-1, (-1, BLOCK))
    return (blocks @ hadamard(numbers.dtype).to(numbers.device)).flatten(-2)


def hadamard(dtype: torch.dtype) -> torch.Tensor:
    """Return H[i][j] = (-1)^popcount(i AND j) / sqrt(128)."""
    made = torch.ones(1, 1, dtype=dtype)
    while len(made) < BLOCK:
        made = torch.cat((torch.cat((made, made), 1), torch.cat((made, -made), 1)))
    return made * BLOCK**-0.5


def uneven(neurons: int, ranks: int) -> tuple[int, ...]:
    """Return the widths of the ranks' slices: even where that leaves whole blocks, else ranks 1, 2, ... get one block more than the rest.

    Source: tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, patch/exl3-tp3/exl3_moe.py.
    """
    demand(neurons % BLOCK == 0, "neurons", neurons, f"a multiple of {BLOCK}")
    base, more = divmod(neurons // BLOCK, ranks)
    demand(base > 0, "ranks", ranks, f"at most {neurons // BLOCK}, one block each")
    return tuple(BLOCK * (base + (1 <= rank <= more)) for rank in range(ranks))


def _whole(count: int, width: int) -> None:
    allowed = f"a multiple of {BLOCK} up to {width}"
    demand(
        0 < count <= width and count % BLOCK == 0, "prefix", count, allowed, "both sides mix 128 neighbours"
    )
