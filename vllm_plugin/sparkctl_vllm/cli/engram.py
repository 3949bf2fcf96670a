"""`sparkctl-vllm engram count | merge | cover | pack | steps | race`: from text to hot rows: which are read, what they answer, their files."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparkctl_vllm.cli import engram_count, engram_race, engram_steps
from sparkctl_vllm.engram import checkpoint, counts, hot_rows
from sparkctl_vllm.engram.coverage import Covered, covered
from sparkctl_vllm.engram.tables import Slice, Table, v41_flash
from sparkctl_vllm.refusal import Refusal, demand

Answer = tuple[int, dict[str, Any], Callable[[dict[str, Any]], str]]
SIZES = (1_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of this verb."""
    verbs = parser.add_subparsers(dest="engram", required=True, metavar="VERB")
    for name, told, add in (
        ("count", "count the rows that a corpus reads; goes on where it broke off", _count_options),
        (
            "merge",
            "add up counts of several nodes; a corpus that is in two of them is refused",
            engram_count.merge_options,
        ),
        (
            "steps",
            "write the steps of held-out text on which a server times both paths at its start",
            _steps_options,
        ),
        ("race", "are a rank's hot rows faster than its disk on this node? 0 yes, 1 no", _race_options),
        (
            "cover",
            "what share of held-out lookups the hottest rows answer, by rows kept, for each table",
            _cover_options,
        ),
        (
            "pack",
            "write a rank's hot rows, or all of its rows, from the checkpoint into a file",
            _pack_options,
        ),
    ):
        one = verbs.add_parser(name, help=told, description=told)
        # Also taken behind the inner verb, where people write it.
        one.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document on stdout"
        )
        add(one)


def run(asked: argparse.Namespace) -> Answer:
    """Do what is asked."""
    verbs: dict[str, Callable[[argparse.Namespace], Answer]] = {
        "count": lambda told: engram_count.count(told, _tables(told.layer)),
        "merge": lambda told: engram_count.merge(told, _tables(None)),
        "cover": _cover,
        "pack": _pack,
        "race": _race,
        "steps": _steps,
    }
    return verbs[asked.engram](asked)


def _cover_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("counts", type=Path, help="counts that choose the rows")
    parser.add_argument(
        "--held-out", type=Path, required=True, metavar="COUNTS", help="counts of other text, that judge them"
    )
    parser.add_argument(
        "--rows", type=_sizes, default=SIZES, metavar="N,N,...", help="rows kept of a table, over all ranks"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the curves (needs matplotlib)")


def _pack_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", type=Path, help="the model's folder, or the safetensors file of the table"
    )
    parser.add_argument("--layer", type=int, required=True, choices=[one.layer for one in v41_flash()])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True, help="ranks of tensor parallelism")
    parser.add_argument("-o", dest="path", type=Path, required=True, help="the rows file to write")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--counts", type=Path, help="counts that choose the rows")
    which.add_argument("--all", action="store_true", help="all rows of the rank, some 25 GB: one read a row")
    parser.add_argument("--rows", type=int, help="hot rows of the whole table, over all ranks")
    parser.add_argument(
        "--format", choices=["fp8", "fp4"], default="fp8", help="fp4 takes half and is not exact"
    )


def _count_options(parser: argparse.ArgumentParser) -> None:
    engram_count.count_options(parser, [one.layer for one in v41_flash()])


def _race_options(parser: argparse.ArgumentParser) -> None:
    engram_race.options(parser, [one.layer for one in v41_flash()])


def _steps_options(parser: argparse.ArgumentParser) -> None:
    engram_steps.options(parser, [one.layer for one in v41_flash()])


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(one.replace("_", "")) for one in text.split(","))
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers") from fault
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError("rows are 1 or more")
    return sizes


