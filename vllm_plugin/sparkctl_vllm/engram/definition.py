"""The definition, slow and plain: the rows of a token and the values of a row, one number at a time. The fast paths are held against it."""

from collections.abc import Sequence

from sparkctl_vllm.engram.tables import DEAD, LEAST_ORDER, Table

ROW_VALUES, GROUP = 256, 32


def rows_of(table: Table, history: Sequence[int], ids: Sequence[int]) -> list[list[int]]:
    """Return each token's rows of the whole table, columns in order; `history` are the compressed ids before `ids` of the same sequence."""
    whole = [*history, *ids]
    return [_rows_at(table, whole, place) for place in range(len(history), len(whole))]


def _rows_at(table: Table, ids: Sequence[int], place: int) -> list[int]:
    rows: list[int] = []
    mixed, blocked = 0, False
    for back, multiplier in enumerate(table.multipliers):
        blocked = blocked or place < back or ids[place - back] == DEAD
        mixed ^= (table.pad if blocked else ids[place - back]) * multiplier
        if back >= LEAST_ORDER - 1:
            for _ in range(table.heads):
                column = len(rows)
                rows.append(table.offsets[column] + mixed % table.primes[column])
    return rows


def value_of_e4m3(code: int) -> float:
    """Return the number that a byte means: bias 7, no infinities, 0x7f and 0xff are no numbers."""
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 127 == 127:
        return float("nan")
    size = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if code & 128 else size


def value_of_scale(code: int) -> float:
    """Return the factor that a scale byte means; 0 is zero and 255 infinite, as in vLLM, where OCP has 2^-127 and no number."""
    return 0.0 if code == 0 else float("inf") if code == 255 else 2.0 ** (code - 127)


def values_of(row: bytes) -> list[float]:
    """Return the 256 products of a row of 264 bytes, before they are rounded to bfloat16."""
    return [
        value_of_e4m3(row[place]) * value_of_scale(row[ROW_VALUES + place // GROUP])
        for place in range(ROW_VALUES)
    ]
