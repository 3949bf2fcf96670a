"""Trains the mini model on text for so many seconds, and writes a checkpoint.

Usage: python benchmarks/mini_moe_train.py TOKENS.xz -o FOLDER [--seconds 390] [--rows 256] [--positions 256] [--seed 0]

TOKENS.xz comes from mini_moe_text.py. AdamW, bf16 arithmetic over float32 weights, cosine over the time that is given, so it always ends in
time; experts are rounded to MXFP4 from 40 % of it on. Router biases follow the loads (auxiliary-loss-free balancing). Prints one JSON line
every few seconds: loss, held-out loss, tokens, the most loaded expert against the mean.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812 - torch's own name for it

import mini_moe_text  # noqa: E402
from mini_moe import Mini, Shape, saved  # noqa: E402

RATE, WARM, BALANCE = 2e-3, 0.02, 1e-3
"""Highest learning rate, the part of the time to reach it, and a router bias's move a step. Ours: the usual ones for this size."""
ROUNDED_FROM = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Where the training stands."""

    seconds: float
    steps: int
    tokens: int
    loss: float
    held_out: float
    most_loaded: float
    """Picks of the most loaded expert over the mean, the worst layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Windows of text on the device, drawn at random from one seed."""

    text: torch.Tensor
    rows: int
    positions: int

    def drawn(self, chance: torch.Generator) -> torch.Tensor:
        """Return tokens [rows, positions + 1]."""
        starts = torch.randint(
            len(self.text) - self.positions - 1, (self.rows, 1), generator=chance, device=self.text.device
        )
        return self.text[starts + torch.arange(self.positions + 1, device=self.text.device)].long()


def main() -> int:
    """Train, save, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("-o", dest="folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=390)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=Shape().num_hidden_layers)
    asked = parser.parse_args()
    corpus, tokens = mini_moe_text.read(asked.text)
    torch.manual_seed(asked.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = torch.from_numpy(tokens.astype(np.int32)).to(device)
    model = Mini(Shape(vocab_size=corpus.vocabulary, num_hidden_layers=asked.layers)).to(device)
    learnt, held = text[: -corpus.held_out], text[-corpus.held_out :]
    note = None
    for note in trained(
        model,
        Batches(text=learnt, rows=asked.rows, positions=asked.positions),
        Batches(text=held, rows=asked.rows, positions=asked.positions),
        asked.seconds,
    ):
        print(json.dumps(asdict(note)), flush=True)
    saved(model, asked.folder, {"corpus": asdict(corpus), "training": asdict(note) if note else {}})
    return 0


def trained(model: Mini, learnt: Batches, held: Batches, seconds: float) -> Iterator[Note]:
    """Train in place; yield a note some twenty times and at the end."""
    decayed = [one for one in model.parameters() if one.ndim > 1]
    plain = [one for one in model.parameters() if one.ndim == 1]
    learner = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
        fused=True,
    )
    device = model.embed.device
    chance = torch.Generator(device).manual_seed(0)
    model.dtype, begin, steps, told = torch.bfloat16, time.monotonic(), 0, 0.0
    while (done := (time.monotonic() - begin) / seconds) < 1:
        _set(model, learner, done)
        loss = _stepped(model, learner, learnt.drawn(chance))
        steps += 1
        if steps == 1 or done >= told:
            told = done + 0.05
            yield _note(
                model, held, loss, (time.monotonic() - begin, steps, steps * learnt.rows * learnt.positions)
            )
        if steps % 20 == 0:
            float(loss)  # the host must not run ahead of the clock
    yield _note(model, held, loss, (time.monotonic() - begin, steps, steps * learnt.rows * learnt.positions))


def loss_of(model: Mini, batch: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of the next token."""
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


def _set(model: Mini, learner: torch.optim.Optimizer, done: float) -> None:
    rate = RATE * min(done / WARM + 0.01, 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
    for group in learner.param_groups:
        group["lr"] = rate
    for layer in model.layers:
        layer.experts.rounding = done >= ROUNDED_FROM


def _stepped(model: Mini, learner: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    model.train()
    loss = loss_of(model, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    learner.step()
    learner.zero_grad(set_to_none=True)
    for layer in model.layers:
        layer.load = layer.picked.clone()
        layer.bias += BALANCE * torch.sign(layer.picked.mean() - layer.picked)
        layer.picked.zero_()
    return loss.detach()


def _note(model: Mini, held: Batches, loss: torch.Tensor, so_far: tuple[float, int, int]) -> Note:
    model.eval()
    chance = torch.Generator(held.text.device).manual_seed(1)
    with torch.no_grad():
        judged = torch.stack([loss_of(model, held.drawn(chance)) for _ in range(4)]).mean()
    worst = max(float(layer.load.max() / layer.load.mean()) for layer in model.layers)
    seconds, steps, tokens = so_far
    return Note(
        seconds=round(seconds, 1), steps=steps, tokens=tokens, loss=round(float(loss), 4),
        held_out=round(float(judged), 4), most_loaded=round(worst, 2),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
