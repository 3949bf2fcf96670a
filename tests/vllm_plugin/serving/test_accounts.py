"""Accounts inside vLLM: whatever is scheduled, each request is charged for its own accepted rows and for nothing else.

The worker's own bookkeeping is driven by schedules as vLLM makes them, and held against a book that knows requests by name only, and
against the definitions in `damage` and `waterfill`.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm import damage, waterfill
from sparkctl_vllm import loads as loads_of
from sparkctl_vllm.damage import NAT
from sparkctl_vllm.plan_file import Meaning, Plan
from sparkctl_vllm.serving.binding import Bound
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.figures import Figures
from sparkctl_vllm.serving.ledger import Ledger
from sparkctl_vllm.serving.roster import Work

EXPERTS, LAYERS, TOP, ROWS, RUNNING = 6, 2, 2, 12, 3
TILES = (3, 2)


def plan(price=2e5, h=0.4, eps=0.05, seed=0):
    """A plan of two ranks of uneven width, whose cuts cost up to some tenths of a nat."""
    rng = np.random.default_rng(seed)
    tables = {"price": np.full((LAYERS, ROWS + 1), price, np.float32), "fisher": np.ones(LAYERS, np.float32)}
    for layer in range(LAYERS):
        slices = [-np.sort(-rng.random((EXPERTS, tiles)), axis=1) for tiles in TILES]
        tables[f"D.L{layer}"] = np.concatenate(slices, axis=1).astype(np.float32)
        tables[f"perm.L{layer}"] = np.tile(np.arange(sum(TILES) * 64), (EXPERTS, 1)).astype(np.uint16)
        tables[f"count.L{layer}"] = np.ones(EXPERTS, np.uint32)
    meaning = Meaning(
        model="m", checkpoint={}, experts=EXPERTS, layers=LAYERS, widths=tuple(64 * tiles for tiles in TILES), tile=64, format="bf16",
        applied=False, eps=eps, h=h, d_max=1.0, floor_tiles=2, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="",
    )  # fmt: skip
    return Plan(meaning=meaning, tables=tables)


def budget(rank=0, **changes):
    """A worker's budget."""
    made = plan(**changes)
    bound = Bound(plan=made, rank=rank, places={layer: layer for layer in range(LAYERS)})
    return Budget(bound, "water-filled", RUNNING, Figures.made(None, len(TILES), ROWS), torch.device("cpu"))


def routed(rng, rows):
    """Picks and weights of a layer's rows."""
    picks = np.stack([rng.choice(EXPERTS, TOP, replace=False) for _ in range(rows)]).astype(np.int32)
    return picks, rng.random((rows, TOP)).astype(np.float32)


def forward(one, rng, padding=0):
    """Run the layers of a step: returns what each row costs by the definition, with the depths that this rank read."""
    assert one.batch is not None
    rows = one.batch.rows
    cost, mine = np.zeros(rows, np.int64), []
    for layer in range(LAYERS):
        picks, weights = routed(rng, rows + padding)
        before = one.ledger.owed.clone()
        depths = one.depths(layer, torch.from_numpy(picks), torch.from_numpy(weights))
        assert (before == one.ledger.owed).all(), "a forward charges nobody"
        mine.append(depths.tolist())
        cost += by_definition(one, layer, picks, weights, rows)
    return cost, mine


def by_definition(one, layer, picks, weights, rows):
    """What the rows of a layer cost, from `waterfill` and `damage` alone."""
    made = one.bound.plan
    meaning = made.meaning
    total = loads_of.loads(picks, weights, EXPERTS, rows)
    owed = np.array([int(one.ledger.owed[slot]) for slot in one.batch.row_slots()])
    whole = np.array([bool(one.ledger.whole[slot]) for slot in one.batch.row_slots()])
    skipped = np.zeros((EXPERTS, 1), np.int64)
    for rank, tiles in enumerate(TILES):
        least = np.full(EXPERTS, meaning.min_tiles)
        for row in range(rows):
            spent = owed[row] > 2 * one.ledger.bar or whole[row]
            wanted = tiles if spent else min(tiles, meaning.floor_tiles) if owed[row] > one.ledger.bar else 0
            least[picks[row]] = np.maximum(least[picks[row]], wanted)
        importance = made.importance(layer, rank)
        depths = waterfill.cleared(total, importance, made.price(layer, rows), least)
        tails = damage.tails(importance)
        skipped[:, 0] += tails[np.arange(EXPERTS), depths]
    return damage.of_rows(
        picks, weights, np.zeros(EXPERTS, np.int32), np.hstack([skipped, 0 * skipped]), rows
    )[:rows]


