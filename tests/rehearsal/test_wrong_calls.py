"""A command that is called wrongly, or for what is not there, fails as the real tool does."""

from pathlib import Path

import pytest

from .within import within


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("docker", "logs", "nope"), 1, "Error response from daemon: No such container: nope\n"),
        (("docker", "stop", "-t", "5", "nope"), 1, "Error response from daemon: No such container: nope\n"),
        (("docker", "inspect", "nope"), 1, "Error: No such object: nope\n"),
        (("docker", "run", "--frob", "x"), 125, "unknown flag: --frob\n"),
        (
            ("docker", "save", "busybox:1"),
            1,
            "Error response from daemon: reference does not exist: busybox:1\n",
        ),
        (("docker", "save"), 1, "docker: 'docker save' requires at least 1 argument\n"),
        (("docker", "load", "--frob"), 1, "unknown flag: --frob\n"),
        (
            ("docker", "build", "--tag", "x:1", "."),
            1,
            "docker: 'docker build' requires at least 1 argument\n",
        ),
        (("df", "-h", "/var/lib/docker"), 1, "df: unrecognized option\n"),
        (("docker", "frob"), 1, "docker: unknown command: docker frob\n"),
        (("docker", "run", "-d", "busybox:1"), 125, "Unable to find image 'busybox:1' locally\n"),
        (
            ("docker", "run", "sparkctl/vllm:1", "vllm"),
            127,
            '"vllm": executable file not found in $PATH: unknown\n',
        ),
        (("uname", "-z"), 1, "uname: invalid option -- 'z'\n"),
        (("ping", "-Z", "127.0.78.2"), 2, "ping: invalid option -- 'Z'\n"),
        (("ip", "link"), 1, 'Object "link" is unknown, try "ip help".\n'),
        (("ibv_devinfo", "-d", "mlx5_9"), 255, "IB device 'mlx5_9' wasn't found\n"),
        (("ip", "link", "set", "dev", "eth9", "mtu", "9000"), 1, 'Cannot find device "eth9"\n'),
        (("ibdev2netdev", "-z"), 1, ""),
        (("nmcli", "device"), 2, "Error: argument 'device' not understood."),
        (
            ("nmcli", "-f", "FROB", "connection", "show"),
            2,
            "Error: invalid field 'FROB'; allowed fields: NAME,",
        ),
        (("ps", "aux"), 1, "error: unsupported SysV option\n"),
        (("ps", "-eo", "frob="), 1, 'error: unknown user-defined format specifier "frob"\n'),
        (("ss", "-z"), 255, "ss: invalid option -- 'z'\n"),
        (
            ("sysctl", "-n", "vm.frob"),
            1,
            "sysctl: cannot stat /proc/sys/vm/frob: No such file or directory\n",
        ),
        (("sysctl", "-z", "vm.frob"), 1, "sysctl: invalid option -- 'z'\n"),
        (("sysctl",), 1, "sysctl: no variables specified\n"),
        (("cat", "/sys/class/net/eth9/mtu"), 1, "cat: /sys/class/net/eth9/mtu: No such file or directory\n"),
        (("grep", "-Z", ".", "/sys/class/net/enp1s0f0np0/mtu"), 2, "grep: invalid option -- 'Z'\n"),
        (
            ("grep", ".", "/sys/class/net/enp1s0f0np0"),
            2,
            "grep: /sys/class/net/enp1s0f0np0: Is a directory\n",
        ),
        (("grep", "x", "/sys/class/net/enp1s0f0np0/mtu"), 1, ""),
        (
            ("stat", "-L", "-c", "%F", "/srv/none"),
            1,
            "stat: cannot statx '/srv/none': No such file or directory\n",
        ),
        (("stat", "/srv/none"), 1, "stat: missing operand\n"),
        (("find", "/srv/none"), 1, "find: '/srv/none': No such file or directory\n"),
        (("find", "/srv", "-frob"), 1, "find: unknown predicate `-frob'\n"),
        (("sha256sum", "/srv/models"), 1, "sha256sum: /srv/models: Is a directory\n"),
        (("findmnt", "--frob"), 1, "findmnt: bad usage\n"),
        (("docker", "rm", "nope"), 1, "Error response from daemon: No such container: nope\n"),
    ],
)
def test_a_wrong_call_fails_as_the_real_tool_does(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Unknown commands and options are never silently fine."""
    answer = within(tmp_path)(*arguments)
    assert answer.code == code
    assert said in answer.err
