"""Replies: the words behind a bench's figures, kept beside the ledger under the hashes that its rows name. I/O.

A figure whose words are gone can be doubted and never be looked into. What was asked is kept too: the whole workload, under its
digest.
"""

import hashlib
from collections.abc import Iterable

from ledger.texts import Texts


def name(text: str) -> str:
    """Return the SHA-256 (hex) by which a row names a text."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def keep(store: Texts, texts: Iterable[str]) -> None:
    """Keep every text once; an empty one says nothing and is left out.

    Raises:
        FileFault: the store cannot be written.

    """
    for text in dict.fromkeys(texts):
        if text:
            store.put(_encoded(text))


def _encoded(text: str) -> bytes:
    # Half a surrogate pair, which some engine sent, is kept as it came.
    return text.encode("utf-8", "surrogatepass")
