"""Ansible module: the container of one rank, brought to a state through the docker command line.

`started` makes the wanted container run and leaves it alone when it already does; `absent` removes every container
of the line from the node, keeps what they last said, and proves that none is left.
"""

import time
from dataclasses import dataclass, field
from tempfile import NamedTemporaryFile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import run
from ansible.module_utils.spark_docker import Container, Docker, DockerFault, secrets, succeeded

DOCUMENTATION = """
module: spark_container
short_description: Bring the container of one rank to a state
description:
  - After a removal it waits until no process of the engine holds the GPU, which can take seconds after docker is done.
  - Names a docker error as docker does; values of options that look secret are withheld from every answer.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads, changes nothing and says what would change.}
  diff_mode: {support: full, description: The containers before and after.}
options:
  state: {type: str, choices: [started, absent], required: true, description: The state wanted.}
  name: {type: str, description: Name of the container that shall run.}
  argv: {type: list, elements: str, description: The complete docker run command.}
  secrets:
    type: dict
    default: {}
    description: Variables of the container that reach docker through a file of mode 0600, which is gone after the start.
  digest: {type: str, description: Value of the label sparkctl.digest that tells an equal container.}
  line: {type: str, description: Value of the label sparkctl.line; all its containers shall be absent.}
  grace_s: {type: int, default: 15, description: Seconds between docker's SIGTERM and SIGKILL.}
  settle_s: {type: float, default: 3, description: Seconds after which a started container must still run.}
  release_s: {type: float, default: 20, description: Seconds to wait for the engine's processes to let go of the GPU.}
  limit_s: {type: float, default: 120, description: Seconds that one docker command may take beyond its grace.}
"""

EXAMPLES = """
- name: The rank runs
  spark_container:
    state: started
    name: sparkctl-a-rank0
    argv: [docker, run, -d, --name, sparkctl-a-rank0, IMAGE, serve, /models/x]
    digest: 4c1e...

- name: No rank of line A is left
  spark_container:
    state: absent
    line: A
"""

RETURN = """
id: {description: The running container., returned: state started, type: str}
started_at: {description: When docker started it., returned: state started, type: str}
replaced: {description: Whether another container of that name was removed first., returned: state started, type: bool}
held:
  description: Processes of the engine that still hold the GPU, as nvidia-smi names them.
  returned: state absent
  type: list
  elements: str
removed:
  description: What was removed, each with its last log lines and its last state.
  returned: state absent
  type: list
  elements: dict
  sample:
    - name: sparkctl-a-rank0
      id: 3f0c
      rank: "0"
      boot: b-0001
      digest: 4c1e
      state: {status: exited, running: false, exit_code: 1, oom_killed: false, error: "", finished_at: "..."}
      log: last lines
"""


HOLDERS = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
HOLDERS_LIMIT_S = 10.0  # nvidia-smi itself may hang on a node that is out of memory
ENGINE = "VLLM::"  # how vLLM titles its processes
RELEASE_POLL_S = 0.5


@dataclass(frozen=True)
class Rank:
    """The container wanted: `argv` is its complete docker run command, `digest` tells an equal one."""

    name: str
    argv: list[str]
    digest: str
    secrets: dict[str, str] = field(default_factory=dict)


def start(docker: Docker, rank: Rank, settle_s: float, *, check_mode: bool) -> dict[str, Any]:
    """Make the rank's container run, unless one of its name and digest runs already.

    Raises:
        DockerFault: docker refused, or the container did not live for `settle_s` seconds.

    """
    found = docker.inspect(rank.name)
    if found is not None and found.running and found.digest == rank.digest:
        return _started(found, found)
    if check_mode:
        return _started(found, _promised(rank))
    if found is not None:
        docker.remove(rank.name)
    _run(docker, rank)
    time.sleep(settle_s)
    return _started(found, _alive(docker, rank, settle_s))


def _run(docker: Docker, rank: Rank) -> None:
    """Start the container; what is secret reaches docker through a file that only this login may read."""
    if not rank.secrets:
        succeeded(run(rank.argv, docker.limit_s))
        return
    with NamedTemporaryFile("w", prefix="sparkctl-", suffix=".env", encoding="utf-8") as kept:  # mode 0600
        kept.write("".join(f"{name}={value}\n" for name, value in rank.secrets.items()))
        kept.flush()
        at = rank.argv.index("run") + 1
        succeeded(run([*rank.argv[:at], "--env-file", kept.name, *rank.argv[at:]], docker.limit_s))


