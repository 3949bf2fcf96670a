"""The machine's own tools, for what a practice node does not answer itself."""

import os
from pathlib import Path
from typing import NoReturn

_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")


def run(name: str, arguments: list[str]) -> NoReturn:
    """Become the machine's own tool of that name.

    Raises:
        OSError: the machine has none.

    """
    found = next((path for folder in _FOLDERS if (path := Path(folder, name)).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"no {name} in {', '.join(_FOLDERS)}")
    os.execv(found, [name, *arguments])  # noqa: S606 - the real tool for the node's real files
