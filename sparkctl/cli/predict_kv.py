"""`sparkctl predict kv`: how many tokens the cache of a rank takes, and where a request's bytes go."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from launcher.capacity import asked
from launcher.capacity import kv as pools
from launcher.capacity.config import Attention
from launcher.capacity.groups import Group
from launcher.capacity.kv import Demand, Pool
from launcher.recipe import Recipe
from sparkctl.cli import presets
from sparkctl.cli.presets import ConfigOption, HardwareOption, ModelOption
from sparkctl.cli.session import RecipeOption, Session, SetOption, verb
from sparkctl.console import Column
from sparkctl.errors import Refused
from sparkctl.units import GIB


@verb
def kv(
    session: Session,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    model: ModelOption = None,
    config: ConfigOption = None,
    hardware: HardwareOption = "gb10",
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", min=1, help="Layers of a kind that a group takes; default: the engine's choice."
        ),
    ] = None,
) -> int:
    """Say how many tokens the KV cache of a rank takes, and where they go; predicted, nothing is booted."""
    asking = presets.recipe(session, recipe, set_)
    attention = presets.attention(asking, model, config)
    groups = asked.cache_groups(asking, attention, repeats)
    demand = asked.demand(asking, attention)
    size = asked.pinned(asking)
    sizes = (size, size) if size is not None else _offered(asking, attention, model, hardware)
    found = tuple(pools.pool(one, groups, demand) for one in dict.fromkeys(sizes))
    _demand_one(asking, found[-1], groups, demand)
    _show(session, asking, found)
    session.console.answer(_answer(asking, found))
    return 0


def _offered(recipe: Recipe, attention: Attention, model: str | None, hardware: str) -> tuple[int, int]:
    """Return from how many to how many bytes vLLM is predicted to find for the cache, where the recipe pins none."""
    from sparkctl.cli import memory_table  # noqa: PLC0415  # reads an inventory, which a pinned recipe need not wait for

    found = memory_table.table(
        recipe, attention, presets.of_recipe(recipe, model), presets.hardware(hardware)
    )
    span = found.lines[found.cache].gib[found.binding]
    return math.floor(span.low * GIB), math.floor(span.high * GIB)


def _demand_one(recipe: Recipe, found: Pool, groups: tuple[Group, ...], demand: Demand) -> None:
    """Refuse a pool that holds not even one full-length request, and say what would fit."""
    if found.blocks >= found.request_blocks:
        return
    length = pools.longest(found.size, groups, demand)
    shorter = f"--set args.max-model-len={length}, or " if length else ""
    least = math.ceil(pools.needed(groups, demand) / GIB * 100) / 100
    raise Refused(
        f"{recipe.name}: one request of {demand.length:,} tokens needs {least:.2f} GiB of cache on every rank, and "
        f"{found.size / GIB:.2f} GiB are there",
        hint=f"{shorter}--set memory.kv_cache_gib={least:.2f}",
    )


def _show(session: Session, recipe: Recipe, found: tuple[Pool, ...]) -> None:
    console, first = session.console, found[0]
    console.show(f"{recipe.name}: KV cache of one rank, predicted")
    for name, told in _figures(found):
        console.show(f"  {name:<10}{told}")
    console.table(
        tuple(
            Column(title=title)
            for title in ("groups", "layers", "tokens/block", "blocks", "GiB", "reserved", "unused")
        ),
        [
            (
                f"{share.count} x {share.group.cache.name}",
                str(share.group.layers),
                str(share.group.cache.block_tokens),
                str(share.count * share.blocks),
                f"{share.count * share.blocks * first.block_bytes / GIB:.3f}",
                f"{share.reserved / share.blocks:.0%}",
                f"{1 - share.group.block_bytes / first.block_bytes:.0%}",
            )
            for share in first.shares
        ],
    )
    console.show(
        f"of one request's {first.request_blocks * first.block_bytes / GIB:.2f} GiB, {first.reserved:.0%} stand by for tokens in flight; "
        f"{first.narrow:.0%} is\nlost since every block is as large as the widest group's, {first.aligned:.1%} to alignment"
    )
    console.say(
        "vLLM prints requests times their length: another length, another figure from the same\n"
        "bytes; compare pools in GiB. docs/predictions.md says how far this is proven"
    )


def _figures(found: tuple[Pool, ...]) -> Iterator[tuple[str, str]]:
    low, high = found[0], found[-1]
    pinned = low is high
    spans = [
        (
            "pool",
            [f"{one.size / GIB:.2f}" for one in found],
            " GiB" + (", pinned" if pinned else ", what utilisation leaves"),
        ),
        ("blocks", [f"{one.blocks:,}" for one in found], f" of {low.block_bytes:,} bytes"),
        ("tokens", [f"{one.tokens:,}" for one in found], f" at {low.length:,} a request"),
        ("requests", [f"{one.requests:.2f}" for one in found], " of full length at once"),
    ]
    for name, figures, rest in spans:
        yield name, " to ".join(figures) + rest


def _answer(recipe: Recipe, found: tuple[Pool, ...]) -> dict[str, Any]:
    first = found[0]
    return {
        "recipe": recipe.name,
        "predicted": True,
        "pools": [
            {"bytes": one.size, "blocks": one.blocks, "tokens": one.tokens, "requests": one.requests}
            for one in found
        ],
        "block_bytes": first.block_bytes,
        "max_model_len": first.length,
        "request_blocks": first.request_blocks,
        "shares": {"reserved": first.reserved, "narrow": first.narrow, "aligned": first.aligned},
        "groups": [
            {
                "count": share.count,
                "cache": share.group.cache.name,
                "layers": share.group.layers,
                "block_tokens": share.group.cache.block_tokens,
                "block_bytes": share.group.block_bytes,
                "blocks": share.blocks,
                "reserved": share.reserved,
            }
            for share in first.shares
        ],
    }
