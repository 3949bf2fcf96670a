"""Damage and its accounts: the bound on the worst reply over adversarial sequences, and charges that never change hands."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl_vllm import damage
from sparkctl_vllm.damage import NAT
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.refusal import Refusal

SLOTS = 4


@settings(max_examples=300, deadline=None)
@given(
    eps=st.integers(0, 3 * NAT),
    bar=st.integers(0, 8 * NAT),
    wishes=st.lists(st.integers(0, 64 * NAT), min_size=1, max_size=60),
    kept=st.lists(st.integers(0, 3 * NAT), min_size=60, max_size=60),
)
def test_the_worst_reply_is_bounded(eps: int, bar: int, wishes: list[int], kept: list[int]) -> None:
    """Whatever damage an adversary asks for below the bar: mean <= eps + (h + d_max) / n when tokens above it cost eps at most."""
    accounts = damage.admit(damage.opened(1, bar / NAT), 0, eps / NAT)
    eps, bar = int(accounts.eps[0]), accounts.bar
    taken: list[int] = []
    for wish, mild in zip(wishes, kept, strict=False):
        cost = min(mild, eps) if accounts.deep[0] else wish
        taken.append(cost)
        accounts = damage.charge(
            accounts, np.array([0], np.int32), np.array([cost], np.int64), np.array([True])
        )
    assert sum(taken) <= eps * len(taken) + bar + max(taken)


@settings(max_examples=300, deadline=None)
@given(
    eps=st.integers(0, 3 * NAT),
    bar=st.integers(0, 8 * NAT),
    wishes=st.lists(st.tuples(st.integers(0, 64 * NAT), st.integers(0, 64 * NAT)), min_size=1, max_size=60),
)
def test_it_is_bounded_whatever_the_deep_floor_costs(
    eps: int, bar: int, wishes: list[tuple[int, int]]
) -> None:
    """With 2 h in the place of h, since from there on everything is read: an adversary chooses plain and deep costs freely."""
    accounts = damage.admit(damage.opened(1, bar / NAT), 0, eps / NAT)
    eps, bar = int(accounts.eps[0]), accounts.bar
    taken: list[int] = []
    for plain, deep in wishes:
        cost = 0 if accounts.spent[0] else deep if accounts.deep[0] else plain
        taken.append(cost)
        accounts = damage.charge(
            accounts, np.array([0], np.int32), np.array([cost], np.int64), np.array([True])
        )
    assert sum(taken) <= eps * len(taken) + 2 * bar + max(taken)


@dataclass
class Books:
    """What a plain account of each request by its name would hold."""

    eps: dict[str, int] = field(default_factory=dict)
    owed: dict[str, int] = field(default_factory=dict)
    slot_of: dict[str, int] = field(default_factory=dict)
    away: dict[str, int] = field(default_factory=dict)

    def charge(self, name: str, cost: int) -> None:
        """S <- max(0, S + d - eps)."""
        self.owed[name] = max(0, self.owed[name] + cost - self.eps[name])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_charge_never_changes_hands(data: st.DataObject) -> None:
    """Arrivals, steps with drafts accepted and refused, padding, preemption, return, aborts and reuse of slots, in any order."""
    accounts, books, born = damage.opened(SLOTS, 1.0), Books(), 0
    for _ in range(data.draw(st.integers(1, 40), label="events")):
        free = [slot for slot in range(SLOTS) if accounts.free[slot]]
        live = sorted(books.slot_of)
        events = (
            ["step"]
            + ["arrive"] * bool(free)
            + ["leave", "preempt"] * bool(live)
            + ["return"] * bool(free and books.away)
        )
        event = data.draw(st.sampled_from(events))
        if event == "arrive":
            name, born = f"r{born}", born + 1
            slot, eps = data.draw(st.sampled_from(free)), data.draw(st.floats(0, 2))
            accounts = damage.admit(accounts, slot, eps)
            books.slot_of[name], books.owed[name], books.eps[name] = slot, 0, int(eps * NAT)
        elif event == "leave":
            name = data.draw(st.sampled_from(live))
            accounts = damage.leave(accounts, books.slot_of.pop(name))
        elif event == "preempt":
            name = data.draw(st.sampled_from(live))
            slot = books.slot_of.pop(name)
            books.away[name] = int(accounts.owed[slot])
            accounts = damage.leave(accounts, slot)
        elif event == "return":
            name = data.draw(st.sampled_from(sorted(books.away)))
            slot = data.draw(st.sampled_from(free))
            accounts = damage.resume(
                damage.admit(accounts, slot, books.eps[name] / NAT), slot, books.away.pop(name)
            )
            books.slot_of[name] = slot
        else:
            rows = [
                (name, data.draw(st.integers(0, 3 * NAT)), data.draw(st.booleans()))
                for name in live
                for _ in range(data.draw(st.integers(1, 3)))
            ]
            slots = [books.slot_of[name] for name, _, _ in rows] + [-1] * data.draw(st.integers(0, 2))
            pad = len(slots) - len(rows)
            accounts = damage.charge(
                accounts,
                np.array(slots, np.int32),
                np.array([cost for _, cost, _ in rows] + [9 * NAT] * pad, np.int64),
                np.array([on for _, _, on in rows] + [True] * pad, bool),
            )
            for name, cost, on in rows:
                if on:
                    books.charge(name, cost)
        for name, slot in books.slot_of.items():
            assert accounts.owed[slot] == books.owed[name]
        for slot in set(range(SLOTS)) - set(books.slot_of.values()):
            assert accounts.owed[slot] == 0


@given(seed=st.integers(0, 10**6))
def test_damage_of_rows_is_the_sum_over_picks(seed: int) -> None:
    """Squared weight times what the unread tiles are worth, never below the exact sum and by a unit a pick at most above."""
    draw = np.random.default_rng(seed)
    experts, tiles, rows, top = 8, 5, 6, 3
    importance = np.sort(draw.random((experts, tiles)).astype(np.float32), axis=1)[:, ::-1]
    picks = np.array([draw.choice(experts, top, replace=False) for _ in range(rows)], np.int32)
    picks[0, 0] = -1
    weights = draw.random((rows, top)).astype(np.float32)
    depths = draw.integers(1, tiles + 1, experts).astype(np.int32)
    valid = int(draw.integers(0, rows + 1))
    found = damage.of_rows(picks, weights, depths, damage.tails(importance), valid)
    for row in range(rows):
        exact = sum(
            float(np.rint(weights[row, at] ** 2 * UNIT) / UNIT)
            * float(importance[expert, depths[expert] :].sum())
            for at, expert in enumerate(picks[row])
            if expert >= 0 and row < valid
        )
        assert exact - 1e-5 <= found[row] / NAT <= exact + 1e-4
    assert (
        damage.of_rows(picks, weights, np.full(experts, tiles, np.int32), damage.tails(importance), rows) == 0
    ).all()


def test_experts_of_a_request_above_the_bar_are_read_deeper() -> None:
    """At least the deep floor, all tiles for one that asked for whole reads, and no others are touched."""
    accounts = damage.admit(damage.admit(damage.opened(3, 1.0), 0, 0.1), 1, 0.1, whole=True)
    accounts = damage.charge(
        accounts, np.array([0], np.int32), np.array([2 * NAT], np.int64), np.array([True])
    )
    slots = np.array([0, 1, -1], np.int32)
    picks = np.array([[0, 1], [1, 2], [3, 4]], np.int32)
    assert damage.floors(accounts, slots, picks, 5, (1, 4, 9)).tolist() == [4, 9, 9, 1, 1]
    spent = damage.charge(accounts, np.array([0], np.int32), np.array([NAT], np.int64), np.array([True]))
    assert damage.floors(spent, slots, picks, 5, (1, 4, 9)).tolist() == [9, 9, 9, 1, 1], "twice the bar"
    recovered = damage.charge(
        accounts, np.array([0] * 60, np.int32), np.zeros(60, np.int64), np.ones(60, bool)
    )
    assert not recovered.deep[0]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: damage.opened(0, 1.0), "slots"),
        (lambda: damage.opened(1, -1.0), "bar h"),
        (lambda: damage.admit(damage.opened(1, 1.0), 1, 0.1), "slot"),
        (lambda: damage.admit(damage.opened(1, 1.0), 0, -0.1), "eps"),
        (lambda: damage.resume(damage.opened(1, 1.0), 0, 5), "admit it first"),
        (lambda: damage.tails(np.array([[np.nan]], np.float32)), "importance"),
        (lambda: damage.tails(np.array([[65.0]], np.float32)), "at most 64 nats"),
        (
            lambda: damage.charge(
                damage.opened(1, 1.0), np.array([0], np.int32), np.array([-1], np.int64), np.array([True])
            ),
            "damage",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, told: str) -> None:
    """By name, with what is allowed."""
    with pytest.raises(Refusal, match=told):
        call()
