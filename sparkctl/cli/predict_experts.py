"""`sparkctl predict experts`: one expert on the roofline, what a batch makes of it, and the plot."""

from pathlib import Path
from typing import Annotated, Any

import typer

from launcher.capacity.preset import Experts, Hardware, Model
from sparkctl.cli import presets
from sparkctl.cli.presets import HardwareOption, ModelOption
from sparkctl.cli.session import RecipeOption, Session, verb
from sparkctl.console import Column
from sparkctl.errors import Refused, UsageFault
from tuner.roofline import expert, routing
from tuner.roofline.expert import Roof

BATCHES = (1, 16, 64, 256, 1024)
ENDINGS = (".png", ".svg")


@verb
def experts(
    session: Session,
    recipe: RecipeOption = None,
    model: ModelOption = None,
    hardware: HardwareOption = "gb10",
    tokens: Annotated[
        list[int] | None, typer.Option("--tokens", min=1, help="Tokens on each GPU; may stand several times.")
    ] = None,
    width: Annotated[int, typer.Option("--ep", min=1, help="GPUs that share the experts.")] = 1,
    slots: Annotated[
        int | None,
        typer.Option("--slots", min=1, help="Expert slots of the group, redundant copies counted."),
    ] = None,
    draws: Annotated[
        int,
        typer.Option("--draws", min=0, help="Also draw the busiest GPU's load in so many simulated steps."),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draws.")] = 1,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the roofline: a .png or .svg file.")
    ] = None,
) -> int:
    """Place a model's expert on a GPU's roofline; predicted from shapes and peaks, nothing is run."""
    _demand_ending(plot)
    chosen = presets.model(model) if model else presets.of_recipe(presets.recipe(session, recipe, None), None)
    gpu = presets.hardware(hardware)
    shape = chosen.experts
    held = _slots(shape, width, slots)
    rows = [_row(shape, expert.roof(gpu, shape), count, width, held) for count in tokens or BATCHES]
    if draws:
        for row in rows:
            row["busiest_drawn"] = routing.simulated(shape, row["tokens"], width, draws=draws, seed=seed)
    _show(session, chosen, gpu, rows, width)
    if plot:
        from sparkctl.cli import roofline_plot  # noqa: PLC0415  # matplotlib takes longer than all the rest

        points = {f"{row['tokens']:,} tokens": row["intensity"] for row in rows}
        roofline_plot.draw(plot, gpu, chosen, points)
        session.console.say(f"{plot}: drawn")
    session.console.answer(_answer(chosen, gpu, rows, width, held))
    return 0


def _demand_ending(plot: Path | None) -> None:
    if plot is not None and plot.suffix not in ENDINGS:
        raise UsageFault(
            f"--plot {plot}: wanted a file that ends in {' or '.join(ENDINGS)}",
            hint="for example roofline.svg",
        )


def _slots(shape: Experts, width: int, slots: int | None) -> int:
    if width > (slots or shape.routed):
        raise Refused(
            f"--ep is {width}: {slots or shape.routed} slots of experts cannot be spread over more GPUs than they are",
            hint=f"--ep {shape.routed} at most, or redundant copies with --slots",
        )
    if slots is None:
        return shape.routed
    if slots < shape.routed or slots % width:
        raise UsageFault(
            f"--slots is {slots}: wanted at least the {shape.routed} experts, and a multiple of --ep {width}",
            hint=f"--slots {routing.slots(shape, width)} has 32 redundant copies at least, as DeepSeek's decode benchmark",
        )
    return slots


def _row(shape: Experts, roof: Roof, tokens: int, width: int, slots: int) -> dict[str, Any]:
    per_expert = routing.tokens_per_expert(shape, tokens, width, slots)
    distinct = routing.touched(shape, tokens * width)
    found = expert.intensity(shape, per_expert * shape.routed / distinct)
    moved = distinct * expert.weight_bytes(shape)
    return {
        "tokens": tokens,
        "tokens_per_expert": per_expert,
        "distinct": distinct,
        "group_bytes_per_layer": moved,
        "bytes_per_token": moved / (tokens * width),
        "intensity": found,
        "bound_by": "memory" if found < roof.ridge else "compute",
        "busiest": routing.busiest(shape, tokens, width) if width > 1 else 1.0,
    }


