"""`sparkctl-vllm exl3 quantize | show`: routed experts to EXL3, sorted for budget reads, and what such a checkpoint holds."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration.checkpoint import Checkpoint
from sparkctl_vllm.calibration.checkpoint import opened as source
from sparkctl_vllm.calibration.recording import opened as recording_at
from sparkctl_vllm.cli.slices import numbers
from sparkctl_vllm.exl3 import account, conversion
from sparkctl_vllm.exl3.checkpoint import Exl3Checkpoint, Shape, opened
from sparkctl_vllm.exl3.files import read
from sparkctl_vllm.exl3.matrix import BLOCK, uneven
from sparkctl_vllm.exl3.search import RATES
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.refusal import demand

Answer = tuple[int, dict[str, Any], Callable[[dict[str, Any]], str]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of this verb."""
    verbs = parser.add_subparsers(dest="exl3", required=True, metavar="VERB")
    for name, told, add in (
        ("quantize", "write the checkpoint anew with its routed experts in EXL3; goes on where it broke off", _quantize_options),
        ("show", "bits by layer and matrix, bytes by rank, and what a plan keeps at each depth", _show_options),
    ):  # fmt: skip
        one = verbs.add_parser(name, help=told, description=told)
        # Also taken behind the inner verb, where people write it.
        one.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document on stdout"
        )
        add(one)


def run(asked: argparse.Namespace) -> Answer:
    """Do what is asked."""
    return _quantize(asked) if asked.exl3 == "quantize" else _show(asked)


