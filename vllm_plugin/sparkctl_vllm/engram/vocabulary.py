"""Vocabulary: token ids of the model to compressed ids, tokens that read alike sharing one. Made from the checkpoint's tokenizer.json.

Rule as in vllm/models/deepseek_v41/common/engram.py of vLLM 0.33.0: the decoded token, normalised (NFKC, NFD, no accents, lower case, blanks
joined, stripped but for a lone space), names a class; a partial byte token is named by its raw string; classes are numbered as they appear.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import Refusal, demand

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KNOWN = {
    "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b": "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481"
}
"""SHA-256 of a tokenizer.json to that of its map as int32, little-endian: DeepSeek-V4.1-Flash, as published for its revision dba1be0a."""
LENGTH = 129_280
"""Token ids of V4.1-Flash (vocab_size of its config.json); the tokenizer's own may be fewer."""
REPLACEMENT, LONE = "\ufffd", "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The map, int64 [token ids], and how many classes there are."""

    classes: int
    map: NDArray[np.int64]

    def compressed(self, tokens: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        """Return the compressed ids of token ids; raises Refusal, naming where they stand, for one that the model does not have."""
        inside = bool(((tokens >= 0) & (tokens < len(self.map))).all())
        found = "" if inside else f"{tokens.min()} to {tokens.max()}"
        demand(
            inside,
            f"{name}: token ids",
            found,
            f"0 to {len(self.map) - 1}",
            "tokenise it with this model's tokenizer",
        )
        return np.asarray(self.map[tokens], dtype=np.int64)


def read(path: Path, classes: int, length: int = LENGTH) -> tuple[Vocabulary, "Tokenizer"]:
    """Return a model's vocabulary and its tokenizer; raises Refusal unless it has exactly `classes` classes: every row depends on it."""
    demand(path.is_file(), str(path), "no such file", "a model's tokenizer.json")
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only what starts from text or tokens needs it
    except ImportError as fault:
        raise Refusal(
            "tokenizers", "not installed", "the library of that name", "pip install tokenizers"
        ) from fault
    raw = path.read_bytes()
    tokenizer = Tokenizer.from_str(_checked(path, raw))
    found = of_tokenizer(tokenizer, length)
    hint = "this is not the tokenizer of the model whose tables are asked for"
    demand(found.classes == classes, f"{path.name}: classes", found.classes, str(classes), hint)
    wanted = KNOWN.get(sha256(raw).hexdigest())
    digest = sha256(found.map.astype("<i4").tobytes()).hexdigest()
    demand(
        wanted in {None, digest},
        f"{path.name}: SHA-256 of its map",
        digest,
        str(wanted),
        "another tokenizers version normalises otherwise",
    )
    return found, tokenizer


def _checked(path: Path, raw: bytes) -> str:
    """Return the text of a tokenizer.json; its parts are looked at here, for the library tells no fault of the file from any other."""
    try:
        text = raw.decode("utf-8")
        document = json.loads(text)
    except ValueError as fault:
        raise Refusal(path.name, fault, "a tokenizer.json") from fault
    demand(isinstance(document, dict), path.name, type(document).__name__, "a JSON object")
    model = document.get("model")
    demand(isinstance(model, dict), f"{path.name}: $.model", type(model).__name__, "a JSON object")
    vocab = model.get("vocab")
    numbered = isinstance(vocab, dict) and all(isinstance(one, int) for one in vocab.values())
    demand(numbered, f"{path.name}: $.model.vocab", type(vocab).__name__, "a number for each token")
    merges = model.get("merges", [])
    demand(isinstance(merges, list), f"{path.name}: $.model.merges", type(merges).__name__, "a list")
    added = document.get("added_tokens")
    whole = isinstance(added, list) and all(
        isinstance(one, dict) and {"id", "content"} <= one.keys() for one in added
    )
    demand(
        whole, f"{path.name}: $.added_tokens", type(added).__name__, "a list of tokens with id and content"
    )
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        part = document.get(name)
        typed = part is None or (isinstance(part, dict) and isinstance(part.get("type"), str))
        demand(typed, f"{path.name}: $.{name}", type(part).__name__, "null, or a JSON object with a type")
    return text


def of_tokenizer(tokenizer: "Tokenizer", length: int) -> Vocabulary:
    """Return the vocabulary of a tokenizer for token ids 0 to `length`, less one."""
    numbers: dict[str, int] = {}
    classes = [numbers.setdefault(key, len(numbers)) for key in _keys(tokenizer, length)]
    return Vocabulary(classes=len(numbers), map=np.array(classes, dtype=np.int64))


def _keys(tokenizer: "Tokenizer", length: int) -> Iterator[str]:
    from tokenizers import Regex, normalizers  # noqa: PLC0415 - see above

    normal = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex("[ \\t\\r\\n]+"), " "),
            normalizers.Replace(Regex("^ $"), LONE),
            normalizers.Strip(),
            normalizers.Replace(LONE, " "),
        ]
    )
    for token in range(length):
        text = tokenizer.decode([token], skip_special_tokens=False)
        if REPLACEMENT in text:
            yield tokenizer.id_to_token(token) or text
        else:
            yield normal.normalize_str(text) or text
