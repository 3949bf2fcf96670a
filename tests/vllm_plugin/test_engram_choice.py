"""The choice between resident rows and the disk: by the 95th percentile, and never by rows that differ."""

import numpy as np
import pytest

from sparkctl_vllm.engram import choice, rows_file
from sparkctl_vllm.engram.membership import Membership
from sparkctl_vllm.engram.reader import Held, Reader, Source
from sparkctl_vllm.engram.rows_file import Meaning
from sparkctl_vllm.refusal import Refusal


@pytest.mark.parametrize(
    ("resident", "disk", "keeps"),
    [
        ([10.0] * 200, [20.0] * 200, "resident"),
        ([20.0] * 200, [10.0] * 200, "disk"),
        ([10.0] * 200, [10.0] * 200, "disk"),
        ([1.0] * 180 + [900.0] * 20, [50.0] * 200, "disk"),
        ([1.0] * 195 + [900.0] * 5, [50.0] * 200, "resident"),
    ],
    ids=[
        "faster",
        "slower",
        "equal gives memory back",
        "a better median with a worse tail",
        "a tail beyond the 95th",
    ],
)
def test_the_95th_percentile_decides(resident, disk, keeps):
    """Of two series of waits."""
    assert choice.choose(resident, disk).keeps == keeps


def test_too_few_or_unequal_steps_are_refused():
    """A 95th percentile of a few steps is one step."""
    with pytest.raises(Refusal, match="at least 100"):
        choice.choose([1.0] * 99, [1.0] * 99)
    with pytest.raises(Refusal, match="as many of both"):
        choice.choose([1.0] * 200, [1.0] * 199)


def test_rows_that_differ_end_the_choice(tmp_path):
    """Resident rows of another content would be faster, and wrong."""
    rows = np.full((50, 264), 0x38, dtype=np.uint8)
    meaning = Meaning(
        holds="all", layer=1, rank=0, ranks=1, begin=0, end=50, rows=50, kind="fp8", checkpoint={"header": "aa"}
    )  # fmt: skip
    source = Source.of_file(tmp_path / "all", rows_file.write(tmp_path / "all", meaning, None, [rows]))
    steps = [np.arange(at % 10, at % 10 + 12) for at in range(120)]
    membership = Membership.of(np.arange(0, 50, 2, dtype=np.uint32), 50)
    disk = Reader(source, engine="threads", threads=1)
    for content, agrees in ((rows[:25], True), (rows[:25] ^ 1, False)):
        resident = Reader(source, held=Held(rows=content, membership=membership), engine="threads", threads=1)
        if agrees:
            assert choice.measured(choice.by(resident), choice.by(disk), steps, exact=True).steps == 110
        else:
            with pytest.raises(Refusal, match="not those of the disk"):
                choice.measured(choice.by(resident), choice.by(disk), steps, exact=True)
        resident.close()
    disk.close()
