"""What a bench sends."""

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sparkctl import edge
from sparkctl.cli import workloads
from sparkctl.errors import FileFault
from tuner import orders
from tuner.filler import Filler, fill
from tuner.orders import Order
from tuner.workload import BURST, SENTINEL, WARM_UP, Quantity, WarmUp, Workload, digest, quantities

WORDS = Filler(
    text=" ".join(f"word{chr(97 + n % 26)}{n}" for n in range(300)), unit="words", characters_a_token=4.0
)


def sent(workload: Workload, run_tag: str) -> list[tuple[Order, ...]]:
    """Return all that a bench sends, batch by batch, with as long a warm-up as it may take."""
    cells = workload.cells
    return [
        *((order,) for order in orders.warm_up(workload, run_tag)),
        orders.burst(workload, run_tag),
        *(orders.sentinel(workload, number, run_tag) for number in range(len(cells) + 1)),
        *(batch for cell in cells for batch in orders.rounds(workload, cell, run_tag)),
    ]


def test_every_prompt_starts_with_a_tag_that_occurs_once(quick: Workload) -> None:
    """No two requests of two runs share a first word, so no prefix of one can be cached for another."""
    found = [order for run in ("run-1", "run-2") for batch in sent(quick, run) for order in batch]
    assert all(order.text.startswith(f"{order.tag} ") for order in found)
    assert len({order.tag for order in found}) == len(found)


def test_cells_release_as_many_streams_as_they_say(quick: Workload) -> None:
    """Five single streams, two rounds of six different prompts, one prefill; around them warm-up, burst and sentinels."""
    batches = [batch for cell in quick.cells for batch in orders.rounds(quick, cell, "run")]
    assert [len(batch) for batch in batches] == [1] * 5 + [6, 6, 1]
    assert [batch[0].cell for batch in batches] == ["c1"] * 5 + ["c6"] * 2 + ["prefill_47k"]
    assert len({order.prompt for order in batches[5]}) == 6
    assert batches[-1][0].max_tokens == 1
    assert {order.cell for order in orders.warm_up(quick, "run")} == {WARM_UP}
    assert [order.cell for order in orders.burst(quick, "run")] == [BURST] * 6
    assert [order.cell for order in orders.sentinel(quick, 0, "run")] == [SENTINEL]


def test_a_cell_dealt_by_rounds_asks_one_kind_at_a_time() -> None:
    """As published results have it: all streams of a round have one category, and each category comes once."""
    full = workloads.read("full")
    (six,) = [cell for cell in full.cells if cell.name == "c6"]
    rounds = list(orders.rounds(full, six, "run"))
    assert [len({order.prompt for order in batch}) for batch in rounds] == [1] * 8
    assert len({batch[0].prompt for batch in rounds}) == 8


def test_the_whole_bench_has_the_cells_that_owners_publish() -> None:
    """One to six streams over eight kinds, counting outside them, four cold prefills."""
    full = workloads.read("full")
    decode = [cell for cell in full.cells if cell.kind == "decode" and len(cell.prompts) > 1]
    assert [cell.concurrency for cell in decode] == [1, 2, 3, 4, 5, 6]
    assert all(len(cell.prompts) == 8 and "counting" not in cell.prompts for cell in decode)
    assert [cell.prompt_tokens for cell in full.cells if cell.kind == "prefill"] == [
        2950,
        11_600,
        47_000,
        93_300,
    ]


@pytest.mark.parametrize("unit", ["passages", "words"])
def test_filler_is_a_function_of_its_seed_and_as_long_as_planned(quick: Workload, unit: str) -> None:
    """The same tag gives the same text, another tag another; the length follows the planning figure."""
    filler = quick.filler if unit == "passages" else WORDS
    text = fill(filler, "[a]", 47000)
    assert text == fill(filler, "[a]", 47000)
    assert text[:100] != fill(filler, "[b]", 47000)[:100]
    assert len(text) == pytest.approx(4 * 47000, rel=0.001)


def test_filler_of_words_repeats_no_run_of_four_items() -> None:
    """Rows of an n-gram table stay cold: of the runs of four items hardly one comes twice."""
    items = fill(WORDS, "[a]", 47000).split()
    runs = [tuple(items[at : at + 4]) for at in range(len(items) - 3)]
    assert len(set(runs)) > 0.999 * len(runs)


