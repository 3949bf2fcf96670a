"""`sparkctl-vllm probe CHECKPOINT`: how much of each layer's expert output is kept at which depth, in four orders of the neurons."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkctl_vllm.calibration.checkpoint import Checkpoint, opened
from sparkctl_vllm.calibration.cost import LEAST_TOKENS, cost
from sparkctl_vllm.calibration.curve import curve
from sparkctl_vllm.calibration.moments import Moments
from sparkctl_vllm.calibration.recording import Recording
from sparkctl_vllm.calibration.recording import opened as recording_at
from sparkctl_vllm.calibration.survey import surveyed
from sparkctl_vllm.cli import Answer
from sparkctl_vllm.cli.slices import numbers, sliced, slicing, tell
from sparkctl_vllm.refusal import demand

PAYS = 0.75
"""Energy that half the bytes must keep, neuron by neuron, on average over the layers. Ours: half of what reading neurons at random would lose."""
SHARES = (0.25, 0.5, 0.75)
YES, NO, INCONCLUSIVE = 0, 1, 4


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    slicing(parser)
    parser.add_argument(
        "--recording",
        type=Path,
        help="what its routers saw on text; without it inputs are Gaussian, and the answer is inconclusive",
    )
    parser.add_argument(
        "--experts", type=int, help="of each layer about so many, evenly spread; all by default"
    )
    parser.add_argument("--layers", type=numbers, help="only these, as 0,1,20; all by default")


def run(asked: argparse.Namespace) -> Answer:
    """Measure layer by layer and answer."""
    checkpoint = opened(asked.checkpoint, asked.device)
    recording = recording_at(asked.recording) if asked.recording else None
    layers = _layers(asked.layers, checkpoint, recording)
    widths = sliced(checkpoint, layers[0], asked)
    checkpoint = _sampled(checkpoint, layers[0], asked.experts)
    tell(checkpoint, recording, layers)
    begin, told = time.monotonic(), []
    for layer, moments in surveyed(checkpoint, recording, layers, asked.work):
        told.append(_told(layer, moments, widths, asked.tile))
        sys.stderr.write(f"layer {layer}: {time.monotonic() - begin:.0f} s\n")
    mean = sum(one["kept"]["neurons"]["0.5"] for one in told) / len(told)
    document = {
        "checkpoint": str(asked.checkpoint),
        "source": "gaussian inputs" if recording is None else "recording",
        "tokens": 0 if recording is None else recording.header.tokens,
        "widths": list(widths),
        "tile": asked.tile,
        "layers": told,
        "kept_at_half": mean,
        "wanted": PAYS,
        "pays": None if recording is None else mean >= PAYS,
    }
    code = INCONCLUSIVE if recording is None else YES if mean >= PAYS else NO
    return code, document, written


def written(document: dict[str, Any]) -> str:
    """Return the document as a table."""
    names = list(document["layers"][0]["kept"])
    title = "  ".join(["layer", *(f"{name:>16}" for name in names), "rare experts"])
    lines = [_source(document), "", "energy kept when 25 / 50 / 75 % of the bytes are read", "", title]
    for one in document["layers"]:
        cells = [" / ".join(f"{100 * kept:3.0f}" for kept in one["kept"][name].values()) for name in names]
        row = [
            f"{one['layer']:>5}",
            *(f"{cell:>16}" for cell in cells),
            f"{one['rare']:>5} of {one['experts']}",
        ]
        lines.append("  ".join(row))
    return "\n".join([*lines, "", _verdict(document)])


def _verdict(document: dict[str, Any]) -> str:
    kept = f"sorted by neurons, half the bytes keep {100 * document['kept_at_half']:.1f} % of the energy"
    if document["pays"] is None:
        return (
            f"inconclusive: {kept} of Gaussian inputs; of text it may be as much, or far more\n\n"
            "hint: record what its routers see on text (docs/calibration.md) and probe with --recording"
        )
    verdict = "can pay" if document["pays"] else "will hardly pay"
    return f"budget reads {verdict}: {kept} (wanted: {100 * document['wanted']:.0f} %)"


def _source(document: dict[str, Any]) -> str:
    if document["source"] == "recording":
        return f"{document['checkpoint']}: {document['tokens']} recorded tokens"
    return f"{document['checkpoint']}: no recording, so Gaussian inputs through its weights; no text was seen"


def _told(layer: int, moments: Moments, widths: Sequence[int], tile: int) -> dict[str, Any]:
    of = cost(moments)
    found = curve(of.energy, moments.count, widths, tile)
    return {
        "layer": layer,
        "experts": len(moments.count),
        "rare": int((moments.count < LEAST_TOKENS).sum()) if moments.count.sum() else 0,
        "read": list(found.read),
        "curves": {name: list(kept) for name, kept in found.kept.items()},
        "kept": {name: {str(share): found.at(name, share) for share in SHARES} for name in found.kept},
    }


def _sampled(checkpoint: Checkpoint, layer: int, experts: int | None) -> Checkpoint:
    held = checkpoint.shape(layer)[0]
    demand(experts is None or 1 <= experts <= held, "--experts", experts, f"1 to {held}")
    return replace(checkpoint, every=held // experts) if experts else checkpoint


def _layers(
    asked: Sequence[int] | None, checkpoint: Checkpoint, recording: Recording | None
) -> tuple[int, ...]:
    known = checkpoint.layers if recording is None else recording.header.layers
    common = tuple(layer for layer in checkpoint.layers if layer in known)
    demand(common, "recording", list(known), f"layers of the checkpoint, {list(checkpoint.layers)}")
    layers = common if asked is None else tuple(asked)
    demand(layers and set(layers) <= set(common), "--layers", list(layers), f"some of {list(common)}")
    return layers
