"""The CUDA path: builds cuda/budget.cu for the device that is there, once, and calls it on torch tensors.

The library knows nothing of torch: pointers, sizes and a stream go in. It is kept in the user's cache by the digest of the source and the
architecture; no binary is shipped.
"""

import ctypes
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch

from sparkctl_vllm import tiles
from sparkctl_vllm.experts import TILE, Experts
from sparkctl_vllm.loads import MOST_WEIGHT
from sparkctl_vllm.operands import Operands, Sizes
from sparkctl_vllm.refusal import Refusal, demand
from sparkctl_vllm.step import MOST_TOP_K, Priced, Rows

SOURCE = Path(__file__).with_name("cuda") / "budget.cu"
ARCHITECTURES = ("90", "121")
"""Compute capabilities that the source is compiled and checked for: H200 and GB10."""
HIDDEN = (5120,)
MOST, MOST_TILES = 512, 63
"""Picks or experts of a step, and tiles of an expert, for which the kernel has threads and bits."""
MOST_HALF = 65504.0
STATIC = 1024
"""Bytes of shared memory beside what is asked for: the kernel's barriers."""
MISSING = -1
"""Bits of a number that is not computed yet, of a float16 or float32: handover.cuh."""
ENOUGH = 1 << 30
"""Bytes of shared memory that every size fits into."""
FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")
SIZES = {"90": (), "121": ("-DRING=1", "-DSLOTS=2", "-DLAG=1", "-DSTAGED=1")}
"""What is on its way at once: GB10 has 99 KB of shared memory a block, and a sixteenth of the H200's bandwidth to keep busy."""


def build(architecture: str, source: Path = SOURCE, extra: Sequence[str] = ()) -> Path:
    """Compile the source for sm_`architecture` and return the library; a kept one is returned as it is."""
    demand(
        architecture in ARCHITECTURES,
        "architecture",
        f"sm_{architecture}",
        ", ".join(f"sm_{one}" for one in ARCHITECTURES),
    )
    flags = (*FLAGS, *SIZES[architecture], *extra)
    headers = sorted(SOURCE.parent.glob("*.cuh"))
    told = b"".join(one.read_bytes() for one in (source, *headers)) + repr((architecture, flags)).encode()
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sparkctl-vllm"
    library = home / f"{source.stem}-sm_{architecture}-{sha256(told).hexdigest()[:16]}.so"
    if not library.is_file():
        home.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(f".{os.getpid()}.so")
        argv = [
            "nvcc",
            *flags,
            f"-arch=sm_{architecture}",
            f"-I{SOURCE.parent}",
            "-o",
            str(fresh),
            str(source),
        ]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError as fault:
            raise Refusal(
                "nvcc", "not found", "CUDA 13's compiler on the PATH", "the serving image brings it"
            ) from fault
        demand(done.returncode == 0, "nvcc", done.stderr.strip()[-2000:], "a clean build")
        fresh.replace(library)
    return library


def library(device: torch.device) -> ctypes.CDLL:
    """Return the library for a device, built where it is missing."""
    major, minor = torch.cuda.get_device_capability(device)
    return ctypes.CDLL(str(build(f"{major}{minor}")))


def prescale(limit: float) -> float:
    """Return the power of two by which h is kept larger, so that the clamp's largest product still fits float16."""
    most = limit * limit * MOST_WEIGHT
    demand(
        most <= MOST_HALF,
        "limit",
        limit,
        f"at most {(MOST_HALF / MOST_WEIGHT) ** 0.5:.0f} for the CUDA kernel: h is kept in float16",
    )
    power = 1.0
    while most * power * 2 <= MOST_HALF:
        power *= 2
    return power


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a graph is captured for."""

    rows: int
    top_k: int
    experts: int
    tiles: int
    hidden: int
    limit: float
    mxfp4: bool = True
    """Weights are MXFP4; else bf16."""

    @property
    def sizes(self) -> Sizes:
        """What the operands of a call must be."""
        return Sizes(
            rows=self.rows, top_k=self.top_k, experts=self.experts, tiles=self.tiles, hidden=self.hidden,
            packed=torch.uint8 if self.mxfp4 else torch.bfloat16,
            of_a_tile=tiles.bytes_of(self.hidden) if self.mxfp4 else 3 * TILE * self.hidden,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What the layers of one stream share: h between the phases, twice, the count of arrivals, and what was planned last."""

    h: torch.Tensor
    sums: torch.Tensor | None
    meet: torch.Tensor
    told: torch.Tensor

    @classmethod
    def of(cls, shape: Shape, sums: tuple[int, int] | None, device: torch.device) -> "Workspace":
        """Reserve it, before a graph is captured."""
        places = shape.rows * shape.top_k
        return cls(
            h=torch.full((2, places, shape.tiles * TILE), MISSING, dtype=torch.int16, device=device),
            sums=None if sums is None else torch.zeros(sums, dtype=torch.float32, device=device),
            meet=torch.zeros(1 + tiles.GROUPS, dtype=torch.int64, device=device),
            told=torch.zeros(2, shape.experts, dtype=torch.int32, device=device),
        )


