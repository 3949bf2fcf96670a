"""playbooks/library/spark_container.py: one rank's container, brought to a state."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import spark_container
from ansible.module_utils.spark_docker import SECRET_NAME, SHORTEST, Docker, DockerFault, redacted, secrets

from bootcheck import redact

if TYPE_CHECKING:
    from conftest import Node

NAME = "sparkctl-a-rank0"
DOCKER = Docker(grace_s=1, limit_s=10)


def argv(image: str = "vllm", *, digest: str = "d1", line: str = "A", name: str = NAME) -> list[str]:
    """Make the docker run command of a rank."""
    labels = [f"sparkctl.line={line}", "sparkctl.rank=0", "sparkctl.boot=b1", f"sparkctl.digest={digest}"]
    marked = [word for label in labels for word in ("--label", label)]
    secret = ["-e", "HF_TOKEN=hunter2", "-e", "HF_HOME=/cache"]
    return ["docker", "run", "-d", "--name", name, *marked, *secret, image, "serve", "/models/x"]


def start(
    image: str = "vllm", *, digest: str = "d1", check_mode: bool = False, **more: str
) -> dict[str, object]:
    """Start a rank without waiting for it to settle."""
    name = more.get("name", NAME)
    command = argv(image, digest=digest, **more)
    rank = spark_container.Rank(name=name, argv=command, digest=digest)
    return spark_container.start(DOCKER, rank, 0.0, check_mode=check_mode)


def test_a_rank_is_started_once(node: Node) -> None:
    """The second call finds the same digest running and leaves it alone."""
    first, second = start(), start()
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["id"] == second["id"]
    assert [call.split()[0] for call in node.calls()] == ["inspect", "run", "inspect", "inspect"]


def test_another_digest_replaces_the_container(node: Node) -> None:
    """A container of other arguments is stopped with grace and removed before the new one starts."""
    start()
    answer = start(digest="d2")
    assert (answer["changed"], answer["replaced"]) == (True, True)
    assert answer["diff"] == {
        "before": f"{NAME} running digest d1\n",
        "after": f"{NAME} running digest d2\n",
    }
    verbs = [call.split(f" --name {NAME}")[0] for call in node.calls()[3:]]
    assert verbs == [
        f"inspect --type container {NAME}",
        f"stop -t 1 {NAME}",
        f"rm -f {NAME}",
        "run -d",
        f"inspect --type container {NAME}",
    ]


def test_a_dead_container_of_the_same_digest_is_replaced(node: Node) -> None:
    """Equal arguments do not save a container that no longer runs."""
    start()
    (node.bin / "containers" / NAME / "state").write_text("exited 1\n", encoding="utf-8")
    assert start()["replaced"] is True


def test_check_mode_starts_nothing(node: Node) -> None:
    """Check mode says what would run and runs nothing."""
    answer = start(check_mode=True)
    assert answer["changed"] is True
    assert answer["diff"] == {"before": "", "after": f"{NAME} running digest d1\n"}
    assert node.containers() == set()


def test_a_container_that_dies_fails_with_its_last_words(node: Node) -> None:
    """A rank that did not live is told with its exit code and its last 40 log lines."""
    with pytest.raises(DockerFault, match=f"{NAME} is exited with exit code 3 0 s after its start") as caught:
        start("dies")
    assert caught.value.told["stderr"].splitlines()[0] == "log line 21"
    assert caught.value.told["rc"] == 3
    assert node.containers() == {NAME}


@pytest.mark.usefixtures("node")
def test_dockers_refusal_comes_back_in_its_words_without_secrets() -> None:
    """The error names command, exit code and docker's text; the token is withheld, the rest is not."""
    with pytest.raises(DockerFault) as caught:
        start("broken")
    told = caught.value.told
    assert told["msg"] == (
        "docker run ended with rc 125: docker: Error response from daemon: unknown runtime."
    )
    assert "HF_TOKEN=<withheld>" in told["argv"]
    assert "HF_HOME=/cache" in told["argv"]
    assert "hunter2" not in str(told)


@pytest.mark.usefixtures("node")
def test_absent_removes_the_whole_line_and_only_that() -> None:
    """Every container of the line goes with its last log and state; another line's stays."""
    start()
    start(name="sparkctl-b-rank0", line="B")
    answer = spark_container.remove_line(DOCKER, "A", 5.0, check_mode=False)
    (gone,) = answer["removed"]
    assert (gone["name"], gone["rank"], gone["boot"], gone["digest"]) == (NAME, "0", "b1", "d1")
    assert gone["state"]["running"] is True
    assert len(gone["log"].splitlines()) == 40
    assert DOCKER.of_line("A") == []
    assert len(DOCKER.of_line("B")) == 1


@pytest.mark.usefixtures("node")
def test_absent_changes_nothing_where_nothing_is() -> None:
    """A second stop reports no change."""
    start()
    assert spark_container.remove_line(DOCKER, "A", 5.0, check_mode=False)["changed"] is True
    assert spark_container.remove_line(DOCKER, "A", 5.0, check_mode=False)["changed"] is False


def test_absent_in_check_mode_removes_nothing(node: Node) -> None:
    """Check mode names what would go and leaves it."""
    start()
    answer = spark_container.remove_line(DOCKER, "A", 5.0, check_mode=True)
    assert answer["changed"] is True
    assert answer["diff"] == {"before": f"{NAME} running digest d1\n", "after": ""}
    assert node.containers() == {NAME}


def test_what_docker_does_not_remove_is_a_fault(node: Node) -> None:
    """The proof is a fresh listing, not docker's word."""
    start()
    (node.bin / "stubborn").touch()
    with pytest.raises(DockerFault, match="containers of line A are left after docker rm: wanted none"):
        spark_container.remove_line(DOCKER, "A", 5.0, check_mode=False)