def test_passages_are_sent_once_each_until_they_are_used_up(quick: Workload) -> None:
    """A prompt of 90,000 tokens holds no passage twice: an n-gram that comes again was written so."""
    passages = fill(quick.filler, "[a]", 90_000).split("\n\n")
    assert len(passages) == len(set(passages)) > 500


def test_a_prompt_file_of_v41bench_is_a_workload(tmp_path: Path) -> None:
    """Its categories at one to six streams, counting apart, its four prefills of its own words; replies may end early."""
    asked = [{"name": name, "prompt": f"Say {name}.", "max_tokens": 200} for name in ("coding", "json")]
    told = {
        "version": "v1", "temperature": 0, "thinking": False, "categories": asked,
        "ceiling": {"name": "ceiling_count", "prompt": "Count from 1 to 80.", "max_tokens": 256},
        "prefill_filler": {"words": [f"w{n}" for n in range(26)], "seed_rule": "seed = target", "words_per_target_token": 0.55},
    }  # fmt: skip
    path = tmp_path / "prompts-v1.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    found = workloads.read(str(path))
    assert [cell.name for cell in found.cells[:4]] == ["c1", "c1_counting", "c2", "c2_counting"]
    assert [cell.prompt_tokens for cell in found.cells[-4:]] == [2950, 11_592, 46_810, 93_335]
    assert found.body == {"temperature": 0, "chat_template_kwargs": {"thinking": False}}
    assert {prompt.least_answered for prompt in found.prompts} == {0.1}
    path.write_text(json.dumps({**told, "categories": [{"name": "coding"}]}), encoding="utf-8")
    with pytest.raises(FileFault, match=r"categories\[0\]"):
        workloads.read(str(path))


@pytest.mark.parametrize(
    ("filler", "said"),
    [
        ({"file": "absent.txt", "characters_a_token": 4.0}, "absent.txt"),
        ({"file": 7, "characters_a_token": 4.0}, r"\$.filler.file: wanted the name of a text file, found 7"),
        ({"file": "few.txt", "characters_a_token": 4.0}, "2 different words, wanted at least 20"),
        ({"unit": "letters", "text": "a b", "characters_a_token": 4.0}, "unit"),
    ],
)
def test_a_text_that_is_none_is_a_fault_of_the_file(
    tmp_path: Path, quick: Workload, filler: dict[str, object], said: str
) -> None:
    """The text of a workload lies beside it, and its fault names the key or the file."""
    (tmp_path / "few.txt").write_text("two words", encoding="utf-8")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**edge.plain(quick), "filler": filler}), encoding="utf-8")
    with pytest.raises(FileFault, match=said):
        workloads.read(str(path))


def test_digest_is_the_hash_of_canonical_json_and_sees_every_change(quick: Workload) -> None:
    """Anyone can recompute it from the file, and another limit or prompt is another workload."""
    text = json.dumps(asdict(quick), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest(quick) == hashlib.sha256(text.encode()).hexdigest()
    assert digest(replace(quick, limit_s=239)) != digest(quick)


def test_workload_refuses_what_it_cannot_send(quick: Workload) -> None:
    """A prompt that is not there, a cell of the wrong kind and a metric given twice are faults of the file."""
    decode, prefill = quick.cells[0], quick.cells[2]
    with pytest.raises(ValueError, match="no prompt has the id poem"):
        replace(quick, warm_up=WarmUp(prompt="poem"))
    with pytest.raises(ValueError, match="no prompt has the id ode"):
        replace(quick, sentinel="ode")
    with pytest.raises(ValueError, match="no cell names prompts to send"):
        replace(quick, cells=(prefill,))
    with pytest.raises(ValueError, match="agree is 1"):
        WarmUp(prompt="code", agree=1)
    with pytest.raises(ValueError, match="within is 0"):
        WarmUp(prompt="code", within=0)
    with pytest.raises(ValueError, match=r"least_answered is 1.5"):
        replace(quick.prompts[0], least_answered=1.5)
    with pytest.raises(ValueError, match="belongs to the bench itself"):
        replace(decode, name=SENTINEL)
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
