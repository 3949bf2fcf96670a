"""Budget reads over real ranks: do they agree without a word, what does rank fill buy, and who waits at the all-reduce?

Usage: python benchmarks/budget_ranks.py [--ranks 2] [--rows 1,4,16,32] [--steps 10000] [--replays 15] [--mini CHECKPOINT] [-o FILE.json]
           [--plot STEM] [--parts agreement,time,mini] [--backend nccl|gloo]

One process a GPU over NCCL, the expert shapes of DeepSeek-V4.1 Flash (384 experts, top-6, hidden 5120, 2304 neurons, MXFP4), random weights: they
prove time and agreement, never quality. Layouts: tensor parallel with even and with uneven slices, expert parallel. With --backend gloo the
processes run on the CPU: agreement (small shapes, plain PyTorch plans) and the mini model only. Exit code 1 where ranks disagree, a kernel
reads other tiles than planned, or a claim of rank fill fails; 2 where there are fewer GPUs than ranks.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast stays off

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import rank_agreement  # noqa: E402
import rank_mini  # noqa: E402
from budget_ranks_report import document, faults, plotted, table  # noqa: E402
from rank_layouts import Layout, layouts  # noqa: E402
from sparkctl_vllm import reference, step  # noqa: E402
from sparkctl_vllm.refusal import Refusal  # noqa: E402

SEED, SHARES = 7, (0.5, 0.25)
MINI_TALKS = 16
PARTS = ("agreement", "time", "mini")


def main() -> int:
    """Measure on all ranks, write and print; return 0 when everything agreed."""
    asked = options()
    if asked.backend == "nccl" and torch.cuda.device_count() < asked.ranks:
        found = torch.cuda.device_count()
        print(f"{found} CUDA devices, {asked.ranks} are wanted: one a rank; --ranks {found or 'N'}, or --backend gloo", file=sys.stderr)  # fmt: skip
        return 2
    with tempfile.TemporaryDirectory() as work:
        _prepared(asked, Path(work))
        mp.spawn(_process, args=(asked, Path(work), _free_port()), nprocs=asked.ranks)
        ranks = [json.loads((Path(work) / f"rank-{one}.json").read_text()) for one in range(asked.ranks)]
    answer = document(ranks, backend=asked.backend, device=_device(asked.backend))
    found = faults(answer)
    if asked.path:
        asked.path.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    if asked.plot:
        plotted(answer, asked.plot)
    print(table(answer, found))
    return 1 if found else 0


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--rows", type=_numbers, default=[1, 4, 16, 32])
    parser.add_argument("--steps", type=int, default=10_000, help="random steps of the agreement")
    parser.add_argument("--replays", type=int, default=15)
    parser.add_argument("--experts", type=int, default=384, help="fewer for a test on the CPU")
    parser.add_argument("--mini", type=Path, help="checkpoint that mini_moe_train.py wrote")
    parser.add_argument("--parts", type=lambda text: tuple(text.split(",")), default=PARTS)
    parser.add_argument("-o", dest="path", type=Path)
    parser.add_argument("--plot", type=Path, help="beginning of the names of the plots, one a layout")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _prepared(asked: argparse.Namespace, work: Path) -> None:
    """Let the mini model write its conversations and calibrate, once for all ranks."""
    if asked.mini and "mini" in asked.parts:
        device = torch.device("cuda" if asked.backend == "nccl" else "cpu")
        for layout in layouts(asked.ranks):
            folder = work / layout.name
            folder.mkdir()
            start = rank_mini.prepared(asked.mini, layout, folder, MINI_TALKS, device)
            start.written(work / f"{layout.name}.npz")


def _process(rank: int, asked: argparse.Namespace, work: Path, port: int) -> None:
    if asked.backend == "nccl":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        asked.backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=asked.ranks
    )
    found: dict[str, Any] = {"rank": rank, "agreement": {}, "time": {}, "mini": {}}
    for layout in layouts(asked.ranks, asked.experts):
        torch.manual_seed(SEED + rank)
        if "agreement" in asked.parts:
            found["agreement"][layout.name] = _agreement(layout, rank, asked)
        if "time" in asked.parts and asked.backend == "nccl":
            found["time"][layout.name] = _time(layout, rank, asked)
        if "mini" in asked.parts and asked.mini:
            found["mini"][layout.name] = _mini(layout, rank, asked, work)
    (work / f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def _agreement(layout: Layout, rank: int, asked: argparse.Namespace) -> dict[str, Any]:
    rows = max(asked.rows)
    planned = _on_cuda(layout, rank, rows) if asked.backend == "nccl" else _on_cpu(layout, rank)
    return asdict(rank_agreement.agreement(layout, rank, planned, asked.steps, rows, SEED))


def _on_cpu(layout: Layout, rank: int) -> rank_agreement.Planned:
    importance = torch.from_numpy(rank_agreement.tables(layout, SEED)[rank])

    def planned(picks: np.ndarray, weights: np.ndarray, valid: int, price: float, floor: int) -> np.ndarray:
        one = step.Step(
            x=torch.empty(0), picks=torch.from_numpy(picks), weights=torch.from_numpy(weights), valid=valid
        )
        how = step.Reading(importance=importance, price=price, floor=floor)
        return reference.planned(one, how, len(importance)).depths.numpy()

    return planned


def _on_cuda(layout: Layout, rank: int, rows: int) -> rank_agreement.Planned:
    import rank_graphs  # noqa: PLC0415 - needs a compiled kernel

    reader = rank_graphs.Reader(layout, rank, rows, rank_agreement.tables(layout, SEED)[rank])
    return reader.planned


def _time(layout: Layout, rank: int, asked: argparse.Namespace) -> dict[str, Any]:
    import rank_graphs  # noqa: PLC0415 - needs a compiled kernel

    packs, answer = rank_graphs.packs(layout, rank), {}
    for rows in asked.rows:
        steps = rank_graphs.Steps(layout, rows, SEED)
        try:
            one = rank_graphs.Rank(steps, rank, packs)
        except Refusal as refused:
            answer[str(rows)] = {"refused": refused.hint or str(refused)}
            continue
        ways = [steps.full(), *(way(share) for share in SHARES for way in (steps.uniform, steps.one_price, steps.filled))]  # fmt: skip
        answer[str(rows)] = {way.name: _timed(one, steps, way, asked.replays) for way in ways}
    del packs
    torch.cuda.empty_cache()
    return answer


def _timed(one: Any, steps: Any, way: Any, replays: int) -> dict[str, Any]:
    planned = steps.planned(way)
    timed = one.timed(way, planned, replays)
    least = torch.from_numpy(timed.reduces).cuda()
    dist.all_reduce(least, op=dist.ReduceOp.MIN)
    waited = timed.reduces - least.cpu().numpy()
    return {
        "us": timed.whole, "read_us": timed.read, "reduce_us": timed.reduce, "wait_us": float(np.median(waited)),
        "wait_mean_us": float(waited.mean()), "planned_tiles": timed.planned_tiles, "read_tiles": timed.read_tiles,
        "slowest_tiles": float(planned.tiles.max(axis=2).mean()), "damage": float(planned.damage.mean()),
    }  # fmt: skip


def _mini(layout: Layout, rank: int, asked: argparse.Namespace, work: Path) -> dict[str, Any]:
    device = torch.device("cuda" if asked.backend == "nccl" else "cpu")
    start = rank_mini.Prepared.read(work / f"{layout.name}.npz", device)

    def reduce(partial: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(partial)
        return partial

    return rank_mini.compared(asked.mini, layout, rank, reduce, start)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _device(backend: str) -> str:
    return torch.cuda.get_device_name() if backend == "nccl" else "CPU"


if __name__ == "__main__":
    sys.exit(main())
