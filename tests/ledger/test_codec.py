"""One line of the file: what is taken and what is refused, with which words."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.codec import decode, decode_line, encode
from ledger.entry import RowFault, chain
from sparkctl.errors import LedgerFault

RAW = encode(
    chain(
        None,
        kind="boot",
        line="A",
        body={"simulated": True, "boot": "b1", "climb": None, "on": [], "ok": True, "why": ""},
        at="2026-09-11T11:38:00Z",
    )
)


def _changed(change: Callable[[dict[str, object]], object]) -> bytes:
    plain = json.loads(RAW)
    change(plain)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()


def test_the_keys_stand_in_the_order_that_people_read() -> None:
    """A line begins with number, time and kind; the body's keys are sorted."""
    assert RAW.startswith(
        b'{"n":1,"at":"2026-09-11T11:38:00Z","kind":"boot","line":"A","body":{"boot":"b1","climb"'
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(_changed(lambda row: row.update(kind="gossip")), "kind: 'gossip' is unknown", id="kind"),
        pytest.param(_changed(lambda row: row.update(extra=1)), "unknown key extra", id="key"),
        pytest.param(_changed(lambda row: row.pop("prev")), "prev: the key is missing", id="no-prev"),
        pytest.param(
            _changed(lambda row: row.update(n="1")), "n: wanted a whole number, found '1'", id="text-n"
        ),
        pytest.param(_changed(lambda row: row.update(n=True)), "n: wanted a whole number", id="true-n"),
        pytest.param(_changed(lambda row: row.update(at="today")), "at: wanted a time", id="at"),
        pytest.param(_changed(lambda row: row.update(body=[])), "body: wanted keys with values", id="body"),
        pytest.param(_changed(lambda row: row.update(body={})), "simulated: the key is missing", id="label"),
        pytest.param(
            _changed(lambda row: row.update(body={"simulated": True})), "boot: the key is missing", id="boot"
        ),
        pytest.param(RAW.replace(b",", b", ", 1), "not written as the ledger writes it", id="space"),
        pytest.param(RAW.replace(b'"n":1', b'"n":1,"n":1'), "not written as the ledger", id="key-twice"),
        pytest.param(RAW.replace(b'"n":1', b'"n":NaN'), "not JSON: NaN", id="nan"),
        pytest.param(RAW[:-1], "not JSON", id="half"),
        pytest.param(b"\xff" + RAW, "not JSON", id="bytes"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(b"3", "wanted keys with values, found 3", id="number"),
    ],
)
def test_a_line_that_is_no_row_is_refused(raw: bytes, words: str) -> None:
    """The fault says what was wanted and what stands there."""
    with pytest.raises(RowFault) as caught:
        decode(raw)
    assert words in str(caught.value)


def test_a_refused_line_is_named_with_its_file() -> None:
    """File and line come first; the hint says what to do."""
    with pytest.raises(LedgerFault, match=r"^ledger.jsonl: line 7: not JSON") as caught:
        decode_line(b"{", path=Path("ledger.jsonl"), where="line 7", reader=decode)
    assert "ledger verify" in caught.value.hint
