"""`sparkctl-vllm engram race`: on this node, are a rank's hot rows faster than its disk? Real text, both files, the kill switch's own rule."""

import argparse
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sparkctl_vllm.engram import checkpoint, choice, hot_rows, vocabulary
from sparkctl_vllm.engram.reader import Reader, Source
from sparkctl_vllm.engram.steps import of_corpus, of_rank
from sparkctl_vllm.engram.tables import Slice
from sparkctl_vllm.refusal import demand


def options(parser: argparse.ArgumentParser, layers: list[int]) -> None:
    """Add what a race needs."""
    parser.add_argument(
        "checkpoint", type=Path, help="the model's folder, or the safetensors file of the table"
    )
    parser.add_argument("--layer", type=int, required=True, choices=layers)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--hot", type=Path, required=True, help="the rank's hot rows, from pack")
    parser.add_argument(
        "--all",
        type=Path,
        help="all rows of the rank, from pack --all; without it the checkpoint is read, twice a row",
    )
    parser.add_argument("--corpus", type=Path, required=True, help="text that did not choose the rows")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument(
        "--tokens", type=int, default=6, help="tokens of a step: sequences times (drafts + 1)"
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--engine", choices=["auto", "uring", "threads"], default="auto")
    parser.add_argument("--direct", action="store_true", help="read past the page cache (O_DIRECT)")


def run(asked: argparse.Namespace, owned: Slice) -> tuple[int, dict[str, Any]]:
    """Race; exit code 0 when the resident rows are kept, 1 when the disk is."""
    demand(
        asked.tokens > 0 and asked.steps > 0, "--tokens and --steps", (asked.tokens, asked.steps), "1 or more"
    )
    found = checkpoint.shard(asked.checkpoint, owned.table.layer)
    bound = checkpoint.identity(found, owned)
    source = hot_rows.source(asked.all, owned, bound) if asked.all else Source.of_checkpoint(found, owned)
    held = hot_rows.held(asked.hot, owned, bound)
    known, tokenizer = vocabulary.read(asked.tokenizer, owned.table.vocabulary)

    def tokenise(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    wanted = asked.steps + choice.WARM
    taken = list(islice(of_corpus(asked.corpus, known, tokenise, owned.table, asked.tokens), wanted))
    demand(
        len(taken) == wanted,
        f"{asked.corpus.name}: steps of {asked.tokens} tokens",
        len(taken),
        f"{wanted}, {choice.WARM} of them to warm up",
    )
    steps = of_rank(np.stack(taken), owned)
    disk = Reader(source, engine=asked.engine, direct=asked.direct)
    resident = Reader(source, held=held, engine=asked.engine, direct=asked.direct)
    try:
        chosen = choice.measured(choice.by(resident), choice.by(disk), steps, exact=held.kind == "fp8")
        counted = resident.counted()
    finally:
        resident.close()
        disk.close()
    share = counted["resident"] / sum(ids.size for ids in steps)
    document = {
        "schema": "sparkctl-engram-race/1",
        "told": f"layer {owned.table.layer} {chosen.told()}",
        "resident_share": share,
        **asdict(chosen),
    }
    return (0 if chosen.keeps == "resident" else 1), document
