"""Headers: those of a message, without those of the connection that it came by."""

from collections.abc import Mapping

from multidict import CIMultiDict

_HOPS = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "host", "expect"),
    )
)
"""Headers that belong to one connection, not to the message (RFC 9110, 7.6.1)."""


def through(headers: Mapping[str, str], but: tuple[str, ...] = ()) -> CIMultiDict[str]:
    """Return the headers that go on to the other side."""
    named = {one.strip().lower() for one in headers.get("connection", "").split(",")}
    return CIMultiDict(
        (key, value)
        for key, value in headers.items()
        if key.lower() not in _HOPS and key.lower() not in named and key.lower() not in but
    )