class Kernel:
    """The CUDA kernel for one shape: called with device tensors, inside or outside a graph; never waits for the device."""

    def __init__(self, shape: Shape, device: torch.device, overlap: bool = True) -> None:  # noqa: FBT001, FBT002
        self.shape = shape
        self.overlap = overlap
        self.prescale = prescale(shape.limit)
        self._library = library(device)
        properties = torch.cuda.get_device_properties(device)
        self.blocks = properties.multi_processor_count
        most = _most_shared(properties) - STATIC
        sizes = (shape.rows, shape.top_k, shape.tiles, shape.hidden)
        self.shared = self._library.budget_shared(*sizes, most)
        why = obstacle(shape, self.shared, most)
        demand(not why, "shape", shape, "one that the CUDA kernel takes", why)
        apart = (self.blocks, self._library.budget_sums(shape.rows, shape.top_k, shape.hidden))
        fits = self._library.budget_shared(*sizes, ENOUGH) == self.shared
        self.workspace = Workspace.of(shape, None if fits else apart, device)

    @staticmethod
    def packed(experts: Experts) -> torch.Tensor:
        """Return the weights as the kernel reads them."""
        return tiles.fragments(experts)

    def __call__(
        self, pack: torch.Tensor, how: Priced, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer into `out`, float32 [rows, hidden]; `valid` is one number on the device."""
        return self._launch(Operands.of(pack, how, rows, valid, out), how.floor)

    def read_to(
        self, pack: torch.Tensor, depths: torch.Tensor, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer to depths that are given, int32 [experts] in tiles, on the device: at least 1 of each expert that is picked."""
        return self._launch(Operands.of(pack, depths, rows, valid, out), 1)

    def _launch(self, given: Operands, floor: int) -> torch.Tensor:
        shape, space = self.shape, self.workspace
        given.checked(shape.sizes)
        pointers = (
            given.pack,
            given.importance,
            given.price,
            given.depths,
            given.x,
            given.picks,
            given.weights,
            given.valid,
            space.h,
            space.sums,
            given.out,
            space.meet,
            space.told,
        )
        stream = torch.cuda.current_stream(given.x.device).cuda_stream
        code = self._library.budget_read(
            *(ctypes.c_void_p(None if one is None else one.data_ptr()) for one in pointers),
            *(shape.rows, shape.top_k, shape.experts, shape.tiles, floor, shape.hidden),
            *(ctypes.c_float(shape.limit), ctypes.c_float(self.prescale)),
            *(self.blocks, int(self.overlap), self.shared, ctypes.c_void_p(stream)),
        )
        demand(code == 0, "budget kernel", f"CUDA error {code}", "a clean launch")
        return given.out


def obstacle(shape: Shape, shared: int, most_shared: int) -> str:
    """Return why a shape cannot be taken by the CUDA kernel, or nothing."""
    places = shape.rows * shape.top_k
    limits = (
        (shape.mxfp4, "bf16 weights are not compiled, only MXFP4"),
        (
            shape.hidden in HIDDEN,
            f"hidden {shape.hidden} is not compiled, only {', '.join(map(str, HIDDEN))}",
        ),
        (shape.top_k <= MOST_TOP_K, f"top-k {shape.top_k} is more than the {MOST_TOP_K} that are compiled"),
        (places <= MOST, f"{shape.rows} rows of {shape.top_k} picks are more than {MOST} threads"),
        (shape.experts <= MOST, f"{shape.experts} experts are more than {MOST} threads"),
        (shape.tiles <= MOST_TILES, f"{shape.tiles} tiles are more than six bits"),
        (shared <= most_shared, f"{shared} bytes of shared memory are more than {most_shared}"),
    )
    return next((why for fits, why in limits if not fits), "")


def _most_shared(properties: object) -> int:
    return int(getattr(properties, "shared_memory_per_block_optin", 101_376))
