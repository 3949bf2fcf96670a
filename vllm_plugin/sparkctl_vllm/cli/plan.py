"""`sparkctl-vllm plan CHECKPOINT --recording DIR -o PLAN`: the plan file of a checkpoint, from what was recorded of it."""

import argparse
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration.checkpoint import opened
from sparkctl_vllm.calibration.planning import Wanted, planned
from sparkctl_vllm.calibration.recording import opened as recording_at
from sparkctl_vllm.calibration.survey import surveyed
from sparkctl_vllm.cli import Answer
from sparkctl_vllm.cli.slices import sliced, slicing, tell


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    slicing(parser)
    parser.add_argument(
        "--recording", type=Path, required=True, help="what its routers saw on text, with gradients"
    )
    parser.add_argument(
        "-o", dest="path", type=Path, required=True, help="NAME: writes NAME.json and NAME.safetensors"
    )
    parser.add_argument("--share", type=float, default=0.5, help="bytes to read, of those of whole reads")
    parser.add_argument(
        "--eps", type=float, default=1e-3, help="most predicted damage a token, in nats, at any step size"
    )
    parser.add_argument("--rows", type=int, default=64, help="rows of the largest step")
    parser.add_argument("--steps", type=int, default=64, help="steps of each size that are replayed")
    parser.add_argument(
        "--fisher",
        choices=("aligned", "diagonal", "scalar"),
        default="diagonal",
        help="how a layer's output is weighed",
    )


def run(asked: argparse.Namespace) -> Answer:
    """Survey, plan, write."""
    checkpoint, recording = opened(asked.checkpoint, asked.device), recording_at(asked.recording)
    wanted = Wanted(
        widths=sliced(checkpoint, checkpoint.layers[0], asked),
        tile=asked.tile,
        share=asked.share,
        eps=asked.eps,
        most_rows=asked.rows,
        steps=asked.steps,
        fisher=asked.fisher,
    )
    tell(checkpoint, recording, checkpoint.layers)
    hashes = checkpoint.hashes()
    plan = planned(
        dict(surveyed(checkpoint, recording, checkpoint.layers, asked.work)),
        recording,
        wanted,
        model=checkpoint.model,
        format_=checkpoint.format,
        checkpoint=hashes,
        commit=_version(),
    )
    plan_file.write(plan, asked.path)
    read = plan_file.read(asked.path, hashes)
    layers = range(read.meaning.layers)
    prices = {rows: [read.price(layer, int(rows)) for layer in layers] for rows in read.meaning.predicted}
    return 0, {"plan": str(asked.path), **asdict(read.meaning), "prices": prices}, written


def written(document: dict[str, Any]) -> str:
    """Return the document as a table of step sizes."""
    lines = [
        f"{document['plan']}.json and .safetensors, for {document['layers']} layers of {document['model']}",
        "",
    ]
    lines.append("rows  predicted KL a token, nats (95 % over replayed steps)   prices of the layers")
    for rows, one in sorted(document["predicted"].items(), key=lambda item: int(item[0])):
        figure = f"{one['estimate']:.3g} ({one['low']:.3g} to {one['high']:.3g})"
        prices = document["prices"][rows]
        lines.append(f"{rows:>4}  {figure:<56}{min(prices):.4g} to {max(prices):.4g}")
    return "\n".join(lines)


def _version() -> str:
    try:
        return f"sparkctl-vllm {version('sparkctl-vllm')}"
    except PackageNotFoundError:
        return "sparkctl-vllm, not installed"
