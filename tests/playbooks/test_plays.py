"""The playbooks, run by Ansible on four nodes: order, second run, check mode, failure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Node, Play

WORKERS = ("spark-a3", "spark-a2", "spark-a1")
HEAD = "spark-a0"
STARTED = ("Every rank but the last runs", "The last rank runs")


def launching(images: dict[str, str] | None = None) -> dict[str, Any]:
    """Give the variables of launch.yml; `images` replaces single nodes' images."""
    commands = {}
    for host in (*WORKERS, HEAD):
        name, image = f"sparkctl-a-rank{host[-1]}", (images or {}).get(host, "vllm")
        argv = ["docker", "run", "-d", "--name", name, "--label", "sparkctl.line=A"]
        argv += ["--label", f"sparkctl.digest={image}", "-e", "HF_TOKEN=hunter2", image, "serve"]
        commands[host] = {"name": name, "argv": argv, "digest": image}
    return {"launch_order": [*WORKERS, HEAD], "rank_commands": commands, "rank_settle_s": 0.0}


STOPPING = {"line": "A", "stop_order": [HEAD, *reversed(WORKERS)], "rank_grace_s": 1}


def probing(argv: Sequence[str] = ("uname", "-s")) -> dict[str, Any]:
    """Give the variables of probe.yml."""
    row = {"probe": "kernel", "argv": list(argv), "limit_s": 5.0}
    return {"probe_tables": {host: [row] for host in (*WORKERS, HEAD)}}


def test_a_line_is_launched_in_order_and_only_once(play: Play, nodes: tuple[Node, ...]) -> None:
    """Workers start in descending rank and the head last; a second launch changes nothing; no secret is shown."""
    first = play("launch", launching())
    assert first.rc == 0, first.text
    born = [nodes[rank].born(f"sparkctl-a-rank{rank}") for rank in (3, 2, 1, 0)]
    assert all(earlier < later for earlier, later in pairwise(born))
    second = play("launch", launching(), "--diff")
    assert (first.changed(), second.rc, second.changed()) == (4, 0, 0)
    assert "hunter2" not in first.text + second.text


def test_a_failing_worker_keeps_the_head_from_starting(play: Play, nodes: tuple[Node, ...]) -> None:
    """With one worker refused by docker the head is never touched, and the refusal is docker's."""
    ran = play("launch", launching({"spark-a2": "broken"}))
    assert ran.rc != 0
    assert "The last rank runs" not in ran.results
    assert nodes[0].calls() == []
    assert "unknown runtime" in str(ran.results["Every rank but the last runs"]["spark-a2"]["msg"])
    assert "hunter2" not in ran.text + str(ran.results)


def test_check_mode_launches_and_stops_nothing(play: Play, nodes: tuple[Node, ...]) -> None:
    """In check mode both playbooks report what they would change, and the nodes stay as they were."""
    dry = play("launch", launching(), "--check")
    assert (dry.rc, dry.changed()) == (0, 4)
    assert [one.containers() for one in nodes] == [set()] * 4
    play("launch", launching())
    dry = play("stop", STOPPING, "--check")
    assert (dry.rc, dry.changed()) == (0, 4)
    assert all(one.containers() for one in nodes)


def test_the_ritual_stops_settles_and_probes(play: Play, nodes: tuple[Node, ...]) -> None:
    """boot.yml removes the head before the workers, frees memory, reads facts; again, it changes nothing."""
    play("launch", launching())
    first = play("boot", STOPPING | probing())
    assert first.rc == 0, first.text
    tasks = [task for task in first.results if not task.startswith("Validating")]
    assert tasks == [
        "No head is left",
        "No worker is left",
        "The page cache is small",
        "The raw facts are read",
    ]
    assert set(first.results["No head is left"]) == {HEAD}
    assert [one.containers() for one in nodes] == [set()] * 4
    assert all(one["dropped"] for one in first.results["The page cache is small"].values())
    second = play("boot", STOPPING | probing())
    assert (first.changed(), second.rc, second.changed()) == (8, 0, 0)


def test_a_node_that_cannot_stop_does_not_keep_the_others(play: Play, nodes: tuple[Node, ...]) -> None:
    """The head's docker hangs up; the workers are stopped all the same."""
    play("launch", launching())
    nodes[0].tool("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    ran = play("stop", STOPPING)
    assert ran.rc != 0
    assert [one.containers() for one in nodes[1:]] == [set()] * 3


def test_probes_are_read_in_check_mode_too(play: Play) -> None:
    """Reading is the same in check mode, a failing probe is a result, and nothing ever changes."""
    ran = play("probe", probing(["sh", "-c", "exit 7"]), "--check")
    assert (ran.rc, ran.changed()) == (0, 0)
    answers = ran.results["The raw facts are read"]
    assert {host: answer["probes"][0]["rc"] for host, answer in answers.items()} == dict.fromkeys(
        (*WORKERS, HEAD), 7
    )


def test_braces_in_a_command_reach_the_node_as_they_are(play: Play) -> None:
    """Docker's own templates are not Ansible's, so an argv arrives with its braces."""
    ran = play("probe", probing(["echo", "{{json .}}", "{{ 1 + 1 }}"]))
    answers = ran.results["The raw facts are read"]
    assert {answer["probes"][0]["stdout"] for answer in answers.values()} == {"{{json .}} {{ 1 + 1 }}\n"}
