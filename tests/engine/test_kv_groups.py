"""Our groups and tokens against vLLM's own allocator: the boots' caches, and shapes that nobody serves."""

import json
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from launcher.capacity import config, kv
from launcher.capacity.caches import Cache, Storage, caches
from launcher.capacity.groups import groups
from launcher.capacity.kv import Demand
from launcher.capacity.preset import Model
from sparkctl import content, edge

if TYPE_CHECKING:
    from .conftest import Engine

pytestmark = pytest.mark.engine

Case = tuple[tuple[Cache, ...], int, Demand]


def cases() -> list[Case]:
    """DeepSeek-V4.1-Flash with and without its drafter, and two hundred made-up hybrids and dense models from a seed."""
    shapes = edge.read(content.model("deepseek-v41-flash-mxfp4"), Model)
    attention = config.attention(shapes.config, "preset")
    storage = Storage(block_tokens=128, element_bytes=1)
    made = [
        (caches(attention, 4, storage, drafts=drafts), 12 * 1024**3, Demand(length=length, in_flight=16384))
        for drafts in (True, False)
        for length in (300_000, 1_000_000)
    ]
    chance = random.Random(7)  # noqa: S311
    return [*made, *(_hybrid(chance) for _ in range(150)), *(_dense(chance) for _ in range(50))]


def _hybrid(chance: random.Random) -> Case:
    made = [_cache("window", chance.randint(1, 60), (37440,), 64, 128)]
    made += [
        _cache(f"full {tokens}", chance.randint(1, 12), (37440, 8640), tokens, None)
        for tokens in chance.sample([64, 128, 256], chance.randint(1, 3))
    ]
    if chance.random() < 0.5:
        made.append(_cache("drafter", chance.randint(1, 5), (37440,), 64, 133))
    return tuple(made), chance.randint(4, 40) * 1024**3, _demand(chance)


def _dense(chance: random.Random) -> Case:
    made = [_cache("full", chance.randint(1, 60), (65536,), 16, None)]
    if chance.random() < 0.8:
        made.append(_cache("window", chance.randint(1, 60), (65536,), 16, chance.choice([128, 1024])))
    return tuple(made), chance.randint(4, 40) * 1024**3, _demand(chance)


def _cache(name: str, layers: int, pages: tuple[int, ...], tokens: int, window: int | None) -> Cache:
    return Cache(name=name, layers=layers, pages=pages, used=sum(pages), block_tokens=tokens, window=window)


def _demand(chance: random.Random) -> Demand:
    return Demand(length=chance.randint(1000, 1_000_000), in_flight=chance.choice([2048, 8192, 16384, 32768]))


def test_groups_and_tokens_are_those_of_the_engine(engine: "Engine") -> None:
    """Layers of each group, bytes of a block and tokens of every case, exactly."""
    asked = cases()
    told = [
        {
            "caches": [edge.plain(one) for one in made],
            "size": size,
            "length": demand.length,
            "in_flight": demand.in_flight,
        }
        for made, size, demand in asked
    ]
    ran = subprocess.run(
        [str(engine.commands / "python"), str(Path(__file__).parent / "kv_groups.py")],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    theirs = json.loads(ran.stdout.splitlines()[-1])
    assert [_ours(case) for case in asked] == theirs


def _ours(case: Case) -> dict[str, Any]:
    made, size, demand = case
    found = groups(made)
    pool = kv.pool(size, found, demand)
    layers = [group.layers for group in found]
    return {"layers": layers, "block_bytes": pool.block_bytes, "tokens": pool.tokens}
