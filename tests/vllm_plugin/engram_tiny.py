"""A tiny V4.1-shaped Engram in vLLM's own modules, in memory and from disk, on one CPU with virtual ranks. A program: its last line is JSON.

vLLM turns Triton off where it finds no GPU; here its kernels run in Triton's interpreter. What is made up is the GPU's size, the rank that a
module believes to be, and the gathering between ranks: all ranks live in this process.
"""

import json
import logging
import os
import struct
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language
from vllm import triton_utils

triton_utils.triton, triton_utils.tl, triton_utils.HAS_TRITON = triton, triton.language, True

from vllm import ModelRegistry
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.models.deepseek_v41 import DeepseekV41ForCausalLM
from vllm.models.deepseek_v41.common import engram as stock
from vllm.models.deepseek_v41.nvidia import model as stock_model

from sparkctl_vllm.engram import checkpoint, choice, hot_rows, rank_rows, row_ids, steps
from sparkctl_vllm.engram.folder import Folder
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import engram_model as ours
from sparkctl_vllm.serving import engram_rows
from sparkctl_vllm.serving.settings import Settings

VOCABULARY, TOKENS, HIDDEN = 40, 90, 64
CONFIG = SimpleNamespace(
    engram_layer_ids=[1, 14], engram_max_ngram_size=4, engram_n_heads=8, engram_head_dim=256, engram_vocab_size=60,
    engram_compressed_vocab_size=VOCABULARY, engram_pad_token_id=2, hidden_size=HIDDEN, hc_mult=4, rms_norm_eps=1e-6,
    engram_num_embeddings=[0, 0],
)  # fmt: skip
PRIMES = stock.EngramLayout(CONFIG).primes
CONFIG.engram_num_embeddings = [sum(sum(order) for order in layer) for layer in PRIMES]
LAYOUT = stock.EngramLayout(CONFIG)
# The interpreter takes a second for what a GPU does in a millisecond.
choice.LEAST_STEPS = rank_rows.STEPS = 8
choice.WARM = 1
TABLES = [ours.table_of(LAYOUT, index) for index in range(2)]


