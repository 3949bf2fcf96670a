"""Record: run a model over decode-like text and keep what its experts were asked, with sampled-label gradients where wanted.

The gradient is that of the log-probability of labels drawn from the model's own predictions (not of the text's next tokens), summed over all
positions: its mean square is the Fisher information of the next-token distributions with respect to a layer's output, including what a
token's output does to later predictions.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import torch
from torch import nn

from sparkctl_vllm.calibration.recording import Header, Recording, begun
from sparkctl_vllm.calibration.taps import EXPERTS, tapped
from sparkctl_vllm.refusal import demand

Logits = Callable[[torch.Tensor], torch.Tensor]
"""Tokens [rows, positions] to logits [rows, positions, vocabulary]."""


def recorded(  # noqa: PLR0913 - what is run, on what, where to, and how
    model: nn.Module,
    logits: Logits,
    text: Sequence[torch.Tensor],
    folder: Path,
    *,
    prompt: int = 0,
    gradients: bool = True,
    seed: int = 0,
    pattern: str = EXPERTS,
) -> Recording:
    """Record batches of conversations, int64 [rows, positions] each; the first `prompt` positions are read whole and not recorded.

    Deterministic in text, model and seed, batch by batch, so a run that broke off ends with the same files.
    """
    demand(text, "text", "no batch", "at least one")
    header = Header(
        layers=_layers(model, logits, text[0][:1], pattern),
        text=sha256(b"".join(one.long().cpu().numpy().tobytes() for one in text)).hexdigest(),
        batches=len(text),
        tokens=sum(one.shape[0] * (one.shape[1] - prompt) for one in text),
        gradients=gradients,
        seed=seed,
    )
    recording = begun(folder, header)
    first = 0
    for batch, tokens in enumerate(text):
        if not recording.has(batch):
            chance = seed + batch if gradients else None
            recording.add(
                batch, _batch(model, logits, tokens, pattern=pattern, prompt=prompt, seed=chance, first=first)
            )
        first += len(tokens)
    return recording


def _batch(  # noqa: PLR0913 - one batch with all that it depends on
    model: nn.Module,
    logits: Logits,
    tokens: torch.Tensor,
    *,
    pattern: str,
    prompt: int,
    seed: int | None,
    first: int,
) -> dict[str, torch.Tensor]:
    rows, positions = tokens.shape
    decoded = (torch.arange(positions) >= prompt).repeat(rows)
    held = {
        "conversation": torch.arange(first, first + rows, dtype=torch.int32).repeat_interleave(positions)[
            decoded
        ]
    }
    with tapped(model, pattern) as caught, torch.set_grad_enabled(seed is not None):
        predicted = logits(tokens)
        if seed is not None:
            for layer, one in caught.gradients(_likelihood(predicted, prompt, seed)).items():
                held[f"gradient.L{layer}"] = one.to("cpu", torch.bfloat16)[decoded]
    for layer, routed in caught.routed.items():
        held[f"x.L{layer}"] = routed.x[decoded]
        held[f"picks.L{layer}"] = routed.picks[decoded]
        held[f"weights.L{layer}"] = routed.weights[decoded]
    return held


def _layers(model: nn.Module, logits: Logits, tokens: torch.Tensor, pattern: str) -> tuple[int, ...]:
    with tapped(model, pattern) as caught, torch.no_grad():
        logits(tokens)
    return tuple(sorted(caught.routed))


def _likelihood(logits: torch.Tensor, prompt: int, seed: int) -> torch.Tensor:
    """Return the log-probability of labels that are drawn from the predictions, summed over the recorded positions."""
    logs = logits[:, prompt:].float().log_softmax(-1)
    chance = torch.Generator(logs.device).manual_seed(seed)
    flat = logs.detach().exp().flatten(0, 1)
    labels = torch.multinomial(flat, 1, generator=chance).view(logs.shape[:2])
    return logs.gather(-1, labels[..., None]).sum()
