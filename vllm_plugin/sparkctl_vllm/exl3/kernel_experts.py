"""EXL3 experts of one layer on one rank as a kernel takes them: one rate and MUL1 for each of gate, up and down, widths in blocks of 128."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sparkctl_vllm.exl3 import codebook, trellis
from sparkctl_vllm.exl3.matrix import BLOCK, Exl3Matrix
from sparkctl_vllm.refusal import demand

RATES = (2, 3, 4)
CODEBOOK = "mul1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One matrix of all experts: trellis int16 [experts, in/16, out/16, 16 K], suh float16 [experts, in], svh float16 [experts, out]."""

    trellis: torch.Tensor
    suh: torch.Tensor
    svh: torch.Tensor

    @property
    def bits(self) -> int:
        """Bits a weight."""
        return int(self.trellis.shape[3]) // trellis.SIDE

    @property
    def shape(self) -> tuple[int, int, int]:
        """Experts, outputs, inputs."""
        experts, inputs, outputs, _ = self.trellis.shape
        return experts, outputs * trellis.SIDE, inputs * trellis.SIDE

    def matrix(self, expert: int) -> Exl3Matrix:
        """Return one expert's matrix, on the CPU: that is where its definition computes."""
        mine = (one[expert].cpu() for one in (self.trellis, self.suh, self.svh))
        words, suh, svh = mine
        return Exl3Matrix(trellis=words, suh=suh, svh=svh, codebook=CODEBOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exl3Experts:
    """Gate and up are [hidden, neurons], down is [neurons, hidden], as EXL3 turns them; |up| and gate are clamped at `limit`."""

    gate: Stack
    up: Stack
    down: Stack
    limit: float

    def __post_init__(self) -> None:
        """Refuse shapes, rates and types that do not fit together."""
        for name, one in (("gate", self.gate), ("up", self.up), ("down", self.down)):
            _sound(name, one)
        experts, neurons, hidden = self.gate.shape
        demand(self.up.shape == self.gate.shape, "up", self.up.shape, f"the shape of gate, {self.gate.shape}")
        wanted = (experts, hidden, neurons)
        demand(self.down.shape == wanted, "down", self.down.shape, str(wanted))
        demand(experts > 0, "experts", experts, "at least one")
        demand(self.limit > 0, "limit", self.limit, "more than 0; infinite for none")

    @property
    def tiles(self) -> int:
        """Blocks of 128 neurons of a whole expert: what is read or skipped together."""
        return self.gate.shape[1] // BLOCK

    @property
    def bits(self) -> tuple[int, int, int]:
        """Bits a weight of gate, up and down."""
        return self.gate.bits, self.up.bits, self.down.bits

    @property
    def tile_bytes(self) -> int:
        """Bytes of trellis of one block of 128 neurons: its columns of gate and up, its rows of down."""
        return BLOCK * self.gate.shape[2] * sum(self.bits) // 8


def stacked(matrices: Sequence[Exl3Matrix]) -> Stack:
    """Return one matrix of all experts; all have the first one's rate and widths."""
    demand(len(matrices) > 0, "matrices", 0, "one an expert")
    for number, one in enumerate(matrices):
        demand(
            one.codebook == CODEBOOK,
            f"codebook of expert {number}",
            one.codebook,
            CODEBOOK,
            "the kernel decodes MUL1 alone; serve this checkpoint with cuda-exl3, or quantise it with MUL1",
        )
        demand(
            one.bias is None, f"bias of expert {number}", "a bias", "none: experts of this model have none"
        )
        demand(
            one.trellis.shape == matrices[0].trellis.shape,
            f"trellis of expert {number}",
            tuple(one.trellis.shape),
            f"{tuple(matrices[0].trellis.shape)}, that of expert 0",
            "within a layer gate, up and down have one rate each",
        )
    return Stack(
        trellis=torch.stack([one.trellis for one in matrices]),
        suh=torch.stack([one.suh for one in matrices]),
        svh=torch.stack([one.svh for one in matrices]),
    )


def _sound(name: str, one: Stack) -> None:
    words = one.trellis
    demand(
        words.ndim == 4,
        f"{name} trellis",
        f"rank {words.ndim}",
        "rank 4: [experts, in/16, out/16, 16 K]",
        "a table of embeddings is another format",
    )
    demand(words.dtype == torch.int16, f"{name} trellis", words.dtype, "int16")
    rate = trellis.rate_of(words.shape[3])
    demand(
        rate in RATES,
        f"{name} rate",
        f"{rate:g} bits",
        ", ".join(map(str, RATES)) + " bits for the kernel",
        "half rates and others are read by exllamav3; quantise at a whole rate from 2 to 4 for this kernel",
    )
    for side, count in (("inputs", words.shape[1]), ("outputs", words.shape[2])):
        width = count * trellis.SIDE
        demand(width > 0 and width % BLOCK == 0, f"{name} {side}", width, f"a multiple of {BLOCK}")
    for part, scale, width in (
        ("suh", one.suh, words.shape[1] * trellis.SIDE),
        ("svh", one.svh, words.shape[2] * trellis.SIDE),
    ):
        wanted = (words.shape[0], width)
        demand(tuple(scale.shape) == wanted, f"{name} {part}", tuple(scale.shape), str(wanted))
        demand(scale.dtype == torch.float16, f"{name} {part}", scale.dtype, "float16")
        demand(bool(torch.isfinite(scale).all()), f"{name} {part}", "NaN or infinite", "finite")


assert CODEBOOK in codebook.NAMES  # noqa: S101 - one name in two places