def _cover(asked: argparse.Namespace) -> Answer:
    chosen, judged = counts.read(asked.counts), counts.read(asked.held_out)
    found = covered(chosen, judged, asked.rows)
    if asked.plot:
        _plotted(found, asked.plot)
    document = {
        "schema": "sparkctl-engram-cover/1",
        "tokens": chosen.tokens,
        "held_out_tokens": judged.tokens,
        "covered": [asdict(one) for one in found],
    }
    return 0, document, _curve


def _pack(asked: argparse.Namespace) -> Answer:
    owned = _owned(asked)
    table = owned.table
    found = checkpoint.shard(asked.checkpoint, table.layer)
    if asked.all:
        demand(asked.rows is None, "--rows", asked.rows, "nothing beside --all")
        demand(
            asked.format == "fp8",
            "--format",
            asked.format,
            "fp8 beside --all: what is read from disk is exact",
        )
        meaning = hot_rows.all_rows(asked.path, found, owned)
    else:
        demand(
            asked.rows and asked.rows > 0,
            "--rows",
            asked.rows,
            "how many hot rows of the whole table to keep",
        )
        counted = counts.read(asked.counts).tables.get(table.layer)
        if counted is None:
            raise Refusal(asked.counts.name, f"no counts of layer {table.layer}", "counts of both tables")
        ids = hot_rows.of_rank(counted, asked.rows, owned)
        digest = counts.digest(asked.counts)
        meaning = hot_rows.pack(asked.path, found, owned, ids, kind=asked.format, counts=digest)
    document = {
        "schema": "sparkctl-engram-pack/1",
        "path": str(asked.path),
        "bytes": meaning.size,
        **asdict(meaning),
    }
    return 0, document, _packed


def _race(asked: argparse.Namespace) -> Answer:
    code, document = engram_race.run(asked, _owned(asked))
    return (
        code,
        document,
        lambda told: f"{told['told']}; {told['resident_share']:.1%} of the lookups resident",
    )


def _steps(asked: argparse.Namespace) -> Answer:
    (table,) = _tables(asked.layer)
    code, document = engram_steps.run(asked, table)
    return (
        code,
        document,
        lambda told: (
            f"{told['path']}: {told['steps']} steps of {told['tokens']} tokens, layer {told['layer']}"
        ),
    )


def _owned(asked: argparse.Namespace) -> Slice:
    (table,) = _tables(asked.layer)
    slices = table.slices(asked.ranks)
    rank: int = asked.rank
    demand(0 <= rank < len(slices), "--rank", rank, f"0 to {len(slices) - 1}")
    return slices[rank]


def _tables(layer: int | None) -> tuple[Table, ...]:
    return tuple(one for one in v41_flash() if layer in {None, one.layer})


def _curve(document: dict[str, Any]) -> str:
    lines = [
        f"{'layer':>5} {'rows kept':>13} {'answers':>8}  of lookups in {document['held_out_tokens']:,} held-out tokens"
    ]
    for one in document["covered"]:
        bar = "#" * round(40 * one["share"])
        lines.append(f"{one['layer']:>5} {one['rows']:>13,} {one['share']:>8.1%}  {bar}")
    return "\n".join(lines)


def _packed(document: dict[str, Any]) -> str:
    where = f"layer {document['layer']}, rank {document['rank']} of {document['ranks']}"
    return f"{document['path']}: {document['rows']:,} rows of {where}, {document['bytes'] / 2**30:.2f} GiB"


def _plotted(found: Sequence[Covered], path: Path) -> None:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and only drawing needs it
    except ImportError as fault:
        raise Refusal(
            "matplotlib",
            "not installed",
            "the library of that name",
            "pip install matplotlib, or leave --plot out",
        ) from fault
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for layer in sorted({one.layer for one in found}):
        own = [one for one in found if one.layer == layer]
        axes.plot(
            [one.rows for one in own], [100 * one.share for one in own], marker="o", label=f"layer {layer}"
        )
    axes.set(
        xscale="log", ylim=(0, 100), xlabel="rows kept of a table", ylabel="held-out lookups answered, %"
    )
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)
