"""Survey: the moments of every layer of a checkpoint, one layer at a time, each kept in a file so that a run that broke off goes on.

The work folder holds survey.json, which names checkpoint and recording by their hashes, and one safetensors file a layer. A file that belongs
to another checkpoint or recording is refused, never mixed in.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sparkctl_vllm.calibration.checkpoint import Checkpoint
from sparkctl_vllm.calibration.moments import Moments, guessed, measured
from sparkctl_vllm.calibration.recording import Recording
from sparkctl_vllm.refusal import Refusal, demand

HEAD = "survey.json"


def surveyed(
    checkpoint: Checkpoint, recording: Recording | None, layers: Sequence[int], work: Path | None
) -> Iterator[tuple[int, Moments]]:
    """Yield layer and moments; those that lie in `work` already are read, the others measured and written there."""
    if work is not None:
        _begun(work, checkpoint, recording)
    for layer in layers:
        path = work / f"moments-{layer:03d}.safetensors" if work is not None else None
        yield layer, _kept(path, partial(_layer, checkpoint, recording, layer))


def identity(checkpoint: Checkpoint, recording: Recording | None) -> dict[str, str]:
    """Return the hashes of what a survey is made of."""
    text = "gaussian inputs" if recording is None else f"{recording.header.text} seed {recording.header.seed}"
    return {
        **checkpoint.hashes(),
        "recording": sha256(text.encode()).hexdigest(),
        "experts": f"1 in {checkpoint.every}",
    }


def _layer(checkpoint: Checkpoint, recording: Recording | None, layer: int) -> Moments:
    if recording is None:
        return guessed(checkpoint, layer)
    demand(
        layer in recording.header.layers, "layer", layer, f"recorded ones: {list(recording.header.layers)}"
    )
    return measured(checkpoint, layer, recording.routed(layer))


def _kept(path: Path | None, make: Callable[[], Moments]) -> Moments:
    if path is None:
        return make()
    if not path.is_file():
        unfinished = path.with_suffix(".part")
        save_file(dict(make().tables()), str(unfinished))
        unfinished.replace(path)
    try:
        return Moments(**load_file(str(path)))
    except (SafetensorError, TypeError) as fault:
        raise Refusal(str(path), fault, "the moments of a layer", "delete it and run again") from fault


def _begun(work: Path, checkpoint: Checkpoint, recording: Recording | None) -> None:
    work.mkdir(parents=True, exist_ok=True)
    path, mine = work / HEAD, identity(checkpoint, recording)
    if not path.is_file():
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(mine, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        unfinished.replace(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise Refusal(str(path), fault, "a JSON document", "name another work folder") from fault
    demand(
        found == mine,
        str(path),
        "made from another checkpoint or recording",
        "the work folder of this checkpoint and recording",
        "name another with --work",
    )