def test_depths_and_costs_are_those_of_the_definition():
    """Over both ranks, with padding rows that have picks and weights of their own."""
    one = budget()
    one.turnover((), {"a": None, "b": {"sparkctl_full": True}})
    one.begin([Work(request="a", rows=3, decoding=True), Work(request="b", rows=1, decoding=True)])
    cost, _ = forward(one, np.random.default_rng(1), padding=2)
    assert one.running.cost[:4].tolist() == cost.tolist()
    assert (one.running.cost[4:] == 0).all(), "padding carries nothing"
    assert int(cost[3]) == 0, "who asked for whole reads loses nothing"
    assert cost[:3].any()


def test_outside_of_a_step_nothing_is_announced():
    """Prefill, a step that is too large, and what follows the close of a step are read whole."""
    one = budget()
    one.turnover((), {"a": None})
    one.begin([Work(request="a", rows=5, decoding=False)])
    assert one.batch is None
    one.begin([Work(request="a", rows=ROWS + 1, decoding=True)])
    assert one.batch is None
    one.begin([Work(request="a", rows=1, decoding=True)])
    assert one.close() is not None
    assert one.batch is None
    assert (one.figures.single("steps_whole_prefill"), one.figures.single("steps_whole_rows")) == (1, 1)


def test_bytes_are_counted_by_rank():
    """What is read is tiles times bytes of a tile, and whole reads are what the same picks would have cost."""
    one = budget()
    one.tile_bytes = 100
    one.turnover((), {"a": None})
    one.begin([Work(request="a", rows=2, decoding=True)])
    _, mine = forward(one, np.random.default_rng(3))
    one.charge(one.close(), {"a": 1})
    assert one.figures.read[0] == 100 * sum(map(sum, mine))
    assert one.figures.steps[2] == 1
    assert 0 < one.figures.read[0] < one.figures.whole[0]
    assert one.figures.single("tiles_whole") * 100 == one.figures.whole.sum()


@dataclass
class Vllm:
    """As much of a scheduler as workers see: requests that wait, run, draft, are preempted, aborted and named again."""

    running: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    fresh: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def arrive(self, name):
        """A name may come again once its first request ended, as a client's own id does."""
        if name not in self.running + self.waiting:
            self.waiting.append(name)
            self.fresh.add(name)

    def end(self, name):
        """A request ends by itself or is aborted, running, waiting for its first step, or preempted; workers hear of those they saw."""
        queue = self.running if name in self.running else self.waiting
        queue.remove(name)
        if name not in self.fresh:
            self.ended.add(name)
        self.fresh.discard(name)

    def scheduled(self, count):
        """Let so many of those that wait run; return those that run for the first time."""
        chosen, self.waiting = self.waiting[:count], self.waiting[count:]
        self.running += chosen
        first = [name for name in chosen if name in self.fresh]
        self.fresh -= set(first)
        return first


WISHES = (None, {"sparkctl_full": 1}, {"sparkctl_eps": 0.2}, {"sparkctl_eps": "x"})


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_charge_never_leaks(data):
    """Preemption, abort, reuse of slots and of names, drafts accepted and refused, prefixes found: two ranks keep equal, true books."""
    ranks = [budget(rank=rank) for rank in range(len(TILES))]
    engine, book = Vllm(), {}
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6), label="routing"))
    for _ in range(data.draw(st.integers(1, 30), label="events")):
        known = sorted(engine.running + engine.waiting)
        event = data.draw(st.sampled_from(("arrive", "end", "preempt", "step", "step", "step")))
        if event == "arrive":
            engine.arrive(f"r{data.draw(st.integers(0, 6))}")
        elif event == "end" and known:
            engine.end(data.draw(st.sampled_from(known)))
        elif event == "preempt" and engine.running:
            engine.waiting.insert(0, engine.running.pop())
        elif event == "step":
            work = _turned(data, engine, ranks, book)
            _run(data, work, ranks, book, rng)
    assert all((one.ledger.owed == ranks[0].ledger.owed).all() for one in ranks)


