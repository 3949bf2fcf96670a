"""Row format: 256 values of a row as bytes, to bfloat16 bits and to a smaller copy. Pure NumPy.

fp8 as in the checkpoint: 256 codes e4m3fn, then 8 scale bytes, one for 32 values, 264 in all. fp4: two codes e2m1 a byte (the even value in
the low half), then 8 scale bytes, 136 in all (the MXFP4 of OCP's Microscaling Formats 1.0).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.definition import GROUP, ROW_VALUES, value_of_e4m3, value_of_scale

Format = Literal["fp8", "fp4"]
SCALES = ROW_VALUES // GROUP
BYTES: dict[Format, int] = {"fp8": ROW_VALUES + SCALES, "fp4": ROW_VALUES // 2 + SCALES}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
_E4M3 = np.array([value_of_e4m3(code) for code in range(256)], dtype=np.float32)
_POWER = np.array([value_of_scale(code) for code in range(256)], dtype=np.float32)
_MIDDLES = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], dtype=np.float32)


def numbers(rows: NDArray[np.uint8], kind: Format = "fp8") -> NDArray[np.float32]:
    """Return rows [n, bytes of a row] as float32 [n, 256]: exact, and NaN where a code is none."""
    body, scales = rows[:, : BYTES[kind] - SCALES], rows[:, BYTES[kind] - SCALES :]
    if kind == "fp8":
        values = _E4M3[body]
    else:
        values = E2M1[np.stack([body & 15, body >> 4], axis=2).reshape(len(rows), ROW_VALUES)]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(values * np.repeat(_POWER[scales], GROUP, axis=1), dtype=np.float32)


def bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16, ties to even; a NaN is 0x7fc0 with its sign."""
    bits = values.view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    none = (bits >> 16 & 0x8000) | 0x7FC0
    return np.asarray(np.where(np.isnan(values), none, nearest), dtype=np.uint16)


def decode(rows: NDArray[np.uint8], kind: Format = "fp8") -> NDArray[np.uint16]:
    """Return rows as the bits of bfloat16 [n, 256]: what the forward reads."""
    return bfloat16(numbers(rows, kind))


def halved(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return fp8 rows as fp4 rows: each group's scale is the largest power of two that leaves its largest value within e2m1's 6.

    Not exact: a copy for those who accept it. Source of the rule: OCP Microscaling Formats 1.0, section 6.3, with the exponent raised
    where the largest value would be cut.
    """
    values = numbers(rows).reshape(len(rows), SCALES, GROUP)
    most = np.abs(values).max(axis=2)
    power = np.ceil(np.log2(np.maximum(most, np.float32(2.0**-126)) / np.float32(6)))
    scale = np.clip(power + 127, 1, 254).astype(np.uint8)
    scaled = values / _POWER[scale][:, :, None]
    code = np.searchsorted(_MIDDLES, np.abs(scaled), side="right").astype(np.uint8)
    code = (code | (np.signbit(scaled).astype(np.uint8) << 3)).reshape(len(rows), ROW_VALUES)
    return np.ascontiguousarray(np.concatenate([code[:, ::2] | code[:, 1::2] << 4, scale], axis=1))
