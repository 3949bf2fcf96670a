"""A row, its hash and the chain."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.codec import decode, encode
from ledger.entry import Row, RowFault, chain, head, verify

AT = "2026-09-11T11:38:00Z"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(TEXT, PLAIN, max_size=4).map(lambda body: body | {"simulated": True})


def _chain(*texts: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for text in texts:
        body = {"simulated": False, "text": text}
        rows.append(chain(rows[-1] if rows else None, kind="alarm", line="A", body=body, at=AT))
    return tuple(rows)


def test_the_hash_can_be_computed_by_anyone() -> None:
    """The hash is the sha256 of the row's JSON with sorted keys, no spaces, in UTF-8, `hash` left out."""
    (row,) = _chain("größe ✓")
    plain = {
        "n": 1,
        "at": AT,
        "kind": "alarm",
        "line": "A",
        "body": {"simulated": False, "text": "größe ✓"},
        "prev": "",
    }
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert row.hash == hashlib.sha256(text.encode()).hexdigest()


def test_a_chain_holds() -> None:
    """Rows count from 1, each carries the hash of the one before, and nothing breaks."""
    rows = _chain("a", "b", "c")
    assert [row.n for row in rows] == [1, 2, 3]
    assert [row.prev for row in rows] == ["", rows[0].hash, rows[1].hash]
    assert verify(rows) == ()
    assert head(rows) == rows[2].hash
    assert not head(())


def test_a_changed_row_breaks_where_it_stands() -> None:
    """A changed body is named with its line, the hash that it should have and the one it has."""
    rows = _chain("a", "b", "c")
    changed = (rows[0], replace(rows[1], body={"simulated": False, "text": "B"}), rows[2])
    (broken,) = verify(changed)
    assert (broken.line, broken.what, broken.found) == (2, "hash of this row", rows[1].hash)


def test_a_rehashed_row_breaks_the_next_one() -> None:
    """Whoever changes a row and its hash breaks the row after it."""
    rows = _chain("a", "b", "c")
    forged = chain(rows[0], kind="alarm", line="A", body={"simulated": False, "text": "B"}, at=AT)
    (broken,) = verify((rows[0], forged, rows[2]))
    assert (broken.line, broken.what) == (3, "hash of the row before")


@pytest.mark.parametrize(("left", "line"), [((1, 2), 1), ((0, 2), 2)])
def test_a_lost_row_breaks_the_chain(left: tuple[int, ...], line: int) -> None:
    """A row missing at the start or in the middle shows in the number and the hash of the next."""
    rows = _chain("a", "b", "c")
    assert {(one.line, one.what) for one in verify([rows[n] for n in left])} >= {
        (line, "number"),
        (line, "hash of the row before"),
    }


def test_a_body_cannot_change_after_the_fact() -> None:
    """The row holds a copy: changing what was handed in leaves it as it is."""
    given_body: dict[str, list[int]] = {"figures": [1]}
    row = chain(None, kind="alarm", line="A", body=given_body, at=AT)
    given_body["figures"].append(2)
    assert row.body == {"figures": [1]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud83d", object(), {1, 2}])
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    """NaN, infinity, half a surrogate pair and objects never get into the ledger."""
    with pytest.raises(RowFault, match="plain finite JSON"):
        chain(None, kind="alarm", line="A", body={"value": value}, at=AT)  # type: ignore[dict-item]


@pytest.mark.parametrize("at", ["", "2026-09-11", "2026-09-11T11:38:00+02:00", "2026-09-11T11:38:00Z\n"])
def test_a_time_is_utc_with_whole_seconds(at: str) -> None:
    """Any other form is refused."""
    with pytest.raises(RowFault, match="at: wanted"):
        chain(None, kind="alarm", line="A", body={}, at=at)


@settings(deadline=None)  # a busy machine is no fault
@given(BODIES, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
def test_a_row_survives_its_line(body: dict[str, object], line: str) -> None:
    """Any row written as a line reads back as itself, and the line holds no line end but its own."""
    row = chain(None, kind="alarm", line=line, body=body, at=AT)  # type: ignore[arg-type]
    raw = encode(row)
    assert b"\n" not in raw
    assert decode(raw) == row