def remove_line(docker: Docker, line: str, release_s: float, *, check_mode: bool) -> dict[str, Any]:
    """Remove every container of a line from this node and prove that none is left.

    Raises:
        DockerFault: docker refused, or a container is still listed afterwards.

    """
    found = [container for one in docker.of_line(line) if (container := docker.inspect(one))]
    removed = [_record(container, docker.log(container.id)) for container in found]
    if not check_mode:
        for container in found:
            docker.remove(container.id)
        if found and (left := docker.of_line(line)):
            raise DockerFault(
                f"containers of line {line} are left after docker rm: wanted none, found {', '.join(left)}",
                argv=["docker", "ps", "-a"],
                rc=0,
                stderr="",
            )
    held = holders(release_s) if found and not check_mode else []
    before = "".join(container.line() for container in found)
    return {
        "changed": bool(found),
        "removed": removed,
        "held": held,
        "diff": {"before": before, "after": ""},
    }


def holders(release_s: float) -> list[str]:
    """Return the engine's processes that hold the GPU after waiting for them to let go; none when nvidia-smi is silent.

    A new container that starts in that second finds no GPU (getainode/ainode PR#63, reported).
    """
    until = time.monotonic() + release_s
    while True:
        outcome = run(HOLDERS, HOLDERS_LIMIT_S)
        rows = outcome.stdout.splitlines() if outcome.rc == 0 else []
        held = [" ".join(row.split(", ")) for row in rows if ENGINE in row]
        if not held or time.monotonic() >= until:
            return held
        time.sleep(RELEASE_POLL_S)


def _promised(rank: Rank) -> Container:
    state = {"status": "running", "running": True, "started_at": ""}
    return Container(id="", name=rank.name, labels={"sparkctl.digest": rank.digest}, state=state)


def _alive(docker: Docker, rank: Rank, settle_s: float) -> Container:
    now = docker.inspect(rank.name)
    if now is not None and now.running:
        return now
    state = "is gone" if now is None else f"is {now.state['status']} with exit code {now.state['exit_code']}"
    log = docker.log(rank.name)
    raise DockerFault(
        f"{rank.name} {state} {settle_s:g} s after its start, wanted running",
        argv=rank.argv,
        rc=None if now is None else now.state["exit_code"],
        stderr=log,
    )


def _started(before: Container | None, after: Container) -> dict[str, Any]:
    return {
        "changed": before is not after,
        "id": after.id,
        "started_at": after.state["started_at"],
        "replaced": before is not None and before is not after,
        "diff": {"before": before.line() if before else "", "after": after.line()},
    }


def _record(container: Container, log: str) -> dict[str, Any]:
    return {
        "name": container.name,
        "id": container.id,
        "rank": container.labels.get("sparkctl.rank", ""),
        "boot": container.labels.get("sparkctl.boot", ""),
        "digest": container.digest,
        "state": container.state,
        "log": log,
    }


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "absent"], "required": True},
            "name": {"type": "str"},
            "argv": {"type": "list", "elements": "str"},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "digest": {"type": "str"},
            "line": {"type": "str"},
            "grace_s": {"type": "int", "default": 15},
            "settle_s": {"type": "float", "default": 3.0},
            "release_s": {"type": "float", "default": 20.0},
            "limit_s": {"type": "float", "default": 120.0},
        },
        required_if=[("state", "started", ("name", "argv", "digest")), ("state", "absent", ("line",))],
        supports_check_mode=True,
        no_log=True,  # keeps secrets in argv out of the node's syslog; answers are censored by their values
    )
    wanted = module.params
    module.no_log_values.update(secrets(wanted["argv"] or ()))
    docker = Docker(grace_s=wanted["grace_s"], limit_s=wanted["limit_s"])
    try:
        if wanted["state"] == "started":
            rank = Rank(**{name: wanted[name] for name in ("name", "argv", "digest", "secrets")})
            answer = start(docker, rank, wanted["settle_s"], check_mode=module.check_mode)
        else:
            answer = remove_line(docker, wanted["line"], wanted["release_s"], check_mode=module.check_mode)
    except DockerFault as fault:
        module.fail_json(**fault.told, invocation={})
    module.exit_json(**answer, invocation={})


if __name__ == "__main__":
    main()