def test_a_missing_docker_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without docker says so."""
    (node.bin / "docker").unlink()
    monkeypatch.setenv("PATH", str(node.bin))
    with pytest.raises(DockerFault, match="docker inspect ended with rc 127: docker: No such file"):
        start()


def test_a_hanging_docker_is_cut_off(node: Node) -> None:
    """A daemon that gives no answer is a fault after the limit."""
    node.tool("docker", "sleep 30")
    begin = time.monotonic()
    with pytest.raises(DockerFault, match=r"docker inspect ended with rc 124: timed out after 0\.2 s"):
        Docker(grace_s=1, limit_s=0.2).inspect(NAME)
    assert time.monotonic() - begin < 3


def test_an_answer_of_another_shape_is_a_fault(node: Node) -> None:
    """What is not a container's JSON is shown, not guessed at."""
    node.tool("docker", "echo '[{}]'")
    with pytest.raises(DockerFault, match="docker inspect printed something else than a container"):
        DOCKER.inspect(NAME)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["-e", "API_KEY=abc"], ["-e", "API_KEY=<withheld>"]),
        (["--env=DB_PASSWORD=a=b"], ["--env=DB_PASSWORD=<withheld>"]),
        (["--env", "HF_TOKEN=t"], ["--env", "HF_TOKEN=<withheld>"]),
        (["-e", "HF_TOKEN"], ["-e", "HF_TOKEN"]),
        (["-e", "NCCL_DEBUG=WARN"], ["-e", "NCCL_DEBUG=WARN"]),
        (["-e", "TOKENIZERS_PARALLELISM=1"], ["-e", "TOKENIZERS_PARALLELISM=1"]),
        (["-e", "WANDB_KEY=t"], ["-e", "WANDB_KEY=<withheld>"]),
        (["serve", "--api-key", "t", "--port", "1"], ["serve", "--api-key", "<withheld>", "--port", "1"]),
        (["serve", "--api-key=a=b"], ["serve", "--api-key=<withheld>"]),
        (["serve", "--api-key", "--port", "1"], ["serve", "--api-key", "--port", "1"]),
        (["--mask-token-id", "7"], ["--mask-token-id", "7"]),
        (["--max-num-batched-tokens", "8192"], ["--max-num-batched-tokens", "8192"]),
    ],
)
def test_only_secret_settings_are_withheld(words: list[str], shown: list[str]) -> None:
    """Names decide, of variables in environment options and of flags; as the controller does, so here."""
    assert redacted(words) == shown
    assert list(redact.argv(words)) == shown


def test_controller_and_node_know_the_same_names() -> None:
    """A node has no bootcheck: the rule stands twice, and must be one."""
    assert SECRET_NAME == redact.SECRET_NAME


def test_what_is_too_short_to_be_a_secret_is_not_blotted_out_of_answers() -> None:
    """Ansible replaces a secret wherever its letters stand: `1` would take the exit code with it."""
    words = ["-e", "HF_TOKEN=1", "-e", f"API_KEY={'k' * SHORTEST}", "-e", "TOKENIZERS_PARALLELISM=falsefalse"]
    assert secrets([*words, "--api-key", "l" * SHORTEST, "--token", "short"]) == {
        "k" * SHORTEST,
        "l" * SHORTEST,
    }


def test_stopping_waits_until_the_gpu_is_released(node: Node) -> None:
    """A process of the engine that holds the GPU for a moment is waited for; a foreign one is not ours to wait for."""
    polls = node.home / "polls"
    polls.write_text("")
    node.tool(
        "nvidia-smi",
        f"echo x >>{polls}\n"
        f'[ "$(wc -l <{polls})" -lt 3 ] && echo "41873, VLLM::Worker_TP0"\n'
        'echo "900, /usr/bin/other"',
    )
    start()
    answer = spark_container.remove_line(DOCKER, "A", 10.0, check_mode=False)
    assert (answer["changed"], answer["held"]) == (True, [])
    assert len(polls.read_text().split()) == 3


def test_a_gpu_that_is_not_released_is_told(node: Node) -> None:
    """After the time given the answer names who still holds it; that is a fact, not a failure."""
    node.tool("nvidia-smi", 'echo "41873, VLLM::Worker_TP0"')
    start()
    answer = spark_container.remove_line(DOCKER, "A", 0.1, check_mode=False)
    assert answer["held"] == ["41873 VLLM::Worker_TP0"]


def test_a_secret_reaches_docker_through_a_file_that_is_gone_afterwards(node: Node) -> None:
    """Mode 0600, whole, in no argument, and removed when docker has read it, also where docker refuses."""
    for image in ("vllm", "broken"):
        secret = {"VLLM_API_KEY": "Zq7=with spaces and #"}
        rank = spark_container.Rank(
            name=f"{NAME}-{image}", argv=argv(image, name=f"{NAME}-{image}"), digest="d1", secrets=secret
        )
        with contextlib.suppress(DockerFault):
            spark_container.start(DOCKER, rank, 0.0, check_mode=False)
    calls = [call for call in node.calls() if call.startswith("run ")]
    assert len(calls) == 2
    assert "Zq7" not in "".join(node.calls())
    paths = [Path(call.split("--env-file ")[1].split()[0]) for call in calls]
    assert not any(path.exists() for path in paths)
    made = node.bin / "containers" / f"{NAME}-vllm"
    assert (made / "env-mode").read_text().strip() == "600"
    assert (made / "env").read_text() == "VLLM_API_KEY=Zq7=with spaces and #\n"
