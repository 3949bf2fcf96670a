"""Reader: lookups of one table's rows on the CPU, held ones at once and the others from one file, begun early and waited for late.

The native reader is native/rows.c, compiled on the node once; io_uring or threads read. Where no compiler is, threads of Python read: same
bytes, more time for each. No binary is shipped.
"""

import ctypes
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.checkpoint import Shard
from sparkctl_vllm.engram.definition import ROW_VALUES
from sparkctl_vllm.engram.membership import Membership
from sparkctl_vllm.engram.row_format import BYTES, SCALES, Format
from sparkctl_vllm.engram.rows_file import Meaning
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import Refusal, demand

NATIVE = Path(__file__).with_name("native")
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC", "-pthread")
COUNTED = ("resident", "late", "read", "doubles")
Engine = Literal["auto", "uring", "threads"]
"""Who reads; auto is io_uring, and threads where the kernel or a container refuses it."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a rank's rows lie in a file: (first byte, bytes a row, place in the row) of each part, and how many rows there are."""

    path: Path
    rows: int
    parts: tuple[tuple[int, int, int], ...]

    @classmethod
    def of_file(cls, path: Path, meaning: Meaning) -> "Source":
        """Return that of a rows file with all rows: one read a row."""
        demand(meaning.holds == "all", f"{path.name}: $.holds", meaning.holds, "all")
        demand(meaning.kind == "fp8", f"{path.name}: $.kind", meaning.kind, "fp8")
        return cls(path=path, rows=meaning.rows, parts=((meaning.rows_at, BYTES["fp8"], 0),))

    @classmethod
    def of_checkpoint(cls, found: Shard, owned: Slice) -> "Source":
        """Return that of the checkpoint itself: two reads a row."""
        weights = found.weights_at + owned.begin * ROW_VALUES
        scales = found.scales_at + owned.begin * SCALES
        return cls(
            path=found.path, rows=owned.rows, parts=((weights, ROW_VALUES, 0), (scales, SCALES, ROW_VALUES))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Resident rows in memory, [rows, bytes of a row] by ascending id, and the lines that say which they are."""

    rows: NDArray[np.uint8]
    membership: Membership
    kind: Format = "fp8"


@dataclass(slots=True)
class Reader:
    """The native reader. `begin` and `wait` are a pair; a `begin` without `wait` only fetches, into the rows of late."""

    source: Source
    held: Held | None = None
    engine: Engine = "auto"
    threads: int = 32
    late: int = 0
    """Rows of late that are kept, a power of two, or none."""
    direct: bool = False
    """Past the page cache, with O_DIRECT."""
    raw: bool = False
    """Rows go out as bytes, uint8 [rows, 264], one behind the other, and resident ones not at all: the GPU decodes both."""
    _native: ctypes.CDLL = field(init=False)
    _handle: int = field(init=False)
    _resident: tuple[int | None, int | None, int] = field(init=False)
    _file: int = field(init=False)
    _lookups: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        demand(self.late & (self.late - 1) == 0, "rows of late", self.late, "a power of two, or 0")
        demand(self.threads > 0, "threads", self.threads, "1 or more")
        self._resident = self._checked()
        self._native = library()
        try:
            self._file = os.open(self.source.path, os.O_RDONLY | (os.O_DIRECT if self.direct else 0))
        except OSError as fault:
            hint = "this file system has no O_DIRECT: read through the page cache" if self.direct else ""
            raise Refusal(str(self.source.path), fault, "a file that can be opened", hint) from fault
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        found, why = self._opened(0 if self.engine in {"auto", "uring"} else self.threads)
        if not found and self.engine == "auto":
            log.info("Engram reads by %d threads: io_uring is refused (%s)", self.threads, os.strerror(why))
            self.engine = "threads"
            found, why = self._opened(self.threads)
        if not found:
            os.close(self._file)
            hint = "a container's seccomp filter may refuse io_uring: take threads, or auto"
            raise Refusal(self.engine, os.strerror(why), "a reader that the kernel allows", hint)
        self._handle = found

    def _checked(self) -> tuple[int | None, int | None, int]:
        held = self.held
        if held is None:
            return None, None, 0
        count, width = held.membership.rows, held.rows.shape[1]
        demand(
            count == self.source.rows, "resident rows", f"of {count}", f"of {self.source.rows}, the file's"
        )
        whole = held.rows.flags.c_contiguous and width == BYTES[held.kind]
        demand(
            whole,
            "resident rows",
            f"{held.rows.shape}, strides {held.rows.strides}",
            f"contiguous, {BYTES[held.kind]} bytes each",
        )
        return _at(held.membership.lines), _at(held.rows), int(held.kind == "fp4")

    def _opened(self, threads: int) -> tuple[int | None, int]:
        parts = np.array([(base, length + (at << 32)) for base, length, at in self.source.parts], dtype="<i8")
        why = ctypes.c_int()
        found = self._native.engram_open(
            *(self._file, int(self.direct), len(parts), _at(parts), threads, self.late, int(self.raw)),
            ctypes.byref(why),
        )
        return found, why.value

    def begin(self, ids: NDArray[np.int64], out: NDArray[Any] | None) -> int:
        """Begin a batch of lookups and return how many distinct rows are read; what memory holds is in `out` when this returns.

        `out` uint16 [lookups, 256] takes bfloat16 bits, or bytes where the reader is raw; None only fetches. A negative id is nobody's
        row: zeros.
        """
        flat = np.ascontiguousarray(ids, dtype=np.int64).reshape(-1)
        self._lookups = flat.size
        given = self._address(out, flat.size)
        read = self._native.engram_begin(
            self._handle, _at(flat), flat.size, self.source.rows, *self._resident, given
        )
        self._holds(read)
        return int(read)

    def wait(self, out: NDArray[Any] | None) -> None:
        """Wait for what `begin` asked for, into the same `out`. Raises Refusal when a row could not be read."""
        self._holds(self._native.engram_wait(self._handle, self._address(out, 0)))

    def places(self) -> NDArray[np.int32]:
        """Return the lookups that the raw rows in `out` answer, in their order, since `begin`."""
        found = np.empty(self._lookups, dtype=np.int32)
        count = self._native.engram_places(self._handle, _at(found))
        return found[:count]

    @property
    def handle(self) -> int:
        """Address of the native reader, for host functions."""
        return self._handle

    @property
    def lines(self) -> int | None:
        """Address of the lines that say which rows are resident."""
        return self._resident[0]

    def counted(self) -> Mapping[str, int]:
        """Return how many lookups were resident, of late, read, and doubles of a row that was read."""
        counted = (ctypes.c_long * len(COUNTED))()
        self._native.engram_counted(self._handle, counted)
        return dict(zip(COUNTED, counted, strict=True))

    def close(self) -> None:
        """Give everything back."""
        self._native.engram_close(self._handle)
        os.close(self._file)

    def _address(self, out: NDArray[Any] | None, lookups: int) -> int | None:
        if out is None:
            return None
        kind, width = (np.uint8, BYTES["fp8"]) if self.raw else (np.uint16, ROW_VALUES)
        if out.dtype != kind or not out.flags.c_contiguous or out.size < lookups * width:
            wanted = f"{np.dtype(kind).name}, contiguous, at least [{lookups}, {width}]"
            raise Refusal("out", f"{out.dtype} {out.shape}", wanted)
        return _at(out)

    def _holds(self, code: int) -> None:
        if code < 0:
            raise Refusal(
                str(self.source.path), os.strerror(-code), "rows that can be read", "see the kernel's log"
            )


def library() -> ctypes.CDLL:
    """Return the native library, built where it is missing."""
    return _Library.loaded or _load()


class _Library:
    loaded: ctypes.CDLL | None = None


def _load() -> ctypes.CDLL:
    told = (
        b"".join(one.read_bytes() for one in sorted(NATIVE.iterdir()))
        + repr((FLAGS, os.uname().machine)).encode()
    )
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sparkctl-vllm"
    path = home / f"engram-{sha256(told).hexdigest()[:16]}.so"
    if not path.is_file():
        home.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.so")
        argv = [os.environ.get("CC", "cc"), *FLAGS, "-o", str(fresh), str(NATIVE / "rows.c"), "-lm"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError as fault:
            raise Refusal(
                "cc", "not found", "a C compiler on the PATH", "install gcc, or read in Python"
            ) from fault
        demand(done.returncode == 0, "cc", done.stderr.strip()[-2000:], "a clean build")
        fresh.replace(path)
    found = ctypes.CDLL(str(path))
    address, number, whole = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    for name, back, taken in (
        ("open", address, (number, number, number, address, number, ctypes.c_uint32, number, address)),
        ("begin", whole, (address, address, whole, whole, address, address, number, address)),
        ("wait", number, (address, address)),
        ("places", whole, (address, address)),
        ("counted", None, (address, address)),
        ("step_begin", None, (address,)),
        ("step_wait", None, (address,)),
        ("close", None, (address,)),
    ):
        function = getattr(found, f"engram_{name}")
        function.restype, function.argtypes = back, taken
    _Library.loaded = found
    return found


def _at(array: NDArray[Any]) -> int:
    """Return an array's address; what `array.ctypes` gives takes ten times as long."""
    return int(array.__array_interface__["data"][0])