def _turned(data, engine, ranks, book):
    """Tell the workers who ended and who came, and return what is scheduled, in any order."""
    room = min(len(engine.waiting), RUNNING - len(engine.running))
    first = engine.scheduled(data.draw(st.integers(0, room)))
    arrived = {name: data.draw(st.sampled_from(WISHES)) for name in first}
    for name in engine.ended:
        book.pop(name)
    book.update(dict.fromkeys(first, 0))
    for one in ranks:
        one.close()
        one.turnover(engine.ended, arrived)
    engine.ended = set()
    return [
        Work(
            request=name,
            rows=data.draw(st.integers(1, 4)),
            decoding=name not in arrived and data.draw(st.integers(0, 9)) > 0,
        )
        for name in data.draw(st.permutations(engine.running))
    ]


def _run(data, work, ranks, book, rng):
    """Run one step on every rank with the same routing, and charge what was accepted."""
    if not work:
        return
    state = rng.bit_generator.state
    cost = None
    for one in ranks:
        one.begin(work)
        rng.bit_generator.state = state
        cost = forward(one, rng)[0] if one.batch else None
    if cost is not None:
        accepted = {
            one.request: data.draw(st.integers(0, one.rows)) for one in work if data.draw(st.booleans())
        }
        starts = ranks[0].batch.starts
        for one in ranks:
            one.charge(one.close(), accepted)
        for one, start in zip(work, starts, strict=True):
            eps = int(ranks[0].ledger.eps[ranks[0].roster.slot(one.request)])
            for row in range(start, start + accepted.get(one.request, 0)):
                book[one.request] = max(0, book[one.request] + int(cost[row]) - eps)
    _books_agree(ranks[0], book)


def _books_agree(one, book):
    """Every request owes what its own rows cost; free slots and nobody's owe nothing."""
    for name, slot in one.roster.slots.items():
        assert int(one.ledger.owed[slot]) == book[name], name
    taken = set(one.roster.slots.values())
    assert all(
        int(one.ledger.owed[slot]) == 0 for slot in range(one.roster.capacity + 1) if slot not in taken
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_worst_reply_is_bounded_in_the_worker(data):
    """Proposition 5 with 2 h, over whole steps: an adversary chooses routing, drafts and company; eps + (2 h + d_max) / n holds."""
    one = budget(price=1e9)
    one.turnover((), {"victim": None, "other": None})
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    paid = []
    for _ in range(data.draw(st.integers(1, 25))):
        work = [
            Work(request=name, rows=data.draw(st.integers(1, 3)), decoding=True)
            for name in ("other", "victim")
        ]
        one.begin(work)
        forward(one, rng)
        first = work[0].rows
        got = data.draw(st.integers(0, work[1].rows))
        paid += one.running.cost[first : first + got].tolist()
        one.charge(one.close(), {"victim": got, "other": 1})
    if paid:
        slack = 2 * one.ledger.bar + max(paid) * 3
        # A step of several accepted rows is read before its first row is charged: up to that many tokens may follow the bar at once.
        assert sum(paid) <= int(one.ledger.eps[one.roster.slot("victim")]) * len(paid) + slack


def test_charges_are_those_of_damage():
    """The tensors keep the accounts that `damage` defines, row after row."""
    rng = np.random.default_rng(5)
    ledger = Ledger(3, 0.5, torch.device("cpu"))
    accounts = damage.opened(3, 0.5)
    for slot, eps in enumerate((0.1, 0.0, 0.3)):
        ledger.admit(slot, eps, whole=slot == 2)
        accounts = damage.admit(accounts, slot, eps, whole=slot == 2)
    for _ in range(20):
        rows = [int(one) for one in rng.integers(1, 4, 3)]
        starts = [0, rows[0], rows[0] + rows[1]]
        cost = rng.integers(0, NAT, sum(rows))
        accepted = [int(rng.integers(0, count + 1)) for count in rows]
        ledger.charge(
            torch.from_numpy(cost),
            torch.tensor([0, 1, 2]),
            torch.tensor(starts),
            torch.tensor(accepted),
            max(rows),
        )
        slots = np.repeat([0, 1, 2], rows).astype(np.int32)
        taken = np.concatenate([np.arange(count) < got for count, got in zip(rows, accepted, strict=True)])
        accounts = damage.charge(accounts, slots, cost, taken)
        assert ledger.owed[:3].tolist() == accounts.owed.tolist()
        tiles = (torch.tensor([4]), torch.tensor([9]))
        floors = ledger.floors(torch.tensor([0, 1, 2]), tiles)[0].clamp(min=1).tolist()
        picks = np.array([[0], [1], [2]], np.int32)
        assert floors == damage.floors(accounts, np.array([0, 1, 2], np.int32), picks, 3, (1, 4, 9)).tolist()
