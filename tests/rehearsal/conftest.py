"""What the tests of the practice cluster share: a node without a cluster, and one running cluster."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
import yaml

from rehearsal import cluster, layout, model
from rehearsal.cluster import Cluster
from rehearsal.scenario import Scenario, Traits, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


Face = Callable[..., Answer]


def furnished(home: Path, told: Scenario, node: str = "spark-a0") -> Face:
    """Lay out a cluster's home without a daemon and return one node's commands, run directly."""
    home.mkdir(parents=True, exist_ok=True)
    layout.furnish(home, told, "no-token")

    def face(name: str, *arguments: str) -> Answer:
        ran = subprocess.run(
            [str(home / node / "bin" / name), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={"PATH": f"{home / node / 'bin'}:/usr/bin:/bin"},
        )
        return Answer(code=ran.returncode, out=ran.stdout, err=ran.stderr)

    return face


@pytest.fixture
def face(tmp_path: Path) -> Face:
    """One healthy node's commands; its home has a space in it."""
    return furnished(tmp_path / "a home", named("healthy"))


class Line:
    """A running practice cluster, reached as an outsider reaches it: its inventory, OpenSSH and HTTP."""

    def __init__(self, running: Cluster) -> None:
        self.cluster = running
        tree = yaml.safe_load(running.inventory.read_text(encoding="utf-8"))
        self.vars = tree["all"]["vars"]
        self.line = tree["all"]["children"]["line_a"]["vars"]
        self.hosts = tree["all"]["children"]["line_a"]["hosts"]
        self.head = self.hosts["spark-a0"]["fabric"][0]["address"]
        # One client: making one costs as much as a tenth of a short answer at the line's pace.
        self.http = httpx.Client(timeout=30)
        self.url = f"http://{self.head}:{self.line['api_port']}"

    def ssh(self, node: str, command: str, *, stdin: str = "", user: str = "") -> Answer:
        """Run a command over OpenSSH with strict host key checking, as the inventory's user or another."""
        host = self.hosts[node]
        options = {
            "BatchMode": "yes",
            "ControlPath": "none",
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{self.vars["known_hosts"]}"',
        }
        flags = [flag for key, value in options.items() for flag in ("-o", f"{key}={value}")]
        ran = subprocess.run(
            [
                *("ssh", "-F", "none", *flags, "-i", self.vars["ansible_ssh_private_key_file"]),
                *(
                    "-p",
                    str(host["ansible_port"]),
                    f"{user or self.vars['ansible_user']}@{host['ansible_host']}",
                    command,
                ),
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            input=stdin,
        )
        return Answer(code=ran.returncode, out=ran.stdout, err=ran.stderr)

    def rank_command(self, rank: int, *extra: str, environment: str = "") -> str:
        """Return the docker run of one rank, as the launcher would write it."""
        where = (
            f"--headless --node-rank {rank}" if rank else f"--host {self.head} --port {self.line['api_port']}"
        )
        return (
            f"docker run -d --name sparkctl-a-rank{rank} --label sparkctl.line=A --label sparkctl.rank={rank} --gpus all "
            f"--network host --ipc private --shm-size 16g {environment} --entrypoint vllm sparkctl/vllm-dsv41:1 "
            "serve /models/m --served-model-name m --tensor-parallel-size 4 --distributed-executor-backend mp --nnodes 4 "
            f"--master-addr {self.head} --master-port {self.line['master_port']} {where} --gpu-memory-utilization 0.78 "
            "--kv-cache-memory-bytes 12884901888 --max-model-len 300000 --max-num-seqs 8 --max-num-batched-tokens 8192 "
            "--enable-prompt-tokens-details "
            '--speculative-config \'{"method": "dspark", "num_speculative_tokens": 5}\' ' + " ".join(extra)
        )

    def up(self, *extra: str, environment: str = "") -> None:
        """Start the four ranks, workers first, and wait until the line is healthy."""
        for rank in (3, 2, 1, 0):
            started = self.ssh(f"spark-a{rank}", self.rank_command(rank, *extra, environment=environment))
            assert started.code == 0, started.err
        for _ in range(200):
            try:
                if self.http.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            subprocess.run(["sleep", "0.05"], check=True)
        raise AssertionError(self.ssh("spark-a0", "docker logs sparkctl-a-rank0").out)

    def down(self) -> None:
        """Stop and remove the four ranks."""
        for rank in range(4):
            self.ssh(f"spark-a{rank}", f"docker rm -f sparkctl-a-rank{rank}")

    def ask(self, prompt: str, most: int = 100, **more: object) -> httpx.Response:
        """Ask one chat question."""
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": most, **more}
        return self.http.post(f"{self.url}/v1/chat/completions", json=body)


@contextmanager
def raised(home: Path, scenario: str, *, seed: int = 5) -> Iterator[Line]:
    """Raise a cluster for as long as the block lasts."""
    running = Line(cluster.raise_cluster(home, scenario, seed=seed))
    try:
        yield running
    finally:
        running.http.close()
        cluster.lower(home)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A running practice cluster in a home with a space and a long name."""
    with raised(tmp_path_factory.mktemp("cluster") / ("long " + "x" * 120), "healthy") as running:
        yield running


def with_node(told: Scenario, node: str, traits: Traits) -> Scenario:
    """Return a scenario with one node's traits changed."""
    return replace(told, nodes={**told.nodes, node: traits})


def metric(line: Line, name: str) -> float:
    """Return one value of the line's /metrics."""
    page = line.http.get(f"{line.url}/metrics").text
    found = [text for text in page.splitlines() if text.startswith(f"vllm:{name}{{")]
    return float(found[0].rsplit(" ", 1)[1])


def token(line: Line) -> str:
    """Return the mark that every process of the cluster carries."""
    told = json.loads((line.cluster.home / "cluster.json").read_text(encoding="utf-8"))
    return str(told["token"])


def streamed(line: Line, prompt: str, most: int) -> tuple[float, float, list[str], dict[str, int]]:
    """Ask as a stream: seconds to the first text, seconds in all, the texts, the usage."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": most,
        "stream": True,
    }
    texts: list[str] = []
    usage: dict[str, int] = {}
    start = time.perf_counter()
    first = 0.0
    options = {"include_usage": True}
    with line.http.stream(
        "POST", f"{line.url}/v1/chat/completions", json={**body, "stream_options": options}
    ) as reply:
        for event in reply.iter_lines():
            if not event.startswith("data: {"):
                continue
            chunk = json.loads(event.removeprefix("data: "))
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                if choice["delta"]["content"]:
                    first = first or time.perf_counter() - start
                    texts.append(choice["delta"]["content"])
    return first, time.perf_counter() - start, texts, usage


def kib(meminfo: str, key: str) -> int:
    """Return one figure of /proc/meminfo."""
    return next(int(text.split()[1]) for text in meminfo.splitlines() if text.startswith(f"{key}:"))


def state(line: Line, name: str, rank: int) -> str:
    """Return a container's status, and its exit code."""
    form = "{{.State.Status}} {{.State.ExitCode}}"
    return line.ssh(name, f"docker inspect --format '{form}' sparkctl-a-rank{rank}").out


def settles(is_so: Callable[[], bool], limit_s: float = 5) -> bool:
    """Whether something becomes true within a few seconds."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def boot_speed(line: Line) -> model.Speed:
    """Return the hidden speed of the line's latest boot, by its law, seed and number."""
    law = json.loads((line.cluster.home / "law.json").read_text(encoding="utf-8"))
    number = json.loads((line.cluster.home / "boots.json").read_text(encoding="utf-8"))
    noise = model.Noise(
        between=model.Between(**law["noise"]["between"]), within=model.Within(**law["noise"]["within"])
    )
    return model.boot_speed(noise, law["seed"], number)


def lateness(line: Line, gemv_gb_s: float) -> tuple[float, float]:
    """Return how far served answers lie from the model as ratios: the earliest ever, and the best of up to 15.

    No answer can be early. Load on the machine that runs the tests makes some late, so one good one is enough.
    """
    speed, pace = boot_speed(line), line.cluster.pace
    step_s = model.step_s(1, gemv_gb_s, speed)
    found: list[float] = []
    while len(found) < 15 and not any(abs(one) < 0.015 for one in found[2:]):
        drafts = metric(line, "spec_decode_num_drafts_total")
        _, took_s, _, usage = streamed(line, "Tell a long story about snow.", 200)
        steps = metric(line, "spec_decode_num_drafts_total") - drafts
        want_s = model.prefill_s(usage["prompt_tokens"], speed) + steps * step_s
        found.append(took_s * pace / want_s - 1)
    return min(found), min(found, key=abs)
