"""Files of EvalPlus: read from the disk and never fetched. Judging them takes the package, which is an extra of its owner's."""

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from sparkctl.errors import FileFault, Refused
from tuner.quality import evalplus

ROWS = [
    {"task_id": f"HumanEval/{at}", "prompt": f"def f{at}():\n", "entry_point": f"f{at}"} for at in range(3)
]
TEXT = "".join(f"{json.dumps(row)}\n" for row in ROWS)


def test_a_file_is_read_plain_or_packed(tmp_path: Path) -> None:
    """The same problems and the same digest; each becomes one greedy question with the problem in it."""
    plain, packed = tmp_path / "he.jsonl", tmp_path / "he.jsonl.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    one, two = evalplus.read(plain), evalplus.read(packed)
    assert (one.dataset, one.asked, one.digest) == ("humaneval", two.asked, two.digest)
    asked = evalplus.tasks(one)
    assert [task.id for task in asked] == ["HumanEval/0", "HumanEval/1", "HumanEval/2"]
    assert "def f1():" in asked[1].prompt


def test_the_dataset_follows_from_the_task_ids(tmp_path: Path) -> None:
    """MBPP+ names its tasks Mbpp/N."""
    path = tmp_path / "m.jsonl"
    path.write_text(TEXT.replace("HumanEval/", "Mbpp/"))
    assert evalplus.read(path).dataset == "mbpp"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "task ids begin with nothing"),
        (b"{}", "KeyError: 'task_id'"),
        (b"[1]", "no problems of EvalPlus"),
        (b'{"task_id": "Other/1", "prompt": "x"}', "task ids begin with other"),
        (b"\xff\xfe", "UnicodeDecodeError"),
    ],
)
def test_another_file_is_named_with_what_would_be_one(tmp_path: Path, content: bytes, said: str) -> None:
    """Its path, what was found, and that nothing is fetched."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(FileFault, match=said) as fault:
        evalplus.read(path)
    assert "nothing is fetched" in fault.value.hint


def test_a_torn_packed_file_is_named(tmp_path: Path) -> None:
    """Half a gzip file, and one that is none."""
    path = tmp_path / "x.jsonl.gz"
    for content in (gzip.compress(TEXT.encode())[:20], b"plain"):
        path.write_bytes(content)
        with pytest.raises(FileFault):
            evalplus.read(path)


@pytest.mark.skipif(find_spec("evalplus") is not None, reason="evalplus is installed here")
def test_without_the_package_its_absence_says_how_to_install_it() -> None:
    """Before anything is asked."""
    with pytest.raises(Refused, match="not installed") as fault:
        evalplus.version()
    assert "pip install evalplus" in fault.value.hint
