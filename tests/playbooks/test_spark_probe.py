"""playbooks/library/spark_probe.py: a table of commands in one trip."""

from __future__ import annotations

import time

import pytest
import spark_probe


def row(probe: str, *argv: str, group: str = "parallel", **more: object) -> dict[str, object]:
    """Make one row of the table as Ansible hands it over."""
    return {"probe": probe, "argv": list(argv), "limit_s": 5.0, "group": group, "only_if_quiet": None, **more}


def test_results_keep_the_order_of_the_table() -> None:
    """Whatever ends first, results stand where their probes stood."""
    table = [row("alone", "echo", "1", group="alone"), row("slow", "sleep", "0.2"), row("fast", "true")]
    assert [one["probe"] for one in spark_probe.collect(table)] == ["alone", "slow", "fast"]


def test_a_result_is_a_row_of_the_bundle() -> None:
    """A result has exactly the keys of the bundle format."""
    (result,) = spark_probe.collect([row("kernel", "uname", "-s")])
    assert result.pop("seconds") > 0
    assert result == {"probe": "kernel", "argv": ["uname", "-s"], "rc": 0, "stdout": "Linux\n", "stderr": ""}


def test_parallel_probes_overlap() -> None:
    """Ten readers of 0.3 s take far less than 3 s together."""
    start = time.monotonic()
    spark_probe.collect([row(f"p{n}", "sleep", "0.3") for n in range(10)])
    assert time.monotonic() - start < 1.5


def test_alone_probes_wait_for_everybody() -> None:
    """What loads the node starts when the readers are done, one after the other."""
    seen: list[tuple[str, str]] = []

    def execute(argv: list[str], limit_s: float) -> spark_probe.Outcome:
        seen.append(("begin", argv[0]))
        time.sleep(limit_s)
        seen.append(("end", argv[0]))
        return spark_probe.Outcome(argv, 0, "", "", 0.0)

    table = [
        row("gemv", "gemv", group="alone", limit_s=0.0),
        row("reader", "reader", limit_s=0.1),
        row("copy", "copy", group="alone", limit_s=0.0),
    ]
    spark_probe.collect(table, execute)
    assert [name for what, name in seen if what == "begin"] == ["reader", "gemv", "copy"]
    assert seen.index(("end", "gemv")) < seen.index(("begin", "copy"))


@pytest.mark.parametrize(
    ("script", "rc", "told"),
    [
        ("echo header", 0, ""),
        ("echo header; echo 1234; echo 5678", None, "not run: apps printed 3 lines"),
        ("exit 9", None, "not run: apps ended with rc 9"),
    ],
)
def test_a_probe_runs_only_if_another_is_quiet(script: str, rc: int | None, told: str) -> None:
    """A GPU that is in use, or that cannot say so, is not loaded."""
    quiet = {"probe": "apps", "most_lines": 1}
    table = [row("apps", "sh", "-c", script), row("gemv", "true", group="alone", only_if_quiet=quiet)]
    gemv = spark_probe.collect(table)[1]
    assert (gemv["rc"], gemv["stderr"], gemv["argv"]) == (rc, told, ["true"])


def _answers(watched: list[str]) -> tuple[list[str], object]:
    """Return what was run, and what runs it: `apps` prints the next of the texts each time, and the last for ever."""
    ran: list[str] = []

    def execute(argv: list[str], _: float) -> spark_probe.Outcome:
        ran.append(argv[0])
        text = (watched.pop(0) if len(watched) > 1 else watched[0]) if argv[0] == "apps" else ""
        return spark_probe.Outcome(argv, 0, text, "", 0.0)

    return ran, execute


def test_a_node_that_was_quiet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who starts while the first load runs keeps the second from running."""
    monkeypatch.setattr(spark_probe, "QUIET_PAUSE_S", 0.0)
    quiet = {"probe": "apps", "most_lines": 1}
    table = [
        row("apps", "apps"),
        row("burn", "burn", group="alone", only_if_quiet=quiet),
        row("gemv", "gemv", group="alone", only_if_quiet=quiet),
    ]
    ran, execute = _answers(["header", "header\n1234"])
    results = spark_probe.collect(table, execute)  # type: ignore[arg-type]
    assert [one["rc"] for one in results] == [0, 0, None]
    assert "gemv" not in ran
    # What the first load itself left is gone after a moment.
    ran, execute = _answers(["header", "header\n1234", "header"])
    results = spark_probe.collect(table, execute)  # type: ignore[arg-type]
    assert [one["rc"] for one in results] == [0, 0, 0]
    assert ran == ["apps", "burn", "apps", "apps", "gemv"]


def test_a_wrong_table_is_refused_with_all_its_faults() -> None:
    """An empty command and a wait for a later probe are faults of the caller."""
    late = {"probe": "later", "most_lines": 1}
    table = [
        row("a"),
        row("a", "true"),
        row("b", "true", group="alone", only_if_quiet=late),
        row("later", "true"),
    ]
    assert spark_probe.faults(table) == [
        "probe a: argv is empty",
        "probe b: only_if_quiet needs group alone and an earlier probe",
    ]
