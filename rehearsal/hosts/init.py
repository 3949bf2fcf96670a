"""First process of a namespace, run as a bare script: furnishes it, reaps what ends, and ends all when stdin closes.

Whoever raised the hosts holds the other end of stdin, so a test that is killed leaves nothing: the pipe closes, the
first process ends, and the kernel takes the whole namespace with it.
"""

import os
import signal
import sys
from pathlib import Path

# The host's own /proc, /sys, /run and /dev/shm. The rest of the machine is there to read: a host logs in as root, and
# must not be able to change a file or a kernel setting of the machine that carries it.
_FURNISH = """
set -e
folder=$1
mount -t proc proc /proc
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
mount -t tmpfs tmpfs /dev/shm
mount --bind "$folder" "$folder"
mount --bind "$folder/login/passwd" /etc/passwd
mount --bind "$folder/login/shadow" /etc/shadow
for kernel in /proc/sys/vm /proc/sys/kernel /proc/sysrq-trigger; do
    [ -e $kernel ] || continue
    mount --bind $kernel $kernel
    mount -o remount,bind,ro $kernel
done
mount -o remount,bind,ro /
hostname "$2"
"""


def main(name: str, folder: str) -> int:
    """Furnish the namespace when it has a folder, print our pid as the machine counts it, and wait."""
    outside = Path("/proc/self").readlink()  # before the namespace has a /proc of its own
    if folder:
        status = os.spawnvp(os.P_WAIT, "sh", ["sh", "-c", _FURNISH, "sh", folder, name])  # noqa: S606 - sh is the shell
        if status != 0:
            return status
    signal.signal(signal.SIGCHLD, _reap)
    sys.stdout.write(f"{outside}\n")
    sys.stdout.flush()
    while os.read(0, 4096):
        pass
    # Killed while the network still stands, so that every peer hears of it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.kill(-1, signal.SIGKILL)
    return 0


def _reap(_number: int, _frame: object) -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
