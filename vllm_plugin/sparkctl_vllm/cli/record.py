"""`sparkctl-vllm record CHECKPOINT --text FILE -o DIR`: what the routers of a model see on text, for models that transformers runs here.

The text is cut into conversations of equal length; of each the first tokens are context and not recorded. Use text as the model writes it
(replies of its own), not prompts: what is calibrated is decoding.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.calibration.taps import EXPERTS
from sparkctl_vllm.cli import Answer
from sparkctl_vllm.refusal import Refusal, demand


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "checkpoint", type=Path, help="folder with a model and its tokenizer, as transformers saves them"
    )
    parser.add_argument("--text", type=Path, required=True, help="UTF-8 text, decode-like")
    parser.add_argument(
        "-o",
        dest="folder",
        type=Path,
        required=True,
        help="folder of the recording; one that broke off goes on",
    )
    parser.add_argument(
        "--conversations", type=int, default=128, help="at most so many; a plan for 64 rows wants 64 or more"
    )
    parser.add_argument("--positions", type=int, default=512, help="tokens of each")
    parser.add_argument(
        "--context", type=int, default=128, help="of these, the first, which are not recorded"
    )
    parser.add_argument("--batch", type=int, default=8, help="conversations that are run together")
    parser.add_argument(
        "--no-gradients", action="store_true", help="enough for probe, not for plan; no backward pass"
    )
    parser.add_argument(
        "--experts", default=EXPERTS, help="pattern of the experts modules' names; group 1 is the layer"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sampled labels")


def run(asked: argparse.Namespace) -> Answer:
    """Load, run, keep."""
    demand(0 <= asked.context < asked.positions, "--context", asked.context, f"0 to {asked.positions - 1}")
    model, tokenizer = _loaded(asked.checkpoint)
    tokens = tokenizer(asked.text.read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
    rows = min(len(tokens) // asked.positions, asked.conversations)
    demand(
        rows > 0,
        str(asked.text),
        f"{len(tokens)} tokens",
        f"at least {asked.positions}",
        "more text, or fewer --positions",
    )
    talks = tokens[: rows * asked.positions].view(rows, asked.positions)
    sys.stderr.write(f"{rows} conversations of {asked.positions} tokens\n")
    made = recorded(
        model,
        lambda batch: model(batch).logits,
        list(talks.split(asked.batch)),
        asked.folder,
        prompt=asked.context,
        gradients=not asked.no_gradients,
        seed=asked.seed,
        pattern=asked.experts,
    )
    header = made.header
    document = {
        "recording": str(asked.folder),
        "layers": list(header.layers),
        "tokens": header.tokens,
        "gradients": header.gradients,
    }
    return 0, document, written


def written(document: dict[str, Any]) -> str:
    """Return the document as a line."""
    with_them = "with" if document["gradients"] else "without"
    return f"{document['recording']}: {document['tokens']} tokens of {len(document['layers'])} layers, {with_them} gradients"


def _loaded(folder: Path) -> tuple[Any, Any]:
    demand(
        (folder / "config.json").is_file(), str(folder / "config.json"), "no such file", "a model's folder"
    )
    try:
        library = import_module("transformers")
    except ImportError as fault:
        raise Refusal(
            "transformers", fault, "installed, as vLLM wants it", "run this where vLLM is"
        ) from fault
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(folder)
        model = library.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    except (ValueError, OSError, KeyError) as fault:
        raise Refusal(
            str(folder),
            fault,
            "a model that transformers knows",
            "record it from its own code: docs/calibration.md",
        ) from fault
    return model.eval(), tokenizer
