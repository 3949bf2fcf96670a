"""The docker command line of a node: its containers as values, its errors in its own words, its secrets withheld."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.spark_command import Outcome, run

LOG_LINES = 40
SECRET_NAME = r"""(?isx)                      # HF_TOKEN, VLLM_API_KEY, aws_secret_access_key, DB_PASS, password ...
    \A (?! .* [_.-] (?: FILE | PATH | DIR | SOCK ) \Z )  # but not where one lies
    .* (?:
        (?<! TIK )                            # tiktoken's settings, and special or counted tokens: pad_token, mask_token_id
        (?<! (?<! [a-z] ) (?: BOS | EOS | PAD | UNK | SEP | CLS | MAX | MIN | NUM | PER ) [_-] )
        (?<! (?<! [a-z] ) (?: MASK | STOP ) [_-] )
        (?<! (?<! [a-z] ) (?: IMAGE | VIDEO | AUDIO | DRAFT ) [_-] )
        (?<! BATCHED [_-] ) (?<! SPECIAL [_-] ) (?<! SPECULATIVE [_-] )
        TOKEN (?! [a-z] | [_-]? (?: IDS? | COUNT | BUDGET | LIMIT | LENGTH | SIZE | THRESHOLD | TYPE ) (?! [a-z] ) )
    |   (?: API | ACCESS | AUTH | REFRESH | HF ) [_-]? TOKENS (?! [a-z] )  # other plurals are counts
    |   (?: SECRETS? | PASSW(?:OR)?DS? | PASSPHRASES? | CREDENTIALS? | CREDS | AUTH(?:ORIZATION)?S? | COOKIES?
        |   (?: API | ACCESS | PRIVATE | SECRET ) [_.-]? KEYS?
        ) (?! [a-z] )
    |   (?<= [a-z0-9] [_.-] )                 # OPENAI_KEY, WANDB_KEY ...; the python image has its makers' GPG_KEY
        (?<! (?: GPG | PUB ) [_-] ) (?<! (?: HASH | SORT ) [_-] ) (?<! CACHE [_-] ) (?<! PUBLIC [_-] )
        KEYS? (?= [_-]? \d* \Z )
    |   (?: (?<= [a-z0-9] [_.-] ) | (?<= SSH ) ) PASS (?= [_-]? \d* \Z )
    |   (?: (?<= [a-z0-9] [_.-] ) | (?<= [a-z0-9] ) ) (?<! OLD ) PWDS? (?= [_-]? \d* \Z )  # PWD and OLDPWD are folders
    )"""  # noqa: S105  # names of secrets, not one
SECRET = re.compile(SECRET_NAME)  # the same text as in bootcheck/redact.py, which a node does not have
SHORTEST = (
    8  # letters; Ansible blots a shorter value out of words that have nothing to do with it ("exit code 1")
)
GONE = re.compile(r"no such (object|container)", re.IGNORECASE)
WITHHELD = "<withheld>"


class DockerFault(Exception):
    """Docker said no, gave no answer in time, or left a state that was not wanted."""

    def __init__(self, message: str, *, argv: Sequence[str], rc: int | None, stderr: str) -> None:
        super().__init__(message)
        self.told = {"msg": message, "argv": redacted(argv), "rc": rc, "stderr": stderr}


@dataclass(frozen=True)
class Container:
    """What `docker inspect` says of one container, as far as we use it."""

    id: str
    name: str
    labels: dict[str, str]
    state: dict[str, Any]

    @property
    def digest(self) -> str:
        """The digest it was launched with, empty for one that is not ours."""
        return self.labels.get("sparkctl.digest", "")

    @property
    def running(self) -> bool:
        """Whether docker calls it running."""
        return self.state["running"] is True

    def line(self) -> str:
        """Say in one line what the diff shows."""
        return f"{self.name} {self.state['status']} digest {self.digest or 'none'}\n"


@dataclass(frozen=True)
class Docker:
    """The docker command line of this node."""

    grace_s: int
    limit_s: float

    def call(self, *arguments: str, extra_s: float = 0.0) -> Outcome:
        """Run one docker command; its exit code is the caller's to judge."""
        return run(["docker", *arguments], self.limit_s + extra_s)

    def must(self, *arguments: str, extra_s: float = 0.0) -> Outcome:
        """Run one docker command that has to succeed."""
        return succeeded(self.call(*arguments, extra_s=extra_s))

    def inspect(self, name: str) -> Container | None:
        """Return the container of that name or id, None when there is none."""
        outcome = self.call("inspect", "--type", "container", name)  # an image may bear the same name
        return None if _is_gone(outcome) else _container(succeeded(outcome))

    def of_line(self, line: str) -> list[str]:
        """Return the ids of all containers of a line on this node, running or not."""
        label = f"label=sparkctl.line={line}"
        outcome = self.must("ps", "-a", "--no-trunc", "--filter", label, "--format", "{{json .}}")
        return [json.loads(row)["ID"] for row in outcome.stdout.splitlines() if row.strip()]

    def log(self, name: str) -> str:
        """Return the last lines that the container wrote to stdout and stderr."""
        outcome = self.call("logs", "--tail", str(LOG_LINES), name)
        return "\n".join((outcome.stdout + outcome.stderr).splitlines()[-LOG_LINES:])

    def remove(self, name: str) -> None:
        """Stop a container with grace, then remove it; one that vanished meanwhile is as good."""
        for arguments, extra_s in (
            (("stop", "-t", str(self.grace_s), name), self.grace_s),
            (("rm", "-f", name), 0.0),
        ):
            outcome = self.call(*arguments, extra_s=extra_s)
            if not _is_gone(outcome):
                succeeded(outcome)