def model_in(folder: Path) -> Path:
    """Write a checkpoint with both tables and its index; no code of a row is a NaN."""
    rng = np.random.default_rng(5)
    tensors = {}
    for table in TABLES:
        rows = (
            rng.integers(0, 0x7F, (table.rows, 264), dtype=np.uint8)
            | rng.integers(0, 2, (table.rows, 264), dtype=np.uint8) << 7
        )
        tensors[f"layers.{table.layer}.engram.embed.weight"] = ("F8_E4M3", rows[:, :256])
        tensors[f"layers.{table.layer}.engram.embed.scale"] = (
            "F8_E8M0",
            rng.integers(120, 130, (table.rows, 8), dtype=np.uint8),
        )
    header, at = {}, 0
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + values.size]}
        at += values.size
    text = json.dumps(header).encode()
    folder.mkdir()
    body = b"".join(values.tobytes() for _, values in tensors.values())
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    index = {"weight_map": dict.fromkeys(tensors, "model.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def packed(folder: Path, model: Path, ranks: int) -> None:
    """Write every rank's files, a folder a rank."""
    rng = np.random.default_rng(ranks)
    for table in TABLES:
        found = checkpoint.shard(model, table.layer)
        taken = [one_step(rng, table) for _ in range(9)]
        for owned in table.slices(ranks):
            own = Folder(path=folder / str(owned.rank), resident=1000)
            own.path.mkdir(parents=True, exist_ok=True)
            hot_rows.all_rows(own.all_rows(table.layer), found, owned)
            ids = np.arange(0, owned.rows, 3, dtype=np.uint32)
            hot_rows.pack(own.hot_rows(table.layer), found, owned, ids, kind="fp8", counts="")
            half = replace(own, kind="fp4")
            hot_rows.pack(half.hot_rows(table.layer), found, owned, ids, kind="fp4", counts="")
            steps.write(own.steps(table.layer), taken)


def one_step(rng, table):
    """Rows of two tokens."""
    return row_ids.of_sequence(table, rng.integers(0, VOCABULARY, 2))


@contextmanager
def as_rank(rank: int, ranks: int):
    """Let vLLM's and our module believe to be that rank."""
    told = {
        "get_tensor_model_parallel_rank": lambda: rank,
        "get_tensor_model_parallel_world_size": lambda: ranks,
    }
    before = [(module, name, getattr(module, name)) for module in (stock, ours) for name in told]
    for module, name, _ in before:
        setattr(module, name, told[name])
    try:
        yield
    finally:
        for module, name, real in before:
            setattr(module, name, real)


def module_of(kind, index: int, rank: int, ranks: int):
    """Make one layer's module for a rank, with weights as vLLM's loader gives them."""
    with as_rank(rank, ranks):
        made = kind(
            CONFIG, None, LAYOUT, index, use_sequence_parallel=False, prefix=f"model.layers.{index}.engram"
        )
    for name, param in made.named_parameters():
        if name.startswith("embed_tokens"):
            part = "scale" if "scale" in name else "weight"
            param.weight_loader(param, WEIGHTS[f"layers.{TABLES[index].layer}.engram.embed.{part}"])
        else:
            generator = torch.Generator().manual_seed(len(name))
            param.data.copy_(torch.randn(param.shape, generator=generator) * 0.1)
    made.wkv.quant_method.process_weights_after_loading(made.wkv)
    return made


def hashes_of(tokens, positions, starts, dead):
    """Run vLLM's own hash on a step of several requests, whose earlier tokens it is told."""
    state = stock.NgramHashState.__new__(stock.NgramHashState)
    torch.nn.Module.__init__(state)
    state.use_slot_cache, state.block_size, state.pad_id, state._cache = (
        False,
        1,
        CONFIG.engram_pad_token_id,
        None,
    )
    state.token_map = torch.arange(VOCABULARY, dtype=torch.int32)
    state.primes, state.offsets = torch.tensor(LAYOUT.primes), LAYOUT.offsets
    state.multipliers = stock.compute_hash_multipliers(LAYOUT.layer_ids, LAYOUT.max_ngram_size, VOCABULARY)
    lookback = torch.full((len(starts) - 1, 3), -1, dtype=torch.int32)
    told = (lookback, torch.zeros_like(lookback, dtype=torch.bool), None, None)
    return state(tokens, positions, torch.tensor(starts, dtype=torch.int32), dead, *told)


def step_of(seed: int, lengths):
    """Return a step's hashes by vLLM, and whether ours are the same: several requests, some of their tokens dead."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, VOCABULARY, sum(lengths))
    tokens[1::5] = tokens[0]
    dead = rng.random(len(tokens)) < 0.1
    starts = np.cumsum([0, *lengths])
    positions = np.concatenate([np.arange(one) for one in lengths])
    found = hashes_of(
        torch.from_numpy(tokens).int(), torch.from_numpy(positions), starts.tolist(), torch.from_numpy(dead)
    )
    begin = np.repeat(starts[:-1], lengths)
    flat = np.where(dead, -1, tokens)
    same = all(
        (found[:, index].numpy() == row_ids.of_batch(table, flat, np.arange(len(flat)), begin)).all()
        for index, table in enumerate(TABLES)
    )
    return found, bool(same)


def compared(index: int, ranks: int, seed: int, lengths) -> dict:
    """Serve one step by vLLM's path in memory and by ours, every rank of both; the gathering between ranks joins their columns."""
    hashes, ids_agree = step_of(seed, lengths)
    whole = hashes[:, index]
    outs, rows_by = [], []
    for kind in (stock.Engram, ours.EngramOnDisk):
        modules = []
        for rank in range(ranks):
            os.environ["SPARKCTL_ENGRAM_ROWS"] = str(ROOT / f"tp{ranks}" / str(rank))
            modules.append(module_of(kind, index, rank, ranks))
        for one in modules:
            one.staged_rows.fill_(float("nan"))
            one.prepare_embeddings(whole)
        rows = torch.cat([one.staged_rows[: len(whole)] for one in modules], dim=1)
        stock.tensor_model_parallel_all_gather = lambda *_, joined=rows, **__: joined
        # What the gate gets; the gate itself, vLLM's, does not run in the interpreter and knows nothing of where rows lie.
        outs.append(modules[0].wkv(modules[0].embed(whole).flatten(-2)))
        rows_by.append(rows)
        held = sum(param.numel() for param in modules[0].embed_tokens.parameters())
    same = [bool((a.view(torch.int16) == b.view(torch.int16)).all()) for a, b in (rows_by, outs)]
    spoken = not bool(torch.isnan(rows_by[1]).any()) and float(outs[1].abs().max()) > 0
    return {"ids": ids_agree, "rows": same[0], "keys": same[1], "spoken": spoken, "parameters": held}


def refused(change) -> str:
    """Return what rank 0 of two says when a copy of its files was changed."""
    folder = ROOT / "spoiled"
    folder.mkdir()
    for file in (ROOT / "tp2" / "0").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    change(folder)
    os.environ["SPARKCTL_ENGRAM_ROWS"] = str(folder)
    try:
        module_of(ours.EngramOnDisk, 0, 0, 2)
    except Refusal as fault:
        return str(fault)
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    return ""


def hole(folder: Path) -> None:
    """Make one page of the rows a hole, as a sparse copy does."""
    data = (folder / "rows-1").read_bytes()
    with (folder / "rows-1").open("wb") as file:
        file.write(data[:8192])
        file.seek(4096, os.SEEK_CUR)
        file.write(data[12288:])


def other_model(folder: Path) -> None:
    """Let the rows file say that it is of another checkpoint."""
    path = folder / "rows-1"
    data = path.read_bytes()
    at = data.index(b'"header": "') + 11
    path.write_bytes(data[:at] + (b"0" if data[at : at + 1] != b"0" else b"1") + data[at + 1 :])


def of_rank_1(folder: Path) -> None:
    """Take the files of rank 1."""
    (folder / "rows-1").write_bytes((ROOT / "tp2" / "1" / "rows-1").read_bytes())


def spoiled_hot_row(folder: Path) -> None:
    """Change a bit of a resident row."""
    path = folder / "hot-1-1000-fp8"
    data = bytearray(path.read_bytes())
    data[-4096] ^= 1
    path.write_bytes(data)


class Kept(logging.Handler):
    """Keeps the lines of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.lines.append(record.getMessage())


ROOT = Path(sys.argv[1])
MODEL = model_in(ROOT / "model")
for parts in (1, 2, 4):
    packed(ROOT / f"tp{parts}", MODEL, parts)
from safetensors.torch import load_file

WEIGHTS = load_file(MODEL / "model.safetensors")
KEPT = Kept()
logging.getLogger("vllm.sparkctl").addHandler(KEPT)
logging.getLogger("vllm.sparkctl").setLevel(logging.INFO)
torch.cuda.get_device_properties = lambda _: SimpleNamespace(multi_processor_count=4)
torch.accelerator.current_device_index = lambda: 0
torch.set_default_dtype(torch.bfloat16)
told = VllmConfig()
with set_current_vllm_config(told):
    init_distributed_environment(1, 0, f"file://{ROOT}/meet", 0, "gloo")
    initialize_model_parallel(1, 1)
current = SimpleNamespace(
    model_config=SimpleNamespace(model=str(MODEL)),
    scheduler_config=SimpleNamespace(max_num_batched_tokens=64),
    engram_config=SimpleNamespace(cpu_offload=False, dp_shared_memory=False, use_thp=False),
    lora_config=None,
)
stock.get_current_vllm_config = ours.get_current_vllm_config = lambda: current
with set_current_vllm_config(told):
    answer = {"compared": {}, "refused": {}}
    chosen = choice.choose
    # Timed in the interpreter neither path says anything of the other: both are to be served here.
    choice.choose = lambda *waits: replace(chosen(*waits), keeps="resident")
    for resident, form in (("0", ""), ("1000", "fp8")):
        os.environ["SPARKCTL_ENGRAM_RESIDENT"], os.environ["SPARKCTL_ENGRAM_FORMAT"] = resident, form
        for ranks in (1, 2, 4) if resident == "0" else (2,):
            for index in (0, 1):
                answer["compared"][f"resident {resident}, TP{ranks}, table {index}"] = compared(
                    index, ranks, ranks, [1, 7, 3]
                )
    choice.choose = chosen
    answer["log"] = list(KEPT.lines)
    for name, change in {
        "nothing": lambda _: None,
        "hole": hole,
        "rank": of_rank_1,
        "checkpoint": other_model,
        "hot row": spoiled_hot_row,
        "no rows": lambda folder: (folder / "rows-1").unlink(),
        "no hot rows": lambda folder: (folder / "hot-1-1000-fp8").unlink(),
        "no steps": lambda folder: (folder / "steps-1.npy").unlink(),
        "cut": lambda folder: (folder / "rows-1").write_bytes((folder / "rows-1").read_bytes()[:-5000]),
    }.items():
        answer["refused"][name] = refused(change)
    os.environ["SPARKCTL_ENGRAM_ROWS"] = str(ROOT / "tp2" / "0")
    wrong = module_of(ours.EngramOnDisk, 0, 0, 2).embed_tokens
    try:
        wrong.weight.weight_loader(wrong.weight, torch.zeros(3, 256))
    except Refusal as fault:
        answer["refused"]["table"] = str(fault)
engram_rows.install(Settings(rows=Folder(path=ROOT)))
engram_rows.install(Settings(rows=Folder(path=ROOT)))
chosen_class = ModelRegistry.models[engram_rows.ARCHITECTURE].load_model_cls()
answer["registered"] = [chosen_class is DeepseekV41ForCausalLM, stock_model.Engram is ours.EngramOnDisk]
sys.stdout.write(json.dumps(answer) + "\n")
