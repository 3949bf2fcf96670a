"""Against the engine's own code: vLLM's token map, hash constants and layout are ours."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers here: run by scripts/check --engine")

from sparkctl_vllm.engram import vocabulary
from sparkctl_vllm.engram.tables import v41_flash

SAYS = """
import json, sys
from types import SimpleNamespace
from tokenizers import Tokenizer
from vllm.models.deepseek_v41.common import engram

class Wrapped:
    backend_tokenizer = Tokenizer.from_file(sys.argv[1])
    def __len__(self):
        return self.backend_tokenizer.get_vocab_size()

config = SimpleNamespace(
    engram_layer_ids=[1, 14], engram_num_embeddings=[384006168, 384016682], engram_max_ngram_size=4, engram_n_heads=8,
    engram_head_dim=256, engram_vocab_size=16000000, engram_compressed_vocab_size=99092, engram_pad_token_id=2,
)
layout = engram.EngramLayout.from_config(config)
found, classes = engram.build_compressed_token_map(Wrapped())
multipliers = engram.compute_hash_multipliers((1, 14), 4, 99092)
print(json.dumps([found, classes, layout.primes, layout.offsets.tolist(), multipliers.tolist()]))
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level tokenizer with parts of characters, blanks, cases and accents among its tokens."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<|bos|>", "<|pad|>"], initial_alphabet=alphabet
    )
    text = [
        "The the THE \u00c9t\u00e9 \u00e9t\u00e9 ete  \n\t \u4f60\u597d \ufb01x fix",
        Path(__file__).read_text(encoding="utf-8"),
    ]
    made.train_from_iterator(text * 20, trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def test_token_map_constants_and_layout_are_vllms(tokenizer):
    """In a process of its own: vLLM turns Triton off where it finds no GPU."""
    if find_spec("vllm") is None or not find_spec("vllm.models"):
        pytest.skip("no vLLM with vllm.models here: run by scripts/check --engine")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", SAYS, str(tokenizer)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    token_map, classes, primes, offsets, multipliers = json.loads(done.stdout.splitlines()[-1])
    length = len(token_map)
    ours, _ = vocabulary.read(tokenizer, classes, length)
    assert ours.map.tolist() == token_map
    assert classes < length
    for table, own, offset, odd in zip(v41_flash(), primes, offsets, multipliers, strict=True):
        assert list(table.primes) == [prime for order in own for prime in order]
        assert list(table.offsets) == offset
        assert list(table.multipliers) == odd
