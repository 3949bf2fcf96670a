"""What verbs share: how experts are sliced over ranks, as options, and a word on stderr about memory before the work begins."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkctl_vllm.calibration.checkpoint import Checkpoint
from sparkctl_vllm.calibration.moments import needed_bytes
from sparkctl_vllm.calibration.order import even
from sparkctl_vllm.calibration.recording import Recording
from sparkctl_vllm.refusal import demand


def slicing(parser: argparse.ArgumentParser) -> None:
    """Add the options of a checkpoint that is sliced and worked on layer by layer."""
    parser.add_argument("checkpoint", type=Path, help="folder with config.json and *.safetensors")
    parser.add_argument(
        "--ranks", type=int, default=1, help="tensor-parallel ranks, each with a slice of every expert"
    )
    parser.add_argument(
        "--widths", type=numbers, help="their widths in neurons where they are uneven, as 512,640,640,512"
    )
    parser.add_argument("--tile", type=int, default=64, help="neurons read or skipped together; 128 for EXL3")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where experts are unpacked and used"
    )
    parser.add_argument(
        "--work", type=Path, help="folder for finished layers: a run that broke off goes on there"
    )


def numbers(text: str) -> list[int]:
    """Return the whole numbers of a list as 0,1,20."""
    return [int(one) for one in text.split(",")]


def sliced(checkpoint: Checkpoint, layer: int, asked: argparse.Namespace) -> tuple[int, ...]:
    """Return the widths of the ranks' slices as asked."""
    neurons = checkpoint.shape(layer)[1]
    demand(asked.tile > 0 and asked.tile % 64 == 0, "--tile", asked.tile, "a multiple of 64")
    if not asked.widths:
        return even(neurons, asked.ranks, asked.tile)
    whole = all(width > 0 and width % asked.tile == 0 for width in asked.widths)
    demand(
        whole and sum(asked.widths) == neurons,
        "--widths",
        asked.widths,
        f"multiples of {asked.tile} that add up to {neurons}",
    )
    return tuple(asked.widths)


def tell(checkpoint: Checkpoint, recording: Recording | None, layers: Sequence[int]) -> None:
    """Say what the work will take."""
    tokens = recording.header.tokens if recording else 0
    most = max(needed_bytes(checkpoint, layer, tokens) for layer in layers)
    sys.stderr.write(
        f"{len(layers)} layers, one after the other, in about {most / 1e6:.0f} MB beside the libraries\n"
    )
