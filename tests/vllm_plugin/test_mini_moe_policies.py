"""The instruments of the table of policies: decoding under a policy is the policy, collapse is told by windows, the alarm is the proxy's own."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

import mini_moe_collapse as collapse
import mini_moe_repairs as repairs
import mini_moe_replies
import mini_moe_steps as steps
from proxy import asked as asking
from proxy.depth import Depths
from proxy.reply import Reply
from proxy.thresholds import Limits
from sparkctl_vllm import policy

from . import mini

ROWS, EXPERTS, TILES = 3, 6, 3


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Conversations of a few tokens."""
    for module in (mini_moe_replies, steps):
        monkeypatch.setattr(module, "PROMPT", 4)
        monkeypatch.setattr(module, "REPLY", 8)


def filled(layer, side_by_side):
    """Read what clears a price; importances of each layer are another."""
    chance = torch.Generator().manual_seed(layer)
    table = torch.rand(EXPERTS, TILES, generator=chance).sort(1, descending=True).values
    return policy.WaterFilled(importance=table.repeat(side_by_side, 1), price=0.2 * 2**20)


def laddered(layer, side_by_side):  # noqa: ARG001 - the same everywhere
    """Read by rank."""
    one = policy.router_rank((3, 1), EXPERTS, TILES, torch.device("cpu"))
    return policy.RouterRank(ladder=one.ladder, experts=EXPERTS * side_by_side, tiles=TILES)


@pytest.mark.parametrize("made", [filled, laddered])
def test_steps_side_by_side_are_read_one_by_one(made):
    """Six rows in two steps read what each three rows read alone, and tally as many bytes."""
    chance = torch.Generator().manual_seed(0)
    picks = torch.rand(6, EXPERTS, generator=chance).argsort(1)[:, :2]
    weights = torch.rand(6, 2, generator=chance)
    both = steps.Steps(rows=ROWS, experts=EXPERTS, made=made)
    kept, scaled = both(1, picks, weights)
    alone = [steps.Steps(rows=ROWS, experts=EXPERTS, made=made) for _ in range(2)]
    parts = [
        one(1, picks[part], weights[part])[0]
        for one, part in zip(alone, (slice(0, 3), slice(3, 6)), strict=True)
    ]
    assert torch.equal(kept, torch.cat(parts))
    assert torch.equal(scaled, weights)
    assert int(both.read[0]) == sum(int(one.read[0]) for one in alone) < int(both.whole[0])


def test_whole_reads_write_what_the_model_writes():
    """Every depth whole: the served log-probabilities are those of the forward, so KL is 0, and given tokens stay."""
    model, talks = mini.model(), mini.talks(rows=6)
    whole = steps.Steps(
        rows=ROWS,
        experts=EXPERTS,
        made=lambda _, many: steps.Even(depth=torch.full((EXPERTS * many,), 3), tiles=3),
    )
    given = torch.tensor([0, 2, 8, 0, 2, 8])
    one = steps.written(
        model,
        talks,
        cut=whole,
        temperature=0.7,
        chance=torch.Generator().manual_seed(1),
        given=given,
        first=4,
    )
    for row, kept in enumerate(given.tolist()):
        assert torch.equal(one.talks[row, : 4 + kept], talks[row, : 4 + kept])
    losses, kl = steps.judged(model, one, chunk=3)
    assert torch.allclose(-losses, one.logprobs, atol=1e-4)
    assert kl.shape == (4, 8)
    assert float(kl.abs().max()) < 1e-4
    assert whole.share == 1


def test_a_cut_is_seen_in_kl_and_bytes():
    """Read by rank, fewer bytes and some KL; temperature 0 takes the likeliest."""
    model = mini.model()
    cut = steps.Steps(rows=ROWS, experts=EXPERTS, made=laddered)
    one = steps.written(model, mini.talks(rows=6), cut=cut, temperature=0, chance=torch.Generator(), first=6)
    _, kl = steps.judged(model, one)
    assert 1 / 3 < cut.share < 1
    assert float(kl.mean()) > 1e-3
    assert torch.equal(one.logs.argmax(-1), one.talks[:, 4:])


@pytest.mark.parametrize("made", [filled, laddered])
def test_one_forward_over_conversations_is_their_decoding(made):
    """Given the tokens, what is predicted side by side is what is served step by step, and as many bytes are read."""
    model, talks = mini.model(), mini.talks(rows=3)
    cut = steps.Steps(rows=3, experts=EXPERTS, made=made)
    given = torch.full((3,), 8)
    one = steps.written(
        model, talks, cut=cut, temperature=1.0, chance=torch.Generator(), given=given, first=3
    )
    both = steps.Aligned(steps=steps.Steps(rows=3, experts=EXPERTS, made=made), conversations=3, neurons=192)
    model.cut_by(both)
    logs = model(talks)[:, 3:-1].log_softmax(-1)
    model.cut_by(None)
    assert torch.equal(one.talks, talks)
    assert torch.allclose(logs, one.logs, atol=1e-3)
    # Decoding also reads the last token, whose prediction nobody asks for: as the forward does.
    assert both.steps.share == pytest.approx(cut.share)


def test_even_depths_read_their_share():
    """Rounded up and down by turns, so that the sum comes out."""
    for share in (0.9, 0.75, 0.6, 0.5, 1.0):
        depths = steps.even(share, 64, 6)
        assert sum(depths) == round(64 * 6 * share)
        assert max(depths) - min(depths) <= 1


