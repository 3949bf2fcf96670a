"""The command line `sparkctl-vllm`: what an owner asks of his checkpoint where the weights are. One module a verb; see VERBS."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from sparkctl_vllm.refusal import Refusal

VERBS = {
    "record": "run a model that transformers can run over text, and keep what its routers saw",
    "probe": "can budget reads pay on this checkpoint? the energy kept at each depth, layer by layer",
    "plan": "write the plan file: sort, importances and prices, from a recording",
    "exl3": "write routed experts as EXL3, sorted for budget reads and at the bits asked for; show what such a checkpoint holds",
    "engram": "count which rows of the Engram tables a corpus reads, say what keeping them would answer, pack them",
}
"""Verbs and what they answer. A verb is the module of its name here, with `options(parser)` and `run(asked)`; imported only when asked for."""

Answer = tuple[int, dict[str, Any], Callable[[dict[str, Any]], str]]
"""Exit code (0 yes or done, 1 the answer is no), the document for --json, and what writes it for a person."""


class Verb(Protocol):
    """What a verb's module offers."""

    @staticmethod
    def options(parser: argparse.ArgumentParser) -> None:
        """Add the verb's own options."""

    @staticmethod
    def run(asked: argparse.Namespace) -> Answer:
        """Do it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; 2 when it was used wrongly or a file is wrong, 3 when it was interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    asked, run = _parsed(words)
    try:
        code, document, written = run(asked)
    except Refusal as refused:
        sys.stderr.write(f"error: {refused}\n")
        return 2
    except OSError as fault:
        sys.stderr.write(f"error: {fault}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was finished before is kept\n")
        return 3
    sys.stdout.write((json.dumps(document, indent=2) if asked.json else written(document)) + "\n")
    return code


def _parsed(words: Sequence[str]) -> tuple[argparse.Namespace, Callable[[argparse.Namespace], Answer]]:
    parser = argparse.ArgumentParser(
        prog="sparkctl-vllm", description="Tools for a checkpoint, where the weights are."
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    known = next((word for word in words if word in VERBS), None)
    run: Callable[[argparse.Namespace], Answer] | None = None
    for name, told in VERBS.items():
        one = verbs.add_parser(name, help=told, description=told)
        one.add_argument("--json", action="store_true", help="one JSON document on stdout")
        if name == known:
            module = cast("Verb", import_module(f"sparkctl_vllm.cli.{name}"))
            module.options(one)
            run = module.run
    asked = parser.parse_args(words)
    assert run is not None  # noqa: S101 - argparse has left with 2 unless a verb was named
    return asked, run
