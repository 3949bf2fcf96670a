"""Texts beside the ledger: what is too long for a row, kept once by the hash of its content, compressed.

`put` gives the SHA-256 (hex) that a row names, `get` gives the bytes back and checks them. Files are `texts/<sha256>.gz` in the
state folder; the hash is of the content before compression, so it does not depend on who compressed it.
"""

import gzip
import hashlib
import os
import re
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from sparkctl.errors import FileFault, LedgerFault

_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Texts:
    """The store of one state folder."""

    folder: Path

    @classmethod
    def beside(cls, ledger: Path) -> "Texts":
        """Return the store that belongs to a ledger's file."""
        return cls(ledger.parent / "texts")

    def put(self, content: bytes) -> str:
        """Keep some bytes, on disk when this returns, and return their hash; what is there already is not written again.

        Raises:
            FileFault: the folder cannot be written.

        """
        name = hashlib.sha256(content).hexdigest()
        path = self._path(name)
        if path.is_file():
            return name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Renamed when whole, so that a crash leaves no half of it under its name.
            descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(gzip.compress(content, mtime=0))
                file.flush()
                os.fsync(descriptor)
            Path(new).replace(path)
        except OSError as fault:
            raise FileFault(
                f"{path}: cannot be written: {fault.strerror}",
                hint="name another folder with --state, or free some space",
            ) from fault
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes with this hash.

        Raises:
            LedgerFault: there are none, or they are others than those that were put.

        """
        path = self._path(name)
        try:
            content = gzip.decompress(path.read_bytes())
        except FileNotFoundError as fault:
            raise LedgerFault(
                f"{path}: there is no such file, though a row of the ledger names it",
                hint="bring the folder texts along with the ledger, or measure anew",
            ) from fault
        except (OSError, EOFError, zlib.error) as fault:
            raise LedgerFault(
                f"{path}: cannot be read: {fault}", hint="restore it, or retract the row and measure anew"
            ) from fault
        found = hashlib.sha256(content).hexdigest()
        if found != name:
            raise LedgerFault(
                f"{path}: its content has the hash {found}, wanted that of its name",
                hint="it was changed after it was written: restore it, or retract the row and measure anew",
            )
        return content

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise LedgerFault(
                f"{self.folder}: {name!r} is no SHA-256 in hex", hint="this is a fault of the program"
            )
        return self.folder / f"{name}.gz"
