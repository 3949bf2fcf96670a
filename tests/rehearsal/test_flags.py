"""A rank's command line is read as vLLM reads it, and a wrong one is refused in its words."""

import shlex

import pytest

from rehearsal.engine import flags, memory

GOOD = tuple(
    shlex.split(
        "serve /models/m --tensor-parallel-size 4 --distributed-executor-backend mp --nnodes 4 --node-rank 1 "
        "--master-addr 127.0.78.1 --master-port=29501 --headless"
    )
)


def test_a_good_command_line_is_read() -> None:
    """Values by space or equals sign, bare flags, and their no- forms."""
    read = flags.read((*GOOD, "--async-scheduling", "--no-enable-prefix-caching", "-tp", "2"))
    assert read.model == "/models/m"
    assert read.number("master-port", 0) == 29501
    assert read.number("tensor-parallel-size", 0) == 2
    assert read.is_on("async-scheduling")
    assert not read.is_on("enable-prefix-caching", otherwise=True)
    assert flags.contradictions(flags.read(GOOD)) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "m", "--frob", "1"], "unrecognized arguments: --frob"),
        (["serve", "m", "--nnodes"], "argument --nnodes: expected one argument"),
        (["serve", "m", "--nnodes", "four"], "argument --nnodes: invalid int value: 'four'"),
        (["serve", "m", "--speculative-config", "{oops"], "cannot be converted"),
        (["bench", "m"], "invalid choice: 'bench'"),
    ],
)
def test_an_unreadable_command_line_is_refused(words: list[str], said: str) -> None:
    """The text is argparse's."""
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        flags.read(tuple(words))


@pytest.mark.parametrize(
    ("swap", "said"),
    [
        (("--node-rank 1", "--node-rank 4"), "node_rank (4) must be in the range"),
        (("--headless", ""), "node_rank 1 has no API server"),
        (("--node-rank 1", "--node-rank 0"), "headless mode needs node_rank > 0"),
        (("-parallel-size 4", "-parallel-size 3"), "World size (3) must be divisible by nnodes (4)"),
        (("backend mp", "backend ray"), "only supported with --distributed-executor-backend mp"),
        (("--master-addr 127.0.78.1", ""), "master_addr must be set"),
        (("serve /models/m", "serve"), "you should provide the model"),
    ],
)
def test_a_contradiction_is_named(swap: tuple[str, str], said: str) -> None:
    """Readable flags that cannot work together."""
    words = " ".join(GOOD).replace(*swap).split()
    assert said in flags.contradictions(flags.read(tuple(words)))


def test_memory_follows_the_published_widths() -> None:
    """Ranks 1 and 2 hold wider experts; a pin is the pool, else utilisation leaves it; too little is said as vLLM does."""
    assert [memory.plan(rank, 4, 0.8, 0).weights for rank in range(4)] == [56.6, 68.9, 68.9, 56.6]
    assert memory.plan(0, 4, 0.8, 12 * 1024**3).kv == 12
    assert 15 < memory.plan(1, 4, 0.8, 0).kv < memory.plan(0, 4, 0.8, 0).kv
    assert memory.size_bytes("12G") == memory.size_bytes("12884901888")
    assert memory.shortage(110, 0.9) == ""
    assert "(90.00/121.69 GiB) on startup is less than desired" in memory.shortage(90, 0.9)
    assert "No available memory for the cache blocks" in memory.pool(-1, flags.read(GOOD)).fault
    assert "max seq len (1048576)" in memory.pool(3, flags.read(GOOD)).fault
    assert memory.pool(12, flags.read(GOOD)).fault == ""
