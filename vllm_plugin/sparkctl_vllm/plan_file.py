"""Plan file: what calibration found, beside the checkpoint that it holds for.

Two files: NAME.safetensors with the tables, NAME.json with what they mean and the hashes that bind them. Loading refuses whatever does not
fit: another schema, another model, changed tables, a table whose shape contradicts the widths, importances that rise.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sparkctl_vllm.refusal import Refusal, demand
from sparkctl_vllm.waterfill import check

SCHEMA = 1
FORMATS = ("mxfp4", "bf16", "exl3")
LEAST_TILE = {"mxfp4": 64, "bf16": 64, "exl3": 128}
"""Neurons that can be dropped together: an EXL3 matrix mixes 128 neighbours, so nothing smaller is a cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure with its bounds."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the JSON file says."""

    schema: int = SCHEMA
    model: str
    checkpoint: Mapping[str, str]
    """Name to SHA-256: the configuration, and one named tensor a layer."""
    experts: int
    layers: int
    widths: tuple[int, ...]
    """Neurons of each rank's slice, in the order of the ranks."""
    tile: int
    format: str
    applied: bool
    """The checkpoint's neurons are already sorted."""
    eps: float
    h: float
    d_max: float
    floor_tiles: int
    min_tiles: int
    corpus: str
    """SHA-256 of the calibration text."""
    corpus_tokens: int
    predicted: Mapping[str, Interval]
    """Rows of a step to predicted KL a token."""
    commit: str
    tables: str = ""
    """SHA-256 of the safetensors file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan: its meaning and its tables.

    `perm.L{l}` uint16 [experts, neurons], `D.L{l}` float32 [experts, tiles of all ranks, rank after rank], `count.L{l}` uint32 [experts],
    `price` float32 [layers, most rows + 1], `fisher` float32 [layers]; `ladder` uint8 [layers, most rows + 1, top-k], tiles of a rank's slice
    by place in the router's order, where the plan can be read by router rank too.
    """

    meaning: Meaning
    tables: Mapping[str, NDArray[Any]]

    def importance(self, layer: int, rank: int) -> NDArray[np.float32]:
        """Return one rank's importances of a layer, [experts, tiles of this rank]."""
        counts = [width // self.meaning.tile for width in self.meaning.widths]
        begin = sum(counts[:rank])
        return np.asarray(self.tables[f"D.L{layer}"][:, begin : begin + counts[rank]], dtype=np.float32)

    def price(self, layer: int, rows: int) -> float:
        """Return the price of a layer for a step of so many rows."""
        table = self.tables["price"]
        demand(
            0 < rows < table.shape[1],
            "rows of a step",
            rows,
            f"1 to {table.shape[1] - 1}, what the plan was made for",
        )
        return float(table[layer, rows])

    def ladder(self, layer: int, rows: int) -> tuple[int, ...]:
        """Return the tiles of a layer by router rank for a step of so many rows."""
        table = _table(self, "ladder", 3)
        demand(
            0 < rows < table.shape[1],
            "rows of a step",
            rows,
            f"1 to {table.shape[1] - 1}, what the plan was made for",
        )
        return tuple(int(depth) for depth in table[layer, rows])


def write(plan: Plan, path: Path) -> None:
    """Write both files: `path` without suffix names them."""
    _fits(plan)
    tables = {name: np.ascontiguousarray(table) for name, table in plan.tables.items()}
    save_file(tables, str(path.with_suffix(".safetensors")))
    digest = sha256(path.with_suffix(".safetensors").read_bytes()).hexdigest()
    text = json.dumps({**asdict(plan.meaning), "tables": digest}, indent=2, sort_keys=True)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def read(path: Path, checkpoint: Mapping[str, str], *, bound: bool = True) -> Plan:
    """Read a plan and hold it against the checkpoint's hashes (name to SHA-256): every name of the plan must be there and equal.

    Not `bound`, a plan is only looked at.
    """
    meaning = meaning_of(path)
    for name, digest in meaning.checkpoint.items() if bound else ():
        found = checkpoint.get(name, "not in this checkpoint")
        demand(
            found == digest,
            f"{path.name}: {name}",
            found,
            digest,
            "calibrate on this checkpoint, or name the other",
        )
    blob = path.with_suffix(".safetensors")
    demand(blob.is_file(), str(blob), "no such file", "the tables of the plan")
    digest = sha256(blob.read_bytes()).hexdigest()
    demand(
        digest == meaning.tables,
        f"{blob.name}: SHA-256",
        digest,
        meaning.tables,
        "both files belong together: copy both",
    )
    try:
        tables = load_file(str(blob))
    except SafetensorError as fault:
        raise Refusal(blob.name, fault, "a safetensors file") from fault
    plan = Plan(meaning=meaning, tables=tables)
    _fits(plan)
    return plan


def meaning_of(path: Path) -> Meaning:
    """Read what the JSON file of a plan says, without its tables."""
    path = path.with_suffix(".json")
    demand(path.is_file(), str(path), "no such file", "a plan written by calibration")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise Refusal(path.name, fault, "a JSON document") from fault
    demand(isinstance(document, dict), path.name, type(document).__name__, "a JSON object")
    known = {one.name for one in fields(Meaning)}
    demand(
        set(document) == known,
        path.name,
        f"keys off: {sorted(set(document) ^ known)}",
        f"exactly {sorted(known)}",
    )
    demand(document["schema"] == SCHEMA, f"{path.name}: $.schema", document["schema"], str(SCHEMA))
    try:
        predicted = {rows: Interval(**one) for rows, one in document["predicted"].items()}
        return Meaning(**{**document, "widths": tuple(document["widths"]), "predicted": predicted})
    except (TypeError, AttributeError) as fault:
        raise Refusal(f"{path.name}: $.predicted", fault, "rows to {estimate, low, high}") from fault


def _fits(plan: Plan) -> None:
    meaning = plan.meaning
    demand(meaning.format in FORMATS, "$.format", meaning.format, ", ".join(FORMATS))
    least = LEAST_TILE[meaning.format]
    demand(
        meaning.tile > 0 and meaning.tile % least == 0,
        "$.tile",
        meaning.tile,
        f"a multiple of {least} for {meaning.format}",
    )
    whole = bool(meaning.widths) and all(width > 0 and width % meaning.tile == 0 for width in meaning.widths)
    demand(whole, "$.widths", meaning.widths, f"multiples of the tile, {meaning.tile}")
    demand(meaning.eps > 0, "$.eps", meaning.eps, "more than 0")
    demand(
        1 <= meaning.min_tiles <= meaning.floor_tiles,
        "$.min_tiles",
        meaning.min_tiles,
        f"1 to {meaning.floor_tiles}, $.floor_tiles",
    )
    for layer in range(meaning.layers):
        _layer_fits(plan, layer)
    price = _table(plan, "price", 2)
    demand(price.shape[0] == meaning.layers, "price", price.shape, f"[{meaning.layers} layers, rows + 1]")
    demand(np.isfinite(price).all() and (price >= 0).all(), "price", "NaN, infinite or negative", "0 or more")
    demand(
        _table(plan, "fisher", 1).shape == (meaning.layers,),
        "fisher",
        plan.tables["fisher"].shape,
        f"[{meaning.layers}]",
    )
    if "ladder" in plan.tables:
        _ladders_fit(plan, price.shape[1])


def _ladders_fit(plan: Plan, sizes: int) -> None:
    meaning, table = plan.meaning, _table(plan, "ladder", 3)
    demand(
        table.shape[:2] == (meaning.layers, sizes),
        "ladder",
        table.shape,
        f"[{meaning.layers}, {sizes}, top-k]",
    )
    rises = bool((np.diff(table.astype(np.int64), axis=2) > 0).any())
    demand(not rises, "ladder", "rising along the ranks", "non-increasing")
    most, steps = min(meaning.widths) // meaning.tile, table[:, 1:]
    inside = bool((steps >= meaning.min_tiles).all() and (steps <= most).all())
    demand(inside, "ladder", "depths outside", f"{meaning.min_tiles} to {most} tiles of the narrowest slice")


def _layer_fits(plan: Plan, layer: int) -> None:
    meaning = plan.meaning
    neurons = sum(meaning.widths)
    important = _table(plan, f"D.L{layer}", 2)
    wanted = (meaning.experts, neurons // meaning.tile)
    demand(important.shape == wanted, f"D.L{layer}", important.shape, str(wanted))
    for rank in range(len(meaning.widths)):
        check(plan.importance(layer, rank))
    perm = _table(plan, f"perm.L{layer}", 2)
    demand(
        perm.shape == (meaning.experts, neurons),
        f"perm.L{layer}",
        perm.shape,
        f"({meaning.experts}, {neurons})",
    )
    begin = 0
    for width in meaning.widths:
        slice_ = np.sort(perm[:, begin : begin + width], axis=1)
        inside = (slice_ == np.arange(begin, begin + width)).all()
        demand(
            inside,
            f"perm.L{layer}",
            "neurons doubled or of another rank",
            "a permutation of each rank's own slice",
        )
        begin += width
    count = _table(plan, f"count.L{layer}", 1)
    demand(count.shape == (meaning.experts,), f"count.L{layer}", count.shape, f"({meaning.experts},)")


def _table(plan: Plan, name: str, rank: int) -> NDArray[Any]:
    demand(name in plan.tables, name, "not in the file", "a table of the plan")
    table = plan.tables[name]
    demand(table.ndim == rank, name, f"rank {table.ndim}", f"rank {rank}")
    return table
