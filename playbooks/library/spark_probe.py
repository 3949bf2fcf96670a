"""Ansible module: run a table of read-only commands on a node in one trip and return what they printed, raw."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import Outcome, run

DOCUMENTATION = """
module: spark_probe
short_description: Run a table of read-only commands in one trip
description:
  - Returns the raw output of every command in the table's order; parsing is the controller's work.
  - A command that fails, is missing (rc 127) or overruns its limit (rc 124) is a result, not a failed task.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads only and does the same in check mode.}
options:
  probes:
    description: The table.
    type: list
    elements: dict
    required: true
    suboptions:
      probe: {type: str, required: true, description: Name of the probe.}
      argv: {type: list, elements: str, required: true, description: Command and arguments; no shell.}
      limit_s: {type: float, required: true, description: Seconds after which its process group is ended.}
      group:
        type: str
        choices: [parallel, alone]
        default: parallel
        description: Parallel ones run at once, then those that load the node one by one.
      only_if_quiet:
        type: dict
        description: Run it only if an earlier probe ended with rc 0 and printed few lines.
        suboptions:
          probe: {type: str, required: true, description: The earlier probe.}
          most_lines: {type: int, required: true, description: Most lines of stdout that count as quiet.}
"""

EXAMPLES = """
- name: The raw facts are read
  spark_probe:
    probes:
      - {probe: kernel, argv: [uname, -r], limit_s: 5}
"""

RETURN = """
probes:
  description: One result a probe, in the table's order. rc is null when the probe was not run.
  returned: always
  type: list
  elements: dict
  sample: [{probe: kernel, argv: [uname, -r], rc: 0, stdout: "6.17.0-1032-nvidia\\n", stderr: "", seconds: 0.004}]
"""

QUIET = {"probe": {"type": "str", "required": True}, "most_lines": {"type": "int", "required": True}}
TABLE = {
    "probe": {"type": "str", "required": True},
    "argv": {"type": "list", "elements": "str", "required": True},
    "limit_s": {"type": "float", "required": True},
    "group": {"type": "str", "choices": ["parallel", "alone"], "default": "parallel"},
    "only_if_quiet": {"type": "dict", "options": QUIET},
}
QUIET_TURNS, QUIET_PAUSE_S = 4, 1.0  # a container that has ended may hold the GPU for a second or two
MOST_AT_ONCE = 16  # enough for six pings and the readers beside them

Probe = Mapping[str, Any]
Result = dict[str, Any]


def collect(table: list[Probe], execute: Callable[[list[str], float], Outcome] = run) -> list[Result]:
    """Run every probe of the table, the parallel ones at once and then those that want the node alone.

    Raises:
        KeyError: a probe waits for another that does not come before it.

    """
    results: dict[int, Result] = {}
    readers = [place for place, probe in enumerate(table) if probe["group"] == "parallel"]
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        outcomes = pool.map(lambda place: _ran(table[place], execute), readers)
        results.update(zip(readers, outcomes, strict=True))
    loaded = False
    for place, probe in enumerate(table):
        if probe["group"] == "alone":
            quiet = probe.get("only_if_quiet")
            noise = _noise(quiet, table, results, execute, again=loaded) if quiet else ""
            results[place] = _refused(probe, noise) if noise else _ran(probe, execute)
            loaded = loaded or not noise
    return [results[place] for place in range(len(table))]


def faults(table: list[Probe]) -> list[str]:
    """Say what makes the table itself wrong: nothing to run, or a wait for what comes later.

    One probe may have several commands: a ping to each other node.
    """
    found = []
    known: set[str] = set()
    for probe in table:
        name, quiet = probe["probe"], probe.get("only_if_quiet")
        if not probe["argv"]:
            found.append(f"probe {name}: argv is empty")
        if quiet and (probe["group"] != "alone" or quiet["probe"] not in known):
            found.append(f"probe {name}: only_if_quiet needs group alone and an earlier probe")
        known.add(name)
    return found


def _noise(
    quiet: Mapping[str, Any],
    table: list[Probe],
    results: Mapping[int, Result],
    execute: Callable[[list[str], float], Outcome],
    *,
    again: bool,
) -> str:
    """Say what keeps a loading probe from running; empty when the node is quiet.

    Once another loading probe has run, seconds have passed and the node is asked again: somebody may have started meanwhile. What
    that probe left may take a moment to go.
    """
    place = next(place for place, probe in enumerate(table) if probe["probe"] == quiet["probe"])
    noise = _noise_of(quiet, results[place])
    for turn in range(QUIET_TURNS if again and not noise else 0):
        time.sleep(QUIET_PAUSE_S if turn else 0.0)
        noise = _noise_of(quiet, _ran(table[place], execute))
        if not noise:
            break
    return noise


def _noise_of(quiet: Mapping[str, Any], watched: Result) -> str:
    if watched["rc"] != 0:
        return f"not run: {quiet['probe']} ended with rc {watched['rc']}"
    lines = len(watched["stdout"].splitlines())
    return f"not run: {quiet['probe']} printed {lines} lines" if lines > quiet["most_lines"] else ""


def _ran(probe: Probe, execute: Callable[[list[str], float], Outcome]) -> Result:
    return _result(probe, execute(probe["argv"], probe["limit_s"]))


def _result(probe: Probe, outcome: Outcome) -> Result:
    return {"probe": probe["probe"], **dataclasses.asdict(outcome)}


def _refused(probe: Probe, why: str) -> Result:
    return {
        "probe": probe["probe"],
        "argv": probe["argv"],
        "rc": None,
        "stdout": "",
        "stderr": why,
        "seconds": 0.0,
    }


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "probes": {"type": "list", "elements": "dict", "required": True, "options": TABLE},
        },
        supports_check_mode=True,
        no_log=True,  # keeps scripts passed as arguments out of the node's syslog
    )
    if wrong := faults(module.params["probes"]):
        module.fail_json(msg="; ".join(wrong))
    # The caller has the table and each result has its argv: the invocation would only double the answer.
    module.exit_json(changed=False, probes=collect(module.params["probes"]), invocation={})


if __name__ == "__main__":
    main()
