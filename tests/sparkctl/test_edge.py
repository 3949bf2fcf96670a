"""The edge: strict types, all faults at once, each with its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl import edge
from sparkctl.errors import FileFault, UsageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A piece of the test's own schema."""

    name: str
    sets: Mapping[str, bool | int | float | str]
    kind: Literal["speed", "profile"] = "speed"
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The test's own schema."""

    schema: Literal[1]
    gain: float
    rungs: tuple[Rung, ...]

    def __post_init__(self) -> None:
        if self.gain < 0:
            raise ValueError("gain: wanted at least 0")


GOOD = {"schema": 1, "gain": 1, "rungs": [{"name": "a", "sets": {"x": 1, "y": "8", "z": True}}]}


def test_good_data_becomes_values() -> None:
    """Whole numbers serve as floats, lists become tuples, scalars keep their types."""
    found = edge.structure(GOOD, Sheet, source="s")
    assert found == Sheet(schema=1, gain=1.0, rungs=(Rung(name="a", sets={"x": 1, "y": "8", "z": True}),))
    assert edge.structure(edge.plain(found), Sheet, source="s") == found


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({**GOOD, "gian": 1}, "s: $: unknown key gian"),
        ({**GOOD, "schema": 2}, "s: $.schema: wanted one of 1; found 2"),
        ({**GOOD, "schema": True}, "s: $.schema: wanted one of 1; found true"),
        ({**GOOD, "gain": "1"}, 's: $.gain: wanted a number, found "1"'),
        ({**GOOD, "gain": -1}, "s: $: gain: wanted at least 0"),
        ({**GOOD, "rungs": {}}, "s: $.rungs: wanted a list, found {}"),
        ({**GOOD, "rungs": "abc"}, 's: $.rungs: wanted a list, found "abc"'),
        ({**GOOD, "rungs": [{"name": 3, "sets": {}}]}, "s: $.rungs[0].name: wanted text, found 3"),
        (
            {**GOOD, "rungs": [{"name": "a", "sets": []}]},
            "s: $.rungs[0].sets: wanted keys with values, found []",
        ),
        (
            {**GOOD, "rungs": [{"name": "a", "sets": {"x": [1]}}]},
            "s: $.rungs[0].sets.x: wanted text, a number",
        ),
        (
            {**GOOD, "rungs": [{"name": "a", "sets": {}, "most": "3"}]},
            "s: $.rungs[0].most: wanted a whole number",
        ),
        ({"schema": 1, "rungs": []}, "s: $.gain: the key gain is missing"),
        ([], "s: $: wanted keys with values, found []"),
        (None, "s: $: wanted keys with values, found null"),
    ],
)
def test_a_fault_names_its_place(raw: object, said: str) -> None:
    """The message has the source, the path, what was wanted and what was found."""
    with pytest.raises(FileFault) as caught:
        edge.structure(raw, Sheet, source="s")
    assert said in caught.value.message.splitlines()[0]


def test_all_faults_come_at_once() -> None:
    """Three faults in three places are three lines of one message."""
    raw = {"schema": 1, "gain": "x", "rungs": [{"name": "a", "sets": {}}, {"sets": {}, "kind": "y"}]}
    with pytest.raises(FileFault) as caught:
        edge.structure(raw, Sheet, source="s")
    assert len(caught.value.message.splitlines()) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.booleans() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_data_is_a_value_or_a_fault(raw: object) -> None:
    """Whatever a file holds, the edge answers with a value or a FileFault, never with another exception."""
    try:
        found = edge.structure(raw, Sheet, source="s")
    except FileFault:
        return
    assert isinstance(found, Sheet)


def test_files_that_cannot_be_read_are_faults(tmp_path: Path) -> None:
    """Missing, not YAML and not text are told apart."""
    with pytest.raises(FileFault, match="there is no such file"):
        edge.read(tmp_path / "none.yml", Sheet)
    (tmp_path / "bad.yml").write_text("a: [1,\nb: }")
    with pytest.raises(FileFault, match=r"not YAML \(line 2\)"):
        edge.read(tmp_path / "bad.yml", Sheet)
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(FileFault, match="cannot be read"):
        edge.read(tmp_path / "bytes.yml", Sheet)


def test_a_key_stands_once_and_a_date_is_text(tmp_path: Path) -> None:
    """YAML keeps the last of two equal keys without a word, and turns 2026-12-05 into a date: ours does neither."""
    path = tmp_path / "x.yml"
    path.write_text("a: 1\nb: {c: 1, c: 2}\n")
    with pytest.raises(FileFault, match=r"not YAML \(line 2\): the key c stands twice"):
        edge.read_raw(path)
    path.write_text("a: 2026-12-05\nb: 2026-13-45\n")
    assert edge.read_raw(path) == {"a": "2026-12-05", "b": "2026-13-45"}


@pytest.mark.parametrize(
    "text", ["[" * 3000, "a: " + "9" * 5000, "a: &b {c: *b}\n"], ids=["deep", "long", "itself"]
)
def test_absurd_yaml_is_a_fault(tmp_path: Path, text: str) -> None:
    """Nesting without end, a number without end and a part that holds itself are faults of the file."""
    path = tmp_path / "x.yml"
    path.write_text(text)
    with pytest.raises(FileFault):
        edge.read(path, Sheet)


def test_numbers_are_finite() -> None:
    """JSON has no word for infinity, and no time limit is met by a number that is none."""
    with pytest.raises(FileFault, match=r"\$.gain: wanted a finite number, found inf"):
        edge.structure({**GOOD, "gain": float("inf")}, Sheet, source="s")


def test_an_option_value_is_yaml() -> None:
    """8 is a number, "8" text, and what cannot be read says which option it was."""
    assert edge.parse_value("8", source="--set a=8") == 8
    assert edge.parse_value('"8"', source="x") == "8"
    assert edge.parse_value("2026-13-45", source="x") == "2026-13-45"
    with pytest.raises(UsageFault, match="--set a"):
        edge.parse_value("{", source="--set a={")