def test_windows_tell_salad_and_loops():
    """A window of improbable tokens and one of repeated triples lie beyond the limits of healthy replies; the others do not."""
    chance = torch.Generator().manual_seed(3)
    replies = torch.randint(4096, (400, 192), generator=chance)
    losses = torch.rand(400, 192, generator=chance) * 4
    healthy = collapse.shape(losses, replies)
    limits = collapse.limits(healthy)
    assert healthy.collapsed(limits).sum() <= 2
    losses[0, 60:130] = 9
    replies[1, 40:] = torch.tensor([7, 8]).repeat(76)
    found = collapse.shape(losses, replies).collapsed(limits)
    assert found[:2].all()
    assert found[2:].sum() <= 2


WORDS = [f"w{token} " for token in range(4096)]


def heard(replies, logprobs, **watches):
    """Feed the proxy's watches, two parts at a time."""
    with ThreadPoolExecutor(2, initializer=collapse.speak, initargs=(WORDS,)) as pool:
        return collapse.watched(pool, replies, logprobs, watches, parts=2)


def test_the_alarm_is_the_proxys():
    """Three improbable tokens raise it at the third, many fairly improbable ones and a loop their own, quiet replies none."""
    replies = torch.arange(192).repeat(4, 1)
    logprobs = torch.full((4, 192), -1.5)
    logprobs[3, 64:] = -5
    logprobs[1, [10, 20, 30]] = -14.0
    replies[2] = torch.tensor([3, 4, 5]).repeat(64)
    found = heard(replies, logprobs, both=Limits(surprise=3.0), alone=Limits())
    assert [(one.at, one.reason, one.clean) for one in found["both"][:2]] == [
        (0, "", 0),
        (31, "improbable", 10),
    ]
    assert found["both"][2].reason == "loop"
    assert found["both"][1].depths.logprob == pytest.approx(-14)
    # 28 tokens of 5 nats lift the mean of 64 beyond 3; the first of them that is itself above is token 64.
    last = collapse.Mark(at=64 + 28, reason="surprise", clean=64, depths=Depths(logprob=-5.0, surprise=5.0))
    assert found["both"][3] == last
    assert found["alone"][3].at == 0
    assert found["alone"][:3] == found["both"][:3]


@pytest.mark.parametrize("hold", [0, 5, 64])
def test_a_reply_is_taken_up_where_the_proxy_takes_it_up(hold):
    """What stands when the alarm on the mean is raised is what proxy.reply says it keeps."""
    told = [-1.5] * 64 + [-5.0] * 60
    asked = asking.read("text", json.dumps({"model": "m", "prompt": "p", "stream": True}).encode())
    reply = Reply(asked=asked, limits=Limits(logprob=-30.0, surprise=3.0), hold=hold)
    read = (reply.feed(frame(WORDS[place], one)) for place, one in enumerate(told))
    alarm = next(step.alarm for step in read if step.alarm)
    replies, logprobs = torch.arange(len(told))[None], torch.tensor(told)[None]
    (mark,) = heard(replies, logprobs, both=Limits(logprob=-30.0, surprise=3.0))["both"]
    assert (alarm.at_tokens, alarm.kept_tokens) == (mark.at, mark.kept(hold))
    assert mark.kept(hold) == {0: 91, 5: 86, 64: 64}[hold]


def frame(text, logprob):
    """Return one token of a completion as it streams."""
    choice = {"index": 0, "text": text, "logprobs": {"token_logprobs": [logprob]}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "cmpl-1", "choices": [choice]}).encode() + b"\n\n"


def test_windows_tell_where_a_reply_has_fallen():
    """The first window beyond a limit ends 64 tokens behind where it begins; a reply without one has not fallen."""
    losses = torch.ones(2, 192)
    losses[1, 80:] = 3.0
    found = collapse.shape(losses, torch.arange(192).repeat(2, 1))
    # 33 tokens of 3 nats in the window lift its mean of 1 beyond 2.
    assert found.fallen(collapse.Limits(loss=2.0, fresh=0.0)).tolist() == [0, 80 + 33]


def test_watches_share_what_follows_the_same_token(monkeypatch):
    """Two watches that raise their alarm at the same token save the same; one that never does changes nothing."""
    monkeypatch.setattr(repairs, "PROMPT", 4)
    monkeypatch.setattr(collapse, "WINDOW", 4)
    model, talks = mini.model(), mini.talks(rows=5)
    served = steps.Written(talks=talks, logprobs=torch.zeros(5, 8), logs=torch.empty(0, 8, 24))
    mark = partial(collapse.Mark, reason="improbable", clean=0, depths=Depths(logprob=0.0, surprise=0.0))
    silent, loud = [mark(at=0)] * 5, [mark(at=0), mark(at=3), mark(at=0), mark(at=8), mark(at=1)]
    collapsed = np.array([True, True, False, False, True])
    marks = {"one": loud, "other": loud, "none": silent}
    after = repairs.repaired(
        model,
        served,
        marks,
        collapsed=collapsed,
        limits=collapse.Limits(loss=3.0, fresh=0.0),
        temperature=1.0,
    )
    assert all((after["one", hold] == after["other", hold]).all() for hold in repairs.HOLDS)
    after = repairs.repaired(
        model,
        served,
        marks,
        collapsed=collapsed,
        limits=collapse.Limits(loss=1e9, fresh=0.0),
        temperature=1.0,
    )
    assert after["none", 0].tolist() == collapsed.tolist()
    assert after["one", 0].tolist() == [True, False, False, False, False]
    told = repairs.counted(collapsed, after)["0"]
    assert told["one"] == {"collapsed": 1, "saved": 2, "made": 0, "saved by no other": 0}
    assert told["none"] == {"collapsed": 3, "saved": 0, "made": 0, "saved by no other": 0}
    told = repairs.counted(collapsed, {way: fate for way, fate in after.items() if way[0] != "other"})["0"]
    assert told["one"]["saved by no other"] == 2