def _show(session: Session, chosen: Model, gpu: Hardware, rows: list[dict[str, Any]], width: int) -> None:
    console, shape = session.console, chosen.experts
    console.show(f"{chosen.name} on {gpu.name}: routed experts, predicted")
    for name, text in _facts(shape, gpu):
        console.show(f"  {name:<9}{text}")
    titles = ["tokens", "per expert", "distinct", "GB/layer", "MB/token", "FLOP/byte", "bound by"]
    drawn = "busiest_drawn" in rows[0]
    if width > 1:
        titles.append("busiest")
    if drawn:
        titles.append("drawn")
    console.table(
        tuple(Column(title=title) for title in titles),
        [_cells(row, wide=width > 1, drawn=drawn) for row in rows],
    )
    console.say("uniform, independent routing; real batches touch fewer experts and spread less evenly")


def _cells(row: dict[str, Any], *, wide: bool, drawn: bool) -> tuple[str, ...]:
    cells = [
        f"{row['tokens']:,}",
        f"{row['tokens_per_expert']:,.2f}",
        f"{row['distinct']:.1f}",
        f"{row['group_bytes_per_layer'] / 1e9:.3f}",
        f"{row['bytes_per_token'] / 1e6:,.1f}",
        f"{row['intensity']:,.1f}",
        row["bound_by"],
    ]
    if wide:
        cells.append(f"+{(row['busiest'] - 1):.1%}")
    if drawn:
        cells.append(f"+{(row['busiest_drawn'] - 1):.1%}")
    return tuple(cells)


def _facts(shape: Experts, gpu: Hardware) -> list[tuple[str, str]]:
    weight, flop, visit = expert.weight_bytes(shape), expert.flop(shape), expert.visit_bytes(shape)
    size = f"{expert.parameters(shape) / 1e6:.1f} M weights of {shape.bits:g} bits, {weight / 1e6:.1f} MB"
    facts = [
        ("expert", f"{size}; {flop / 1e6:.1f} MFLOP a token"),
        ("visit", f"{visit:,} bytes in and out; no batch passes {expert.ceiling(shape):,.0f} FLOP/byte"),
    ]
    for name, speed in gpu.bandwidth_gb_s.items():
        roof = expert.roof(gpu, shape, name)
        peaks = f"{gpu.tflop_s[shape.arithmetic]:,g} TFLOP/s {shape.arithmetic}, {speed:,g} GB/s ({name})"
        facts.append(("roof", f"{peaks}: ridge {roof.ridge:,.0f} FLOP/byte"))
        all_bytes = expert.crossing(shape, roof.ridge)
        alone = expert.crossing(shape, roof.ridge, activations=False)
        facts.append(
            ("", f"crossed at {all_bytes:,.0f} tokens an expert, {alone:,.0f} counting weights alone")
        )
    return facts


def _answer(
    chosen: Model, gpu: Hardware, rows: list[dict[str, Any]], width: int, slots: int
) -> dict[str, Any]:
    shape = chosen.experts
    return {
        "model": chosen.name,
        "hardware": gpu.name,
        "predicted": True,
        "expert": {
            "parameters": expert.parameters(shape),
            "bytes": expert.weight_bytes(shape),
            "flop_per_token": expert.flop(shape),
            "visit_bytes": expert.visit_bytes(shape),
            "ceiling": expert.ceiling(shape),
        },
        "roofs": {
            name: {
                "ridge": (roof := expert.roof(gpu, shape, name)).ridge,
                "crossing": expert.crossing(shape, roof.ridge),
                "crossing_weights_alone": expert.crossing(shape, roof.ridge, activations=False),
            }
            for name in gpu.bandwidth_gb_s
        },
        "width": width,
        "slots": slots,
        "batches": rows,
    }
