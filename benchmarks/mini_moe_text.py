"""The text that the mini model learns: files at hand to tokens, with the hashes by which it can be named.

Usage: python benchmarks/mini_moe_text.py FOLDER... -o TOKENS.xz [--most MB] [--vocabulary 4096]

Takes .txt, .rst, .md, .py, .html, manual pages and DICT databases, also compressed; drops markup, non-text, doubled files; shuffles by content
hash, so the order does not depend on the folders. Byte-level BPE, learned from a twentieth. Every 50th document is held out. Writes one xz file:
a JSON line (vocabulary, documents, bytes, SHA-256 of the text), then uint16 tokens, documents closed by token 0, held-out ones last; and
beside it TOKENS.words.json, the text of each token.
"""

import argparse
import gzip
import html
import json
import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KINDS = {".txt", ".rst", ".md", ".py", ".html", ".dict", *(f".{section}" for section in range(1, 9))}
LEAST, MOST = 400, 400_000
"""Bytes of a document: shorter ones are stubs, longer ones would be the corpus."""
HELD_OUT = 50
MARKUP = re.compile(r"<(script|style|head|nav)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)
BLANKS = re.compile(r"\n\s*\n\s*\n+")
ROFF = re.compile(r"^[.'].*\n|\\f.|\\[&|]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What the text is: `tokens` of which the last `held_out` are for judging only."""

    vocabulary: int
    documents: int
    bytes: int
    digest: str
    tokens: int
    held_out: int


def main() -> int:
    """Read the folders and write the tokens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-o", dest="path", type=Path, required=True)
    parser.add_argument("--most", type=float, default=150, help="MB of text")
    parser.add_argument("--vocabulary", type=int, default=4096)
    asked = parser.parse_args()
    documents = gathered(asked.folders, int(asked.most * 1e6))
    if not documents:
        print(f"no text in {', '.join(map(str, asked.folders))}", file=sys.stderr)
        return 2
    corpus, tokens, words = tokenised(documents, asked.vocabulary)
    asked.path.with_suffix(".words.json").write_text(json.dumps(words) + "\n", encoding="utf-8")
    head = json.dumps(asdict(corpus)).encode() + b"\n"
    asked.path.write_bytes(lzma.compress(head + tokens.tobytes(), preset=6))
    print(head.decode(), end="")
    return 0


def gathered(folders: Sequence[Path], most: int) -> list[bytes]:
    """Return documents in the order of their hashes, at most so many bytes."""
    found: dict[str, bytes] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            for text in _documents(path):
                if len(text) >= LEAST:
                    found.setdefault(sha256(text).hexdigest(), text[:MOST])
    kept, size = [], 0
    for _, text in sorted(found.items()):
        if size + len(text) > most:
            break
        kept.append(text)
        size += len(text)
    return kept


def tokenised(
    documents: Sequence[bytes], vocabulary: int
) -> tuple[Corpus, NDArray[np.uint16], tuple[str, ...]]:
    """Learn the vocabulary and return the corpus, its tokens, held-out documents last, and the text of each token.

    The text of a token that is a part of a letter is U+FFFD.
    """
    from tokenizers import ByteLevelBPETokenizer  # noqa: PLC0415 - only this script wants it

    texts = [document.decode("utf-8", errors="replace") for document in documents]
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(
        texts[::20], vocab_size=vocabulary, special_tokens=["<end>"], show_progress=False
    )
    parts = [
        np.array([*one.ids, 0], dtype=np.uint16) for start in range(0, len(texts), 1000)
        for one in learner.encode_batch(texts[start : start + 1000])
    ]  # fmt: skip
    held = parts[::HELD_OUT]
    learnt = [one for place, one in enumerate(parts) if place % HELD_OUT]
    tokens = np.concatenate([*learnt, *held])
    corpus = Corpus(
        vocabulary=vocabulary,
        documents=len(documents),
        bytes=sum(map(len, documents)),
        digest=sha256(b"\0".join(documents)).hexdigest(),
        tokens=len(tokens),
        held_out=sum(map(len, held)),
    )
    return corpus, tokens, tuple(learner.decode([token]) for token in range(vocabulary))


def read(path: Path) -> tuple[Corpus, NDArray[np.uint16]]:
    """Read what this script wrote."""
    head, _, blob = lzma.decompress(path.read_bytes()).partition(b"\n")
    return Corpus(**json.loads(head)), np.frombuffer(blob, dtype=np.uint16)


def _documents(path: Path) -> Iterator[bytes]:
    kind = path.with_suffix("").suffix if path.suffix in {".gz", ".dz"} else path.suffix
    if kind not in KINDS or path.is_symlink() or not path.is_file():
        return
    raw = path.read_bytes()
    if path.suffix in {".gz", ".dz"}:
        raw = gzip.decompress(raw)
    if b"\0" in raw:
        return
    text = raw.decode("utf-8", errors="ignore")
    if kind == ".html":
        text = html.unescape(MARKUP.sub("", text))
    elif kind[1:].isdigit():
        text = ROFF.sub("", text)
    text = BLANKS.sub("\n\n", text).strip()
    size = MOST // 10 if kind == ".dict" else len(text) or 1
    for start in range(0, len(text), size):
        yield text[start : start + size].encode()


if __name__ == "__main__":
    sys.exit(main())
