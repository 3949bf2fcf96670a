"""What a bench sends."""

import hashlib
import json
import math
from dataclasses import asdict, replace

import pytest

from tuner.workload import WARM_UP, Quantity, Workload, digest, filler_text, quantities, rounds


def test_every_prompt_starts_with_a_tag_that_occurs_once(quick: Workload) -> None:
    """No two requests of two runs share a first word, so no prefix of one can be cached for another."""
    orders = [order for run in ("run-1", "run-2") for batch in rounds(quick, run) for order in batch]
    assert all(order.text.startswith(f"{order.tag} ") for order in orders)
    assert len({order.tag for order in orders}) == len(orders)


def test_cells_release_as_many_streams_as_they_say(quick: Workload) -> None:
    """Two warm-ups, five single streams, two rounds of six different prompts, one prefill."""
    batches = list(rounds(quick, "run"))
    assert [len(batch) for batch in batches] == [1] * 7 + [6, 6, 1]
    assert [batch[0].cell for batch in batches] == [WARM_UP] * 2 + ["c1"] * 5 + ["c6"] * 2 + ["prefill_47k"]
    assert len({order.prompt for order in batches[7]}) == 6
    assert batches[-1][0].max_tokens == 1


def test_filler_is_a_function_of_its_seed_and_as_long_as_planned(quick: Workload) -> None:
    """The same tag gives the same text, another tag another; the length follows the planning figure."""
    text = filler_text(quick.filler, "[a]", 47000)
    assert text == filler_text(quick.filler, "[a]", 47000)
    assert text[:100] != filler_text(quick.filler, "[b]", 47000)[:100]
    assert len(text) == pytest.approx(4 * 47000, rel=0.001)


def test_filler_repeats_no_run_of_four_items(quick: Workload) -> None:
    """Rows of an n-gram table stay cold: of 34,000 runs of four items hardly one comes twice."""
    items = filler_text(quick.filler, "[a]", 47000).split()
    runs = [tuple(items[at : at + 4]) for at in range(len(items) - 3)]
    assert len(set(runs)) > 0.999 * len(runs)


def test_digest_is_the_hash_of_canonical_json_and_sees_every_change(quick: Workload) -> None:
    """Anyone can recompute it from the file, and another limit or prompt is another workload."""
    text = json.dumps(asdict(quick), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest(quick) == hashlib.sha256(text.encode()).hexdigest()
    assert digest(replace(quick, limit_s=239)) != digest(quick)


def test_workload_refuses_what_it_cannot_send(quick: Workload) -> None:
    """A prompt that is not there, a cell of the wrong kind and a metric given twice are faults of the file."""
    decode, prefill = quick.cells[0], quick.cells[2]
    with pytest.raises(ValueError, match="no prompt has the id poem"):
        replace(quick, warm_up=("poem",))
    with pytest.raises(ValueError, match="a decode cell names prompts"):
        replace(decode, prompts=())
    with pytest.raises(ValueError, match="gives prompt_tokens"):
        replace(prefill, prompt_tokens=None)
    with pytest.raises(ValueError, match="metric of the same name"):
        replace(quick, cells=(decode, replace(decode, name="again")))


def test_a_workload_without_cells_is_refused(quick: Workload) -> None:
    """There would be nothing to send."""
    with pytest.raises(ValueError, match="no cells, wanted at least one"):
        replace(quick, cells=())


@pytest.mark.parametrize("tokens", [-1, 0, 99])
def test_a_prefill_prompt_must_be_more_than_its_tag(quick: Workload, tokens: int) -> None:
    """Nothing can be divided by 0 planned tokens, and of a few dozen most are tag and template."""
    with pytest.raises(ValueError, match=rf"prompt_tokens is {tokens}, wanted at least 100"):
        replace(quick.cells[2], prompt_tokens=tokens)


@pytest.mark.parametrize(
    ("cell", "quantity"), [(0, "prefill"), (1, "prefill"), (2, "per_stream"), (2, "aggregate")]
)
def test_a_cell_gives_only_what_it_can_tell(quick: Workload, cell: int, quantity: Quantity) -> None:
    """One token has no rate between tokens; a question of a few words does not time its reading."""
    with pytest.raises(ValueError, match=f"gives no {quantity}, only"):
        replace(quick.cells[cell], metrics={"x": quantity})
    assert replace(quick.cells[cell], metrics={"x": "ttft"}).metrics == {"x": "ttft"}


def test_a_cell_without_a_metric_is_refused(quick: Workload) -> None:
    """Its requests would be sent for nothing."""
    with pytest.raises(ValueError, match="gives no metric"):
        replace(quick.cells[0], metrics={})


@pytest.mark.parametrize("wild", [0.0, -1.0, math.nan, math.inf])
def test_times_and_sizes_are_finite_and_above_0(quick: Workload, wild: float) -> None:
    """YAML knows .nan and .inf; neither is a limit nor a length."""
    with pytest.raises(ValueError, match="limit_s is"):
        replace(quick, limit_s=wild)
    with pytest.raises(ValueError, match="characters_a_token is"):
        replace(quick.filler, characters_a_token=wild)


@pytest.mark.parametrize("field", ["model", "messages", "max_tokens", "n", "stream", "stream_options"])
def test_the_body_leaves_alone_what_figures_rest_on(quick: Workload, field: str) -> None:
    """A body that switched streaming or usage off, or changed the length, would spoil each bench; others may be set."""
    with pytest.raises(ValueError, match=f"body: {field} is set by the bench itself"):
        replace(quick, body={field: 1})
    assert replace(quick, body={"temperature": 0.6}).body == {"temperature": 0.6}


def test_quantities_are_those_of_the_public_ladder(quick: Workload) -> None:
    """The quick workload gives the three figures that ladders are judged by, each read as its name says."""
    found = quantities(quick)
    assert found["c1_per_stream_tok_s"] == "per_stream"
    assert found["c6_agg_tok_s"] == "aggregate"
    assert found["prefill_47k_tok_s"] == "prefill"
