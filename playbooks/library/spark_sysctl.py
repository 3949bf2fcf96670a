"""Ansible module: one running kernel setting, until the next reboot. No file is written: /etc is the owner's."""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import run

DOCUMENTATION = """
module: spark_sysctl
short_description: Set a running kernel setting
description: [Reads it with C(sysctl -n) and sets it through C(sudo -n sysctl -w) where it differs.]
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads and says whether it would change anything.}
  diff_mode: {support: full, description: The value before and after.}
options:
  name: {type: str, required: true, description: The setting.}
  value: {type: str, required: true, description: Its value.}
  limit_s: {type: float, default: 10, description: Seconds that one command may take.}
"""

EXAMPLES = """
- name: The kernel keeps a reserve
  spark_sysctl:
    name: vm.min_free_kbytes
    value: "1048576"
"""

RETURN = """
name: {description: The setting., returned: always, type: str}
before: {description: Its value before., returned: success, type: str}
after: {description: Its value afterwards., returned: success, type: str}
"""


class SettingFault(Exception):
    """The setting cannot be read or changed; the text says why."""


def settle(name: str, value: str, limit_s: float, *, check_mode: bool) -> dict[str, Any]:
    """Give the setting its value; return the module's answer.

    Raises:
        SettingFault: the kernel has no such setting, or it could not be changed.

    """
    before = read(name, limit_s)
    if before == value or check_mode:
        return _answer(name, before, value)
    argv = ["sudo", "-n", "sysctl", "-w", f"{name}={value}"]
    outcome = run(argv, limit_s)
    after = read(name, limit_s)
    if outcome.rc or after != value:
        said = outcome.stderr.strip() or "no word"
        raise SettingFault(
            f"{name} is {after}, wanted {value}: {' '.join(argv)} ended with rc {outcome.rc}: {said}"
        )
    return _answer(name, before, after)


def read(name: str, limit_s: float) -> str:
    """Return the setting's value, its blanks made single.

    Raises:
        SettingFault: the kernel does not know it.

    """
    outcome = run(["sysctl", "-n", name], limit_s)
    if outcome.rc:
        raise SettingFault(f"{name} cannot be read (rc {outcome.rc}): {outcome.stderr.strip() or 'no word'}")
    return " ".join(outcome.stdout.split())


def _answer(name: str, before: str, after: str) -> dict[str, Any]:
    shown = {"before": f"{name} = {before}\n", "after": f"{name} = {after}\n"}
    return {"changed": before != after, "name": name, "before": before, "after": after, "diff": shown}


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "value": {"type": "str", "required": True},
            "limit_s": {"type": "float", "default": 10.0},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        answer = settle(wanted["name"], wanted["value"], wanted["limit_s"], check_mode=module.check_mode)
    except SettingFault as fault:
        module.fail_json(msg=str(fault), name=wanted["name"])
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
