"""Tables: which rows an Engram layer has, in which hash columns, and which of them belong to a rank of tensor parallelism. Pure.

Every n-gram order and head is a column with a prime number of rows; the columns lie one after the other. Ranks take whole columns, so a
rank's rows are one range. Rules and constants as in vllm/models/deepseek_v41/common/engram.py of vLLM 0.33.0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from sparkctl_vllm.refusal import demand

LEAST_ORDER = 2
DEAD = -1
"""Compressed id of a token that cuts every n-gram which reaches it: those of image spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table of one layer: a prime for each column (order-major, head within), one odd multiplier for each place that is looked back."""

    layer: int
    primes: tuple[int, ...]
    multipliers: tuple[int, ...]
    heads: int
    pad: int
    """Compressed id that stands for whatever an n-gram lacks."""
    vocabulary: int
    """Compressed ids are 0 to this, less one; the multipliers are chosen so that no product leaves 63 bits."""

    @property
    def columns(self) -> int:
        """Rows that one token reads."""
        return len(self.primes)

    @property
    def rows(self) -> int:
        """Rows of the whole table."""
        return sum(self.primes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """First row of each column."""
        return tuple(accumulate(self.primes, initial=0))[:-1]

    def slices(self, ranks: int) -> tuple["Slice", ...]:
        """Return what each rank owns: rank k has the columns from k * columns / ranks on, all of them whole."""
        demand(
            1 <= ranks <= self.columns and self.columns % ranks == 0,
            "ranks",
            ranks,
            f"a divisor of the {self.columns} hash columns: 1, 2, 3, 4, 6, 8, 12 or 24 for V4.1",
        )
        each = self.columns // ranks
        ends = (*self.offsets, self.rows)
        return tuple(
            Slice(
                table=self,
                rank=rank,
                ranks=ranks,
                columns=range(rank * each, (rank + 1) * each),
                begin=ends[rank * each],
                end=ends[(rank + 1) * each],
            )
            for rank in range(ranks)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one rank owns of a table: its columns, and the range of rows that they are."""

    table: Table
    rank: int
    ranks: int
    columns: range
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """Rows of this rank."""
        return self.end - self.begin


def boundaries(table: Table, ranks: int) -> tuple[int, ...]:
    """Return the rows at which the ranks' ranges begin, and the end of the last."""
    return (*(one.begin for one in table.slices(ranks)), table.rows)


def primes_from(least: int) -> Iterator[int]:
    """Yield the primes from `least` on, ascending, by trial division: some 50 are wanted, each near 16 million."""
    number = max(2, least)
    while True:
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            yield number
        number += 1


def tables(  # noqa: PLR0913 - the keys of a config.json
    *,
    layers: Sequence[int],
    least: int,
    most_order: int,
    heads: int,
    pad: int,
    vocabulary: int,
    multipliers: Sequence[tuple[int, ...]],
) -> tuple[Table, ...]:
    """Return the tables of a model: its columns take the primes from `least` on in order, layer by layer, none twice."""
    columns = (most_order - LEAST_ORDER + 1) * heads
    source = primes_from(least)
    for own in multipliers:
        demand(len(own) == most_order, "multipliers of a layer", len(own), f"{most_order}, one a place")
        fits = all(one % 2 == 1 and one * (vocabulary - 1) < 2**63 for one in own)
        demand(fits, "multipliers", own, f"odd, and with {vocabulary - 1} below 2^63")
    return tuple(
        Table(
            layer=layer,
            primes=tuple(islice(source, columns)),
            multipliers=own,
            heads=heads,
            pad=pad,
            vocabulary=vocabulary,
        )
        for layer, own in zip(layers, multipliers, strict=True)
    )


MULTIPLIERS = (
    (76632096046245, 4839876093313, 35959672319349, 73987337458391),
    (67716810739261, 51510806800915, 30921347202721, 82619226485591),
)
"""Of layers 1 and 14. vLLM draws them with numpy's default_rng(10007 * layer); NumPy does not promise that stream across versions."""


def v41_flash() -> tuple[Table, ...]:
    """Return the two tables of DeepSeek-V4.1-Flash (its config.json: engram_* keys)."""
    return tables(
        layers=(1, 14),
        least=16_000_000,
        most_order=4,
        heads=8,
        pad=2,
        vocabulary=99_092,
        multipliers=MULTIPLIERS,
    )
