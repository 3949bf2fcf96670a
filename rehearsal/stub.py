"""A command of a practice node: hands itself over to the cluster's fork server, and runs the face itself where there is none.

Run as a bare script: `stub.py <token> <node folder> <command> [argument ...]`. Starting Python with the faces' imports costs four times
as much as all of this, and a look at four nodes is two hundred commands.
"""

import os
import sys
from _socket import (
    AF_UNIX,
    SCM_RIGHTS,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)  # its wrapper imports a dozen modules

HOLD = 65_536
"""Bytes of the message that go with the descriptors."""

SIZE = 8
"""Bytes of the message's length, in front of it."""


def address(token: str) -> bytes:
    """Return where the fork server of a cluster listens: a name that belongs to no file."""
    return b"\0sparkctl-rehearsal-" + token.encode()


def hand_over(token: str, words: list[str]) -> int | None:
    """Let the fork server run the command with our own in- and outputs; None where there is no server."""
    asked = socket(AF_UNIX, SOCK_STREAM)
    try:
        asked.connect(address(token))
    except OSError:
        asked.close()
        return None
    here = os.getcwd()  # noqa: PTH109 - pathlib would cost more than the rest
    told = [here, str(len(words)), *words, *(f"{name}={value}" for name, value in os.environ.items())]
    text = b"\0".join(map(os.fsencode, told))
    whole = len(text).to_bytes(SIZE, "little") + text
    inherited = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    sent = asked.sendmsg([whole[:HOLD]], [(SOL_SOCKET, SCM_RIGHTS, inherited)])
    if sent < len(
        whole
    ):  # sending nothing fails too where the answer is there already and the other end has closed
        asked.sendall(whole[sent:])
    code = asked.recv(1)
    asked.close()
    if not code:
        os.write(2, b"practice node: the fork server ended before the command did\n")
    return code[0] if code else 1


def main(argv: list[str]) -> int:
    """Answer one command."""
    token, *words = argv
    code = hand_over(token, words)
    if code is None:
        face = os.path.join(os.path.dirname(os.path.abspath(__file__)), "face.py")  # noqa: PTH100, PTH118, PTH120 - see above
        os.execv(sys.executable, [sys.executable, "-S", "-E", face, *words])  # noqa: S606 - our own script
    return code


if __name__ == "__main__":
    # Not sys.exit: nothing is buffered, and the interpreter's own end costs as much as the rest.
    os._exit(main(sys.argv[1:]))