def _quantize_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", type=Path, help="folder with config.json and *.safetensors, bf16 or MXFP4"
    )
    parser.add_argument("out", type=Path, help="folder to make; OUT.part holds what is not finished")
    parser.add_argument("--bits", type=float, required=True, help="bits a weight of all routed experts")
    parser.add_argument(
        "--rates", type=numbers, help="whole bits a matrix may have, as 3,4; 2,3,4 by default, or --bits alone if whole"
    )  # fmt: skip
    parser.add_argument(
        "--recording", type=Path, help="what its routers saw on text: Hessians, and prices of rates"
    )
    parser.add_argument(
        "--plan", type=Path, help="plan with tile 128: neurons are sorted by it before they are coded"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where experts are coded")
    parser.add_argument("--together", type=int, default=8, help="experts coded at once")
    parser.add_argument("--sample", type=int, default=4, help="experts of a layer by which rates are priced")
    parser.add_argument(
        "--factors", type=_factors, default=(), help="one a layer, as 7.6,2.8,2.1: by how much its damage exceeds what gradients tell"
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the signs before the Hadamard matrices")


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="folder with EXL3 experts")
    parser.add_argument("--ranks", type=int, default=4, help="tensor-parallel ranks")
    parser.add_argument(
        "--widths", type=numbers, help="their neurons where the split is another one, as 640,512"
    )
    parser.add_argument("--plan", type=Path, help="plan of this checkpoint; budget/plan inside it by default")


def _quantize(asked: argparse.Namespace) -> Answer:
    demand(_said(asked.checkpoint).get("quant_method") != "exl3", str(asked.checkpoint), "EXL3 already", "bf16 or MXFP4 experts", "quantise the checkpoint that it was made from")  # fmt: skip
    checkpoint = source(asked.checkpoint, asked.device)
    wanted = conversion.Wanted(
        bits=asked.bits, rates=_rates(asked), together=asked.together, sample=asked.sample, factors=asked.factors, seed=asked.seed,
        version=_version(),
    )  # fmt: skip
    _fits(checkpoint, wanted)
    demand(len(wanted.rates) == 1 or asked.recording, "--bits", f"{asked.bits} without --recording", "a whole number, or a recording by which layers differ")  # fmt: skip
    recording = recording_at(asked.recording) if asked.recording else None
    lacking = sorted(set(checkpoint.layers) - set(recording.header.layers)) if recording else []
    demand(not lacking, "recording", f"lacks layers {lacking}", f"all of {list(checkpoint.layers)}")
    begin = time.monotonic()
    made = conversion.Conversion(
        checkpoint=checkpoint,
        recording=recording,
        plan=_plan(asked.plan, checkpoint) if asked.plan else None,
        wanted=wanted,
        out=asked.out,
        tell=lambda text: _tell(f"{text}, {time.monotonic() - begin:.0f} s"),
    )
    report = made.run()
    document = {"checkpoint": str(asked.out), "seconds": round(time.monotonic() - begin, 1), **report}
    return 0, document, _made


def _factors(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(one) for one in text.split(","))
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers") from fault


def _rates(asked: argparse.Namespace) -> tuple[int, ...]:
    if asked.rates:
        allowed = [one for one in RATES if one > 1]
        demand(set(asked.rates) <= set(allowed), "--rates", asked.rates, f"of {allowed}: whole rates that our decoder and kernel take")  # fmt: skip
        rates = tuple(sorted(set(asked.rates)))
    else:
        rates = (int(asked.bits),) if asked.bits in {2, 3, 4} else (2, 3, 4)
    demand(rates[0] <= asked.bits <= rates[-1], "--bits", asked.bits, f"{rates[0]} to {rates[-1]}, within --rates")  # fmt: skip
    return rates


def _fits(checkpoint: Checkpoint, wanted: conversion.Wanted) -> None:
    demand(
        not wanted.factors or len(wanted.factors) == len(checkpoint.layers), "--factors", list(wanted.factors),
        f"one for each of {len(checkpoint.layers)} layers",
    )  # fmt: skip
    demand(wanted.together > 0 and wanted.sample > 0, "--together, --sample", (wanted.together, wanted.sample), "1 or more")  # fmt: skip
    for layer in checkpoint.layers:
        _, neurons, hidden = checkpoint.shape(layer)
        for name, side in (("neurons of an expert", neurons), ("hidden size", hidden)):
            demand(
                side % BLOCK == 0, f"layer {layer}: {name}", side, f"a multiple of {BLOCK}",
                "EXL3 mixes 128 neighbours on either side; leave such experts in MXFP4 or bf16",
            )  # fmt: skip


def _plan(path: Path, checkpoint: Checkpoint) -> Plan:
    plan = plan_file.read(path, checkpoint.hashes())
    demand(
        plan.meaning.tile % BLOCK == 0, f"{path.name}: $.tile", plan.meaning.tile, f"a multiple of {BLOCK}",
        "make the plan for EXL3: sparkctl-vllm plan --tile 128, with --widths where the split is uneven",
    )  # fmt: skip
    return plan


def _show(asked: argparse.Namespace) -> Answer:
    checkpoint = opened(asked.checkpoint)
    shapes = {layer: checkpoint.shape(layer) for layer in checkpoint.layers}
    neurons = next(iter(shapes.values())).neurons
    for layer in checkpoint.layers:  # one expert a layer: the marker's value is in no header
        for part in shapes[layer].rates:
            checkpoint.matrix(layer, 0, part)
    plan = _own_plan(asked.plan, checkpoint, shapes)
    widths = tuple(asked.widths) if asked.widths else plan.meaning.widths if plan else uneven(neurons, asked.ranks)  # fmt: skip
    account.widths_fit(widths, neurons)
    layers = [
        {
            "layer": layer,
            "experts": one.experts,
            "bits": dict(one.rates),
            "block_bytes": account.block_bytes(one),
            "kept": list(account.kept(plan, place)) if plan else None,
        }
        for place, (layer, one) in enumerate(shapes.items())
    ]
    ranks = [{"width": width, "bytes": account.rank_bytes(shapes, width)} for width in widths]
    document = {
        "checkpoint": str(asked.checkpoint),
        "bits": asdict(account.bits(shapes)),
        "ranks": ranks,
        "plan": plan is not None,
        "layers": layers,
    }
    return 0, document, _shown


def _own_plan(path: Path | None, checkpoint: Exl3Checkpoint, shapes: Mapping[int, Shape]) -> Plan | None:
    own = checkpoint.folder / conversion.PLAN
    if path is None and not own.with_suffix(".json").is_file():
        return None
    # Who made the plan is asked before its hashes: those of an unsorted plan are another checkpoint's, and that is not the remedy.
    account.fits(plan_file.read(path or own, {}, bound=False), shapes)
    return plan_file.read(path or own, checkpoint.hashes())


def _said(folder: Path) -> Mapping[str, Any]:
    path = folder / "quantization_config.json"
    said = read(path) if path.is_file() else {}
    return said if isinstance(said, dict) else {}


def _made(document: dict[str, Any]) -> str:
    lines = [
        f"{document['checkpoint']}, {'sorted' if document['sorted'] else 'not sorted'}, {document['seconds']} s",
        "",
    ]
    lines.append("layer  gate/up: K  error  proxy    down: K  error  proxy")
    for one in document["layers"]:
        cells = [f"{one['bits'][part]:>10}  {one['error'][part]:.4f}  {one['proxy'][part]:.4f}" for part in one["bits"]]  # fmt: skip
        lines.append(f"{one['layer']:>5}  {'  '.join(cells)}")
    return "\n".join(lines)


def _shown(document: dict[str, Any]) -> str:
    size = document["bits"]
    lines = [
        f"{document['checkpoint']}: {size['trellis']:.3f} bits a weight, {size['stored']:.3f} with scales",
        "",
    ]
    for rank, one in enumerate(document["ranks"]):
        lines.append(f"rank {rank}: {one['width']} neurons of every expert, {one['bytes'] / 2**30:.3f} GiB")
    title = (
        "kept at depth 1, 2, ... of all blocks, %"
        if document["plan"]
        else "no plan: what a depth keeps is not known"
    )
    lines += ["", f"layer  K gate/up/down  block, KB  {title}"]
    for one in document["layers"]:
        rates = "/".join(str(bits) for bits in one["bits"].values())
        depths = " ".join(f"{100 * share:5.1f}" for share in one["kept"] or ())
        lines.append(f"{one['layer']:>5}  {rates:>14}  {one['block_bytes'] / 1000:>9.0f}  {depths}".rstrip())
    return "\n".join(lines)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _version() -> str:
    try:
        return version("sparkctl-vllm")
    except PackageNotFoundError:
        return "0.0.0"  # read from a folder, not installed
