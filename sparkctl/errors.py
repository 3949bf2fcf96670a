"""The whole exception tree.

    SparkctlError
    ├── UsageFault           2  a flag or a combination of flags is wrong
    ├── FileFault            2  a file is missing, unreadable or wrong
    │   └── LedgerFault      2  the ledger's chain is broken or another process holds it
    ├── Refused              1  everything is well formed and the answer is no
    └── Unclear              3  no answer could be had
        ├── NodeFault        3  a node could not be reached, refused us, or lost a tool
        └── Interrupted      3  the user or a signal ended the work

A failed gate, a void measurement and an inconclusive test are values, not exceptions. Each message says what was
measured and what was wanted; the remedy is the `hint`, printed after a blank line. The number is the exit code.
"""

from typing import ClassVar


class SparkctlError(Exception):
    """Everything that a user, a file or a node can cause."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageFault(SparkctlError):
    """A flag or a combination of flags is wrong."""

    exit_code = 2


class FileFault(SparkctlError):
    """A file is missing, unreadable or not what its schema asks for; the message starts with its path."""

    exit_code = 2


class LedgerFault(FileFault):
    """The ledger's chain is broken, or another process holds its lock."""


class Refused(SparkctlError):
    """Everything is well formed and the answer is no."""

    exit_code = 1


class Unclear(SparkctlError):
    """No answer could be had: a time limit ran out or something broke off."""


class NodeFault(Unclear):
    """A node could not be reached, refused us, or lacks something we need there."""

    def __init__(self, node: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{node}: {message}", hint=hint)
        self.node = node


class Interrupted(Unclear):
    """The user or a signal ended the work; what was done until then is kept."""
