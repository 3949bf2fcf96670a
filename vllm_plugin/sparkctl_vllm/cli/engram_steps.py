"""`sparkctl-vllm engram steps`: what a server's steps look up in one table, out of text that did not choose the hot rows, for the kill switch."""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

from sparkctl_vllm.engram import choice, steps, vocabulary
from sparkctl_vllm.engram.tables import Table
from sparkctl_vllm.refusal import demand


def options(parser: argparse.ArgumentParser, layers: list[int]) -> None:
    """Add what steps need."""
    parser.add_argument("corpus", type=Path, help="text that did not choose the rows")
    parser.add_argument("--layer", type=int, required=True, choices=layers)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument(
        "--tokens", type=int, default=6, help="tokens of a step: sequences times (drafts + 1)"
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("-o", dest="path", type=Path, required=True, help="the steps file to write")


def run(asked: argparse.Namespace, table: Table) -> tuple[int, dict[str, Any]]:
    """Write a steps file: as many as are timed, and those that warm up before."""
    demand(
        asked.tokens > 0 and asked.steps >= choice.LEAST_STEPS,
        "--tokens and --steps",
        (asked.tokens, asked.steps),
        f"1 or more tokens, {choice.LEAST_STEPS} or more steps",
    )
    known, tokenizer = vocabulary.read(asked.tokenizer, table.vocabulary)

    def tokenise(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    wanted = asked.steps + choice.WARM
    found = list(islice(steps.of_corpus(asked.corpus, known, tokenise, table, asked.tokens), wanted))
    demand(
        len(found) == wanted,
        f"{asked.corpus.name}: steps of {asked.tokens} tokens",
        len(found),
        f"{wanted}, {choice.WARM} of them to warm up",
    )
    steps.write(asked.path, found)
    document = {
        "schema": "sparkctl-engram-steps/1",
        "path": str(asked.path),
        "layer": table.layer,
        "steps": len(found),
        "tokens": asked.tokens,
    }
    return 0, document
