"""Ladders: what ships, and what is refused."""

import hashlib
import json
import math
from dataclasses import asdict, replace
from functools import partial

import pytest

from launcher.overlay import find_fault
from launcher.recipe import EngineFacts, Recipe
from sparkctl import content, edge
from sparkctl.cli import workloads
from tuner.lever import Boots, Guard, Ladder, Setting, check, digest
from tuner.workload import Quantity, Workload, quantities

MEASURED: dict[str, Quantity] = {"a": "per_stream", "prefill_47k_tok_s": "prefill"}


def fault_of(key: str, _: Setting) -> str:
    """Say what is wrong with a setting, for a recipe that has arguments and environment only."""
    return "" if key.startswith(("args.", "env.")) else "unknown recipe key"


def test_every_ladder_that_ships_fits_its_recipe_and_workload() -> None:
    """Each sets keys that its recipe has, reads metrics that its workload measures, and credits each lever."""
    paths = sorted((content.root() / "recipes" / "ladders").glob("*.yml"))
    ladders = [edge.read(path, Ladder) for path in paths]
    assert ladders
    for ladder in ladders:
        workload = workloads.read(ladder.workload)
        recipe = edge.read(content.recipe(ladder.recipe), Recipe)
        engine = edge.read(content.engines()[f"{recipe.engine.kind}-{recipe.engine.version}"], EngineFacts)
        assert check(ladder, partial(_fault, recipe, engine), quantities(workload)) == ()
        assert all(lever.about and lever.source and lever.credit for lever in ladder.levers)


def _fault(recipe: Recipe, engine: EngineFacts, key: str, value: Setting) -> str:
    return find_fault(recipe, key, value, engine)


def test_demo_holds_the_four_levers_of_the_public_ladder_in_order(ladder: Ladder) -> None:
    """The settings are those of the public recipes; an environment variable is text even where it looks like a number."""
    assert [lever.id for lever in ladder.levers] == [
        "nccl-channels",
        "async-scheduling",
        "nccl-threads",
        "b12x-mxfp8",
    ]
    assert ladder.levers[0].set == {"env.NCCL_MAX_NCHANNELS": "8"}
    assert ladder.levers[1].set == {"args.async-scheduling": True}


def test_faults_are_told_with_their_paths_all_at_once(ladder: Ladder) -> None:
    """An unknown key, a double id, unknown neighbours and an unmeasured metric in one go."""
    first, second, third, fourth = ladder.levers
    wrong = replace(
        ladder,
        primary=("c9_agg_tok_s",),
        levers=(
            replace(first, requires=(second.id,)),
            replace(second, set={"arg.async-scheduling": True}),
            replace(third, id=second.id),
            replace(fourth, conflicts=("nccl-treads",)),
        ),
    )
    assert check(wrong, fault_of, MEASURED) == (
        "$.primary[0]: workload quick measures no c9_agg_tok_s, only a, prefill_47k_tok_s",
        "$.levers[1].set: arg.async-scheduling: unknown recipe key",
        "$.levers[0].requires: no lever before this one is called async-scheduling",
        "$.levers[2].id: async-scheduling is already the lever at 1",
        "$.levers[3].conflicts: no lever is called nccl-treads",
    )


def test_a_metric_of_which_less_is_better_is_refused(ladder: Ladder, quick: Workload) -> None:
    """Every bar asks for more, so a slower first token would count as a gain and a faster one break a guard."""
    wrong = replace(
        ladder,
        primary=("c6_agg_tok_s", "c1_ttft_s"),
        guards=(Guard(metric="c1_ttft_s", most_loss=0.05),),
    )
    reason = (
        "c1_ttft_s is a ttft, of which less is better, and every bar asks for more; wanted one of "
        "c1_per_stream_tok_s, c6_agg_tok_s, c6_per_stream_tok_s, prefill_47k_tok_s"
    )
    assert check(wrong, lambda *_: "", quantities(quick)) == (
        f"$.primary[1]: {reason}",
        f"$.guards[0].metric: {reason}",
    )


def test_digest_is_the_hash_of_canonical_json_and_sees_every_change(ladder: Ladder) -> None:
    """Anyone can recompute it from the file, and another bar or setting is another ladder."""
    plain = asdict(ladder)
    for one in plain["levers"]:
        # Older than this key: where a lever names none the digest is what it was.
        assert one.pop("batteries") == ()
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest(ladder) == hashlib.sha256(text.encode()).hexdigest()
    first, *others = ladder.levers
    changed = replace(first, set={"env.NCCL_MAX_NCHANNELS": "4"})
    assert digest(replace(ladder, error=0.1)) != digest(ladder)
    assert digest(replace(ladder, levers=(changed, *others))) != digest(ladder)


def test_values_that_are_wrong_alone_are_refused_at_once(ladder: Ladder) -> None:
    """Bars outside their range and empty parts never become a ladder."""
    with pytest.raises(ValueError, match="least is 3 and most is 2"):
        Boots(least=3, most=2)
    with pytest.raises(ValueError, match="most_loss is 5"):
        Guard(metric="prefill_47k_tok_s", most_loss=5)
    with pytest.raises(ValueError, match="error is 5"):
        replace(ladder, error=5)
    with pytest.raises(ValueError, match="min_gain is -1"):
        replace(ladder, min_gain=-1)
    for wild in (math.nan, math.inf):
        with pytest.raises(ValueError, match="min_gain is"):
            replace(ladder, min_gain=wild)
    with pytest.raises(ValueError, match="one lever"):
        replace(ladder, levers=())
    with pytest.raises(ValueError, match="sets nothing"):
        replace(ladder.levers[0], set={})


def test_looks_count_from_least_to_most() -> None:
    """A lever with 2 to 8 boots is looked at seven times."""
    assert (Boots(least=2, most=8).looks, Boots(least=1, most=1).looks) == (7, 1)
