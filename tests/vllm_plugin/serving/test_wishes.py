"""Wishes of a request: what is asked is given, and what makes no sense is read whole."""

import pytest

from sparkctl_vllm.serving import wishes
from sparkctl_vllm.serving.wishes import Wish

EPS = 0.001


@pytest.mark.parametrize(
    ("extra", "wish"),
    [
        (None, Wish(whole=False, eps=EPS)),
        ({"other": 1}, Wish(whole=False, eps=EPS)),
        ({"sparkctl_full": True}, Wish(whole=True, eps=EPS)),
        ({"sparkctl_full": 1.0}, Wish(whole=True, eps=EPS)),
        ({"sparkctl_full": "True"}, Wish(whole=True, eps=EPS)),
        ({"sparkctl_full": 0}, Wish(whole=False, eps=EPS)),
        ({"sparkctl_eps": "0.5"}, Wish(whole=False, eps=0.5)),
        ({"sparkctl_eps": 0}, Wish(whole=False, eps=0.0)),
    ],
)
def test_what_is_asked_is_given(extra, wish):
    """The API hands on words and numbers alike."""
    assert wishes.read(extra, EPS) == wish


@pytest.mark.parametrize(
    "extra",
    [
        {"sparkctl_full": "maybe"},
        {"sparkctl_full": 2},
        {"sparkctl_eps": -1},
        {"sparkctl_eps": "nan"},
        {"sparkctl_eps": [1]},
    ],
)
def test_nonsense_is_read_whole_and_told(extra):
    """A worker must not die of a request, and must not cut one that it did not understand."""
    found = wishes.read(extra, EPS)
    assert found.whole
    assert next(iter(extra)) in found.fault
