"""Ansible module: the MTU of one network interface, until the next reboot.

It changes the running interface alone: netplan, NetworkManager and their files are the owner's.
"""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.spark_command import run

DOCUMENTATION = """
module: spark_link
short_description: Set the running MTU of an interface
description:
  - Reads it with C(ip -j addr), raises it through C(sudo -n) where it is below O(least_mtu).
  - A larger MTU is left alone.
author: [the sparkctl authors]
attributes:
  check_mode: {support: full, description: Reads and says whether it would change anything.}
  diff_mode: {support: full, description: The MTU before and after.}
options:
  interface: {type: str, required: true, description: The interface.}
  least_mtu: {type: int, required: true, description: MTU that it shall have at least.}
  limit_s: {type: float, default: 10, description: Seconds that one command may take.}
"""

EXAMPLES = """
- name: The rail carries full-size packets
  spark_link:
    interface: enp1s0f0np0
    least_mtu: 9000
"""

RETURN = """
interface: {description: The interface., returned: always, type: str}
before: {description: MTU before., returned: success, type: int}
after: {description: MTU afterwards., returned: success, type: int}
"""


class LinkFault(Exception):
    """The interface cannot be read or changed; the text says why."""


def settle(interface: str, least_mtu: int, limit_s: float, *, check_mode: bool) -> dict[str, Any]:
    """Raise the interface's MTU where it is too small; return the module's answer.

    Raises:
        LinkFault: there is no such interface, or it could not be changed.

    """
    before = read_mtu(interface, limit_s)
    if before >= least_mtu or check_mode:
        after = max(before, least_mtu)
        return _answer(interface, before, after)
    argv = ["sudo", "-n", "ip", "link", "set", "dev", interface, "mtu", str(least_mtu)]
    outcome = run(argv, limit_s)
    after = read_mtu(interface, limit_s)
    if outcome.rc or after < least_mtu:
        said = outcome.stderr.strip() or "no word"
        raise LinkFault(
            f"{interface} has MTU {after}, wanted {least_mtu}: {' '.join(argv)} ended with rc {outcome.rc}: {said}"
        )
    return _answer(interface, before, after)


def read_mtu(interface: str, limit_s: float) -> int:
    """Return the interface's MTU in bytes.

    Raises:
        LinkFault: `ip` does not tell it.

    """
    outcome = run(["ip", "-j", "addr"], limit_s)
    try:
        return int(next(link["mtu"] for link in json.loads(outcome.stdout) if link["ifname"] == interface))
    except StopIteration:
        raise LinkFault(f"there is no interface {interface}") from None
    except (ValueError, LookupError, TypeError) as fault:
        said = outcome.stderr.strip() or outcome.stdout[:200] or "no word"
        raise LinkFault(f"the MTU of {interface} cannot be read (rc {outcome.rc}): {said}") from fault


def _answer(interface: str, before: int, after: int) -> dict[str, Any]:
    shown = {
        "before": f"{interface} mtu {before}\n",
        "after": f"{interface} mtu {after}\n",
    }
    return {
        "changed": before != after,
        "interface": interface,
        "before": before,
        "after": after,
        "diff": shown,
    }


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "interface": {"type": "str", "required": True},
            "least_mtu": {"type": "int", "required": True},
            "limit_s": {"type": "float", "default": 10.0},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        answer = settle(
            wanted["interface"], wanted["least_mtu"], wanted["limit_s"], check_mode=module.check_mode
        )
    except LinkFault as fault:
        module.fail_json(msg=str(fault), interface=wanted["interface"])
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
