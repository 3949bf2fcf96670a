"""The command line of every rank, as golden files, and what must hold for any recipe."""

import dataclasses
import difflib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.command import engine_argv, placeholder_faults, rank_commands
from launcher.overlay import overlay
from launcher.recipe import Argument, Recipe, digest, unknown_flags
from launcher.vllm import graph_sizes
from sparkctl import content
from sparkctl.cli.served import read_recipe
from sparkctl.line import Line

GOLDEN = Path(__file__).parent / "golden"


def _line_of(line: Line, count: int) -> Line:
    """Return the line with so many nodes, each with addresses of its own."""
    nodes = tuple(
        dataclasses.replace(
            line.nodes[0],
            name=f"spark-a{rank}",
            rank=rank,
            host=f"192.0.2.{10 + rank}",
            rails=tuple(
                dataclasses.replace(rail, address=f"10.10.{at}.{rank + 1}")
                for at, rail in enumerate(line.nodes[0].rails, start=1)
            ),
        )
        for rank in range(count)
    )
    return dataclasses.replace(line, nodes=nodes)


VARIANTS: dict[str, dict[str, Argument]] = {
    "v41-flash-exl3-tp4+ray": {"parallel.backend": "ray"},
    "v41-flash-exl3-tp4+ray-data": {"parallel.backend": "ray", "parallel.tensor": 2, "parallel.data": 2},
    "v41-flash-exl3-tp4+pipeline": {"parallel.tensor": 2, "parallel.pipeline": 2},
}


@pytest.mark.parametrize("name", [*content.recipes(), *VARIANTS])
def test_ranks_start_as_the_golden_file_says(name: str, line: Line) -> None:
    """Rank 0's whole docker command, an argument a line, then how each other rank's differs; on a difference the found one is left as .got."""
    recipe, facts = read_recipe(name.partition("+")[0])
    recipe = overlay(recipe, VARIANTS.get(name, {}), facts)
    argvs = [one.argv for one in rank_commands(recipe, _line_of(line, recipe.nodes), "boot-1")]
    parts = ["rank 0", *(f"  {part}" for part in argvs[0])]
    for rank, argv in enumerate(argvs[1:], start=1):
        changed = difflib.ndiff(argvs[0], argv)
        parts += [f"rank {rank}, where it differs", *(f"  {row}" for row in changed if row[0] in "+-")]
    found = "".join(f"{part}\n" for part in parts)
    golden = GOLDEN / f"{name}.txt"
    if not golden.exists() or found != golden.read_text():
        golden.with_suffix(".got").write_text(found)
        pytest.fail(f"differs from {golden}; compare with the .got beside it")


@pytest.mark.parametrize("name", content.recipes())
def test_every_recipe_says_where_it_comes_from(name: str) -> None:
    """Its file has its name, sources, and what is known to fail; what only a fork knows stands apart and names the fork."""
    recipe, engine = read_recipe(name)
    assert recipe.name == name
    assert recipe.sources
    assert recipe.known_to_fail
    assert recipe.fork is None or recipe.fork.of
    assert unknown_flags(recipe, engine) == ()
    forks = ("DSV41_", "EXL3_", "GLM53_", "CUDA_EXL3_", "B12X_", "ENGRAM_")
    assert [variable for variable in recipe.env if variable.startswith(forks)] == []


@pytest.mark.parametrize("name", [*content.recipes(), *VARIANTS])
def test_every_flag_that_is_rendered_is_one_of_the_engines_version(name: str, line: Line) -> None:
    """Also what follows from other sections and from the inventory; only a fork's own flags are its own business."""
    recipe, facts = read_recipe(name.partition("+")[0])
    recipe = overlay(recipe, VARIANTS.get(name, {}), facts)
    of_fork = recipe.fork.args.keys() if recipe.fork else set()
    used = set()
    for node in _line_of(line, recipe.nodes).nodes:
        argv = engine_argv(recipe, _line_of(line, recipe.nodes), node)
        used |= (
            {part[2:].removeprefix("no-") for part in argv if part.startswith("--")}
            if argv[0] != "start"
            else set()
        )
    assert used - of_fork <= set(facts.flags)


def test_graph_sizes_are_those_of_the_field() -> None:
    """With k = 5, 8 sequences give the sizes that the public launch lists (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark)."""
    assert graph_sizes(8, 5) == (5, 6, 10, 12, 15, 18, 20, 24, 25, 30, 35, 36, 40, 42, 48)


@given(st.integers(1, 32), st.integers(0, 10))
def test_every_batch_that_can_occur_is_captured(sequences: int, drafted: int) -> None:
    """For any number of running sequences both the drafting and the verifying step find their exact size."""
    sizes = graph_sizes(sequences, drafted)
    for running in range(1, sequences + 1):
        assert running * (drafted + 1) in sizes
        assert drafted == 0 or running * drafted in sizes


def test_only_workers_are_headless(recipe: Recipe, line: Line) -> None:
    """Rank 0 serves the API; every other rank is headless, and all agree on where to meet."""
    argvs = [engine_argv(recipe, line, node) for node in line.nodes]
    assert ["--headless" in argv for argv in argvs] == [False, True, True, True]
    assert {argv[argv.index("--master-addr") + 1] for argv in argvs} == {"10.10.1.1"}
    assert [argv[argv.index("--node-rank") + 1] for argv in argvs] == ["0", "1", "2", "3"]


def test_another_boot_has_another_digest(recipe: Recipe, line: Line) -> None:
    """A container may stay only for the boot it was made for; the same boot gives the same digests."""
    first, again, other = (rank_commands(recipe, line, boot)[0].digest for boot in ("b1", "b1", "b2"))
    assert first == again != other


def test_structured_arguments_are_json(recipe: Recipe, line: Line) -> None:
    """Structured flags get JSON that reads back as the recipe's value, braces and all."""
    argv = engine_argv(recipe, line, line.head)
    drafting = json.loads(argv[argv.index("--speculative-config") + 1])
    assert drafting["method"] == "dspark"
    assert drafting["num_speculative_tokens"] == 5
    assert json.loads(argv[argv.index("--limit-mm-per-prompt") + 1]) == {"image": 4}


def test_an_unknown_placeholder_is_a_fault(recipe: Recipe) -> None:
    """A hole in the environment that nothing fills is named with the ones there are."""
    (fault,) = placeholder_faults("{fabric_adress}")
    assert "unknown placeholder {fabric_adress}; wanted one of fabric_address" in fault
    assert all(placeholder_faults(text) == () for text in recipe.env.values())


def test_the_recipe_knows_its_engine(recipe: Recipe, engine: object) -> None:
    """Every flag of the recipe is one of the engine version it names."""
    assert unknown_flags(recipe, engine) == ()  # type: ignore[arg-type]


def test_a_digest_follows_the_content(recipe: Recipe) -> None:
    """Any change of a recipe changes its digest."""
    assert digest(recipe) == digest(dataclasses.replace(recipe))
    assert digest(recipe) != digest(dataclasses.replace(recipe, env={**recipe.env, "A": "1"}))