def secrets(argv: Sequence[str]) -> set[str]:
    """Return the values of variables and options whose name looks secret, those that are long enough to be one."""
    return {value for value in map(_secret, argv, ("", *argv)) if len(value) >= SHORTEST}


def redacted(argv: Sequence[str]) -> list[str]:
    """Return `argv` with the values of secret variables and options withheld."""
    shown = []
    for before, word in zip(("", *argv), argv, strict=False):
        value = _secret(word, before)
        shown.append(word[: len(word) - len(value)] + WITHHELD if value else word)
    return shown


def _secret(word: str, before: str) -> str:
    """Return the secret at the end of a word: `-e NAME=VALUE`, `--env=NAME=VALUE`, `--name=VALUE` or `--name VALUE`; else empty."""
    if before in {"-e", "--env"} or word.startswith("--"):
        name, _, value = word.removeprefix("--env=").partition("=")
    elif before.startswith("--"):
        name, value = before, word
    else:
        return ""
    return value if SECRET.match(name) else ""


def succeeded(outcome: Outcome) -> Outcome:
    """Return the outcome if its exit code is 0, else raise it as a DockerFault in docker's words."""
    if outcome.rc == 0:
        return outcome
    command = " ".join(outcome.argv[:2])
    said = outcome.stderr.strip() or "no word on stderr"
    raise DockerFault(
        f"{command} ended with rc {outcome.rc}: {said}",
        argv=outcome.argv,
        rc=outcome.rc,
        stderr=outcome.stderr,
    )


def _is_gone(outcome: Outcome) -> bool:
    return outcome.rc != 0 and GONE.search(outcome.stderr) is not None


def _container(outcome: Outcome) -> Container:
    try:
        found = json.loads(outcome.stdout)[0]
        state = found["State"]
        return Container(
            id=found["Id"],
            name=found["Name"].removeprefix("/"),
            labels=found["Config"]["Labels"] or {},
            state={
                "status": state["Status"],
                "running": state["Running"],
                "exit_code": state["ExitCode"],
                "oom_killed": state.get("OOMKilled", False),
                "error": state.get("Error", ""),
                "started_at": state.get("StartedAt", ""),
                "finished_at": state.get("FinishedAt", ""),
            },
        )
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise DockerFault(
            f"docker inspect printed something else than a container: {outcome.stdout[:200]!r}",
            argv=outcome.argv,
            rc=outcome.rc,
            stderr=outcome.stderr,
        ) from fault
