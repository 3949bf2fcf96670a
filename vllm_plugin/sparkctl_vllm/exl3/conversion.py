"""Conversion: a checkpoint to one whose routed experts are EXL3, layer by layer; a run that broke off goes on where it was.

All is made in OUT.part and only moved to OUT when it is whole, so nothing half-made has a name that loads. In OUT.part/work every few experts have a
file, every finished layer a report; a shard is put together as soon as its layers are there, and what it took from is deleted. A work
folder of another checkpoint, recording, plan or wish is refused.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from sparkctl_vllm import plan_file
from sparkctl_vllm.calibration.checkpoint import Checkpoint
from sparkctl_vllm.calibration.recording import Recording, Routed
from sparkctl_vllm.exl3 import checkpoint as exl3_checkpoint
from sparkctl_vllm.exl3 import config, layer
from sparkctl_vllm.exl3.allocation import Priced, Rates, allocated, weighted
from sparkctl_vllm.exl3.files import linked, read, save
from sparkctl_vllm.exl3.shards import Entry, entries, written
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.refusal import demand

HEAD, REPORT, INDEX = "conversion.json", "exl3_report.json", "model.safetensors.index.json"
PLAN = "budget/plan"
"""In a folder of its own: servers take every safetensors file beside config.json for weights."""
OURS = ("config.json", "quantization_config.json", INDEX, f"{PLAN}.json", f"{PLAN}.safetensors", REPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for."""

    bits: float
    rates: tuple[int, ...] = (2, 3, 4)
    together: int = 8
    """Experts that are coded at once."""
    sample: int = 4
    """Experts of a layer by which its rates are priced."""
    factors: tuple[float, ...] = ()
    """One a layer, by which its gain is multiplied before bits are given out; none: 1."""
    seed: int = 0
    version: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A conversion and what it is made from."""

    checkpoint: Checkpoint
    recording: Recording | None
    plan: Plan | None
    wanted: Wanted
    out: Path
    tell: Callable[[str], None]

    @property
    def _part(self) -> Path:
        return self.out.with_name(f"{self.out.name}.part")

    @property
    def _work(self) -> Path:
        return self._part / "work"

    @property
    def _model(self) -> Path:
        return self._part / "model"

    def run(self) -> dict[str, Any]:
        """Make the checkpoint and return its report."""
        self._begin()
        rates, priced = self._rates()
        for number in self.checkpoint.layers:
            self._code(number, rates[number])
            self._assemble()
        report = self._report(rates, priced)
        self._finish(rates, report)
        return report

    def _begin(self) -> None:
        demand(
            not self.out.exists(), str(self.out), "is there already", "a folder that is not", "name another"
        )
        for folder in (self._work, self._model):
            folder.mkdir(parents=True, exist_ok=True)
        head, mine = self._work / HEAD, self._identity()
        if not head.is_file():
            save(head, mine)
        demand(
            read(head) == mine,
            str(self._part),
            "made from another checkpoint, recording, plan or wish",
            "the same ones as when it was begun",
            f"delete {self._part}, or name another folder",
        )

    def _identity(self) -> dict[str, Any]:
        header = None if self.recording is None else asdict(self.recording.header)
        plan = None if self.plan is None else self.plan.meaning.tables
        mine = {"checkpoint": self.checkpoint.hashes(), "recording": header, "plan": plan, "wanted": asdict(self.wanted)}  # fmt: skip
        answer: dict[str, Any] = json.loads(json.dumps(mine))
        return answer

    def _rates(self) -> tuple[Rates, Mapping[int, Priced]]:
        layers, rates = self.checkpoint.layers, self.wanted.rates
        if len(rates) == 1 or self.recording is None:
            whole = int(self.wanted.bits)
            return {number: {"gate_up": whole, "down": whole} for number in layers}, {}
        priced: Mapping[int, Priced] = {number: self._priced(number) for number in layers}
        if self.wanted.factors:
            priced = weighted(priced, self.wanted.factors)
        return allocated(priced, self.wanted.bits, rates), priced

    def _priced(self, number: int) -> Priced:
        path = self._work / f"rates-{number:03d}.json"
        if not path.is_file():
            experts, _, _ = self.checkpoint.shape(number)
            chosen = range(0, experts, max(1, experts // self.wanted.sample))
            routed = self._routed(number)
            assert routed is not None  # noqa: S101 - rates are priced only with a recording
            save(path, asdict(layer.priced(self._layer(number, routed), routed, chosen, self.wanted.rates)))
            self.tell(f"layer {number}: rates priced")
        said = read(path)
        proxy = {part: {int(bits): off for bits, off in one.items()} for part, one in said["proxy"].items()}
        return Priced(gain=said["gain"], tokens=said["tokens"], proxy=proxy)

    def _code(self, number: int, bits: Mapping[str, int]) -> None:
        done = self._work / f"layer-{number:03d}.json"
        if done.is_file():
            return
        experts, _, _ = self.checkpoint.shape(number)
        routed, reports = self._routed(number), []
        for begin in range(0, experts, self.wanted.together):
            chosen = range(begin, min(begin + self.wanted.together, experts))
            path = self._work / f"experts-{number:03d}-{begin:04d}.safetensors"
            told = path.with_suffix(".json")
            if not (path.is_file() and told.is_file()):
                tensors, found = layer.coded(self._layer(number, routed), chosen, bits)
                save_file(tensors, str(path.with_suffix(".writing")))
                save(told, [asdict(one) for one in found])
                path.with_suffix(".writing").replace(path)
            reports += read(told)
        save(done, reports)
        self.tell(f"layer {number}: K {bits['gate_up']} and {bits['down']}")

    def _layer(self, number: int, routed: Routed | None) -> layer.Work:
        order = None
        if self.plan is not None:
            order = self.plan.tables[f"perm.L{self.checkpoint.layers.index(number)}"]
        return layer.Work(checkpoint=self.checkpoint, layer=number, routed=routed, order=order, seed=self.wanted.seed)  # fmt: skip

    def _routed(self, number: int) -> Routed | None:
        if self.recording is None:
            return None
        routed = self.recording.routed(number)
        experts, _, hidden = self.checkpoint.shape(number)
        asked = int(routed.picks.max()) if routed.picks.numel() else 0
        demand(
            routed.x.shape[1] == hidden and asked < experts,
            f"layer {number} of the recording",
            f"hidden size {routed.x.shape[1]}, picks up to {asked}",
            f"{hidden}, below {experts}: the checkpoint's",
            "record the model of this checkpoint",
        )
        return routed

    def _assemble(self) -> None:
        """Put together every shard whose layers are coded, then delete the files of layers that no shard wants any more."""
        wanted = self._shards()
        for file, layers in wanted.items():
            target = self._model / file.name
            if not target.is_file() and all(
                (self._work / f"layer-{one:03d}.json").is_file() for one in layers
            ):
                coded = {name: one for number in layers for name, one in self._coded(number).items()}
                written(target, _replaced(self.checkpoint, file, coded))
        for number in self.checkpoint.layers:
            if all(
                (self._model / file.name).is_file() for file, layers in wanted.items() if number in layers
            ):
                for one in self._work.glob(f"experts-{number:03d}-*"):
                    one.unlink()

    def _shards(self) -> dict[Path, set[int]]:
        answer: dict[Path, set[int]] = {}
        for number, experts in self.checkpoint.places.items():
            for held in experts:
                for place in held.values():
                    answer.setdefault(place.file, set()).add(number)
        return answer

    def _coded(self, number: int) -> dict[str, Entry]:
        files = sorted(self._work.glob(f"experts-{number:03d}-*.safetensors"))
        return {name: one for file in files for name, one in entries(file).items()}

    def _report(self, rates: Rates, priced: Mapping[int, Priced]) -> dict[str, Any]:
        layers = []
        for number in self.checkpoint.layers:
            told = read(self._work / f"layer-{number:03d}.json")
            mean = {
                kind: {part: sum(one[kind][part] for one in told) / len(told) for part in rates[number]}
                for kind in ("error", "proxy")
            }
            layers.append({"layer": number, "bits": dict(rates[number]), **mean, "tokens": sum(one["tokens"] for one in told)})  # fmt: skip
        costs = {str(number): asdict(one) for number, one in priced.items()}
        return {"schema": 1, "sorted": self.plan is not None, "layers": layers, "priced": costs}

    def _finish(self, rates: Rates, report: Mapping[str, Any]) -> None:
        source = self.checkpoint.folder
        for file in sorted(source.rglob("*")):
            target = self._model / file.relative_to(source)
            if file.is_file() and str(file.relative_to(source)) not in OURS and not target.exists():
                linked(file, target)
        tensors = {name: one for file in sorted(self._model.glob("*.safetensors")) for name, one in entries(file).items()}  # fmt: skip
        if (source / INDEX).is_file():
            save(self._model / INDEX, config.index(read(source / INDEX), tensors))  # fmt: skip
        header = None if self.recording is None else self.recording.header
        rows, tokens = (header.batches, header.tokens) if header else (0, 0)
        seen = {"rows": rows, "cols": tokens // max(1, rows)}
        block = config.summary(self.checkpoint.config, rates, seen, self.wanted.version)
        save(self._model / "quantization_config.json", {**block, "tensor_storage": config.table(tensors)})
        save(self._model / REPORT, report)
        save(self._model / "config.json", {**self.checkpoint.config, "quantization_config": block})
        if self.plan is not None:
            hashes = exl3_checkpoint.opened(self._model).hashes()
            meaning = replace(self.plan.meaning, checkpoint=hashes, format="exl3", applied=True)
            (self._model / PLAN).parent.mkdir(exist_ok=True)
            plan_file.write(replace(self.plan, meaning=meaning), self._model / PLAN)
        self._model.replace(self.out)
        shutil.rmtree(self._part)


def _replaced(checkpoint: Checkpoint, file: Path, coded: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return a shard's tensors with those of experts replaced; scales go, all others stay byte for byte."""
    gone = {place.name: kind for experts in checkpoint.places.values() for held in experts for (_, kind), place in held.items()}  # fmt: skip
    answer: dict[str, Entry] = {}
    for name, one in entries(file).items():
        if name not in gone:
            answer[name] = one
        elif gone[name] == "weight":
            module = name.removesuffix(".weight")
            for kind in ("trellis", "suh", "svh", layer.CODEBOOK):
                answer[f"{module}.{kind}"] = coded[f"{module}.{kind}"]
    return answer
