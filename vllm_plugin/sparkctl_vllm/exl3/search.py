"""Search: for tiles of 256 numbers the walks around the trellis whose codebook numbers lie closest. Numbers in, states out.

Tail-biting in two passes: a stretch around the ring's seam finds the bits that both ends share, then a pass that begins and ends on them is held
to them. Exact but for that guess. `plain` says it in torch; native/search.c and cuda/trellis_search.cu do the same, fifty and more times as fast.
"""

import ctypes
import os
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch

from sparkctl_vllm import native
from sparkctl_vllm.exl3 import codebook
from sparkctl_vllm.exl3.trellis import CODES
from sparkctl_vllm.refusal import Refusal, demand

SEAM = 40
"""Positions on either side of a ring's seam that decide it. Ours: a state lives for 16 bits, at most 16 positions."""
RATES = (1, 2, 3, 4)
"""Bits a weight that the search takes; a CUDA device takes 2, 3 and 4."""
FOR_CPU = Path(__file__).parent / "native" / "search.c"
FOR_CUDA = native.SOURCE.with_name("trellis_search.cu")
# Without the three middle ones gcc takes no vector minimum; -ffast-math would change how the whole process treats small numbers.
FLAGS = ("-O3", "-march=native", "-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros", "-fopenmp", "-shared", "-fPIC")  # fmt: skip
SCRATCH = 1 << 30
"""Bytes of a CUDA device for the edges of the tiles that are searched at once. Ours: a thousand tiles, eight for each of an H200's processors."""


def walks(numbers: torch.Tensor, bits: int, name: str = "mul1") -> torch.Tensor:
    """Return states int64 [tiles, 256] of numbers [tiles, 256] that are as large as the codebook's."""
    rates = RATES[1:] if numbers.is_cuda else RATES
    demand(bits in rates, "bits", bits, ", ".join(map(str, rates)))
    demand(numbers.ndim == 2 and numbers.shape[1] == CODES, "numbers", tuple(numbers.shape), f"[n, {CODES}]")
    demand(bool(torch.isfinite(numbers).all()), "numbers", "NaN or infinite", "finite")
    found = torch.empty(numbers.shape, dtype=torch.int32, device=numbers.device)
    search = _on_cuda if numbers.is_cuda else _on_cpu
    search(numbers.float().contiguous(), bits, name, found)
    return found.long()


def plain(numbers: torch.Tensor, bits: int, name: str = "mul1") -> torch.Tensor:
    """Return what `walks` returns, step by step in torch: the definition, 700 weights a second."""
    table = codebook.table(name).float()
    stretch = torch.cat((numbers[:, -SEAM:], numbers[:, :SEAM]), dim=1)
    before = _best(stretch, bits, table, starts=None)[:, SEAM - 1]
    return _best(numbers, bits, table, starts=before & ((1 << 16 - bits) - 1))


def _best(numbers: torch.Tensor, bits: int, table: torch.Tensor, starts: torch.Tensor | None) -> torch.Tensor:
    """Return the best walks; with starts, those that begin behind these 16 - bits bits and end on them."""
    tiles, edges, kept = len(numbers), 1 << bits, 1 << 16 - bits
    rows = torch.arange(tiles)
    cost = torch.full((tiles, kept), 0.0 if starts is None else torch.inf)
    if starts is not None:
        cost[rows, starts] = 0.0
    came = []
    for number in numbers.T:
        # state = (overlap << bits) | code; the next overlap is the state's low 16 - bits bits: states that share them are rows apart.
        total = (table - number[:, None]).square() + cost.repeat_interleave(edges, dim=1)
        cost, chosen = total.view(tiles, edges, kept).min(1)
        came.append(chosen)
    end = cost.argmin(1) if starts is None else starts
    states = []
    for chosen in reversed(came):
        state = chosen[rows, end] * kept + end
        states.append(state)
        end = state >> bits
    return torch.stack(states[::-1], dim=1)


def _on_cpu(numbers: torch.Tensor, bits: int, name: str, found: torch.Tensor) -> None:
    table = codebook.table(name).float()
    pointers = (ctypes.c_void_p(one.data_ptr()) for one in (numbers, table, found))
    code = _library().trellis_search(*pointers, len(numbers), bits, SEAM)
    demand(code == 0, "trellis search", "no memory for a tile's edges", "some 20 MB a thread")


def _on_cuda(numbers: torch.Tensor, bits: int, name: str, found: torch.Tensor) -> None:
    device, table = numbers.device, codebook.table(name).to(numbers.device)
    library = _device_library(device)
    room = max(1, min(SCRATCH // library.trellis_scratch(), len(numbers)))
    back = torch.empty(room * library.trellis_scratch(), dtype=torch.uint8, device=device)
    ends = torch.empty(2, room, dtype=torch.int32, device=device)
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    for part, states in zip(numbers.split(room), found.split(room), strict=True):
        pointers = (ctypes.c_void_p(one.data_ptr()) for one in (part, table, back, ends[0], ends[1], states))
        code = library.trellis_search(*pointers, len(part), bits, SEAM, stream)
        demand(code == 0, "trellis search", f"CUDA error {code}", "a clean launch")


@cache
def _device_library(device: torch.device) -> ctypes.CDLL:
    major, minor = torch.cuda.get_device_capability(device)
    library = ctypes.CDLL(str(native.build(f"{major}{minor}", FOR_CUDA)))
    library.trellis_scratch.restype = ctypes.c_int64
    return library


@cache
def _library() -> ctypes.CDLL:
    told = FOR_CPU.read_bytes() + repr((FLAGS, _processor())).encode()
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sparkctl-vllm"
    path = home / f"trellis-search-{sha256(told).hexdigest()[:16]}.so"
    if not path.is_file():
        home.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.so")
        argv = [os.environ.get("CC", "cc"), *FLAGS, "-o", str(fresh), str(FOR_CPU)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError as fault:
            raise Refusal("cc", "not found", "a C compiler on the PATH", "install gcc") from fault
        demand(done.returncode == 0, "cc", done.stderr.strip()[-2000:], "a clean build")
        fresh.replace(path)
    return ctypes.CDLL(str(path))


def _processor() -> str:
    """Return what tells processors apart: a home may be shared by several, and code for one may be unknown to the other."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({one for one in lines if one.startswith(("flags", "Features", "model name"))}))
