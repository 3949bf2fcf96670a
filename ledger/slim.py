"""Slim: a line of the ledger read by its bytes, without the bulk that no table and no fold needs.

The hash is taken over the bytes as they stand, so that no byte can change unseen, and what is left out of the body is not parsed:
reading a long ledger costs little more than hashing it. Whatever is not plainly a row goes to the strict reader, which names the fault.
"""

import hashlib
import re
from typing import Any

import msgspec

from ledger import bodies
from ledger.codec import strict
from ledger.entry import Body, Json, Row, is_kind, is_moment
from tuner.predicted import KV_TOKENS

BULK = frozenset({"findings", "requests", "brackets", "agents"})
"""Keys of a body that make up nearly all of a ledger: every finding of a boot, every request of a bench, of sessions of agents too."""

_HEAD = re.compile(
    rb'\{"n":([1-9][0-9]*),"at":"([0-9TZ:-]{20})","kind":"([a-z]+)","line":("(?:[^"\\]|\\.)*"),"body":'
)
_TAIL = re.compile(rb',"prev":"([0-9a-f]{64}|)","hash":"([0-9a-f]{64})"\}\Z')
_PREV = b',"prev":"'
_TAIL_MOST = len(',"prev":"","hash":""}') + 2 * 64

_SHORT = 2048
"""Bytes below which a body is parsed at once: part by part costs more than the bulk that it can have. Ours."""

_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
_whole = msgspec.json.Decoder(dict[str, Any])


def slim(raw: bytes) -> tuple[Row, str]:
    """Read one line whose hash is right, short of its bulk, and give that hash beside it; any other line is read strictly.

    Raises:
        RowFault: as `ledger.codec.strict`.

    """
    head, tail = _HEAD.match(raw), _TAIL.match(raw, max(0, raw.rfind(_PREV, len(raw) - _TAIL_MOST)))
    if not head or not tail or not is_kind(kind := head[3].decode()) or not is_moment(head[2].decode()):
        return strict(raw)
    body = memoryview(raw)[head.end() : tail.start()]
    made = tail[2].decode()
    if _digest(head, body, tail[1]) != made:
        return strict(raw)
    try:
        kept = slim_body(_light(body))
        line = msgspec.json.decode(head[4], type=str)
    except (msgspec.DecodeError, RecursionError):
        return strict(raw)
    bodies.check(kind, kept)
    n, at, prev = int(head[1]), head[2].decode(), tail[1].decode()
    return Row(n=n, at=at, kind=kind, line=line, body=kept, prev=prev, hash=made), made


def _light(body: memoryview) -> dict[str, Json]:
    """Return a body without its bulk, which is not even parsed; a short one has none worth leaving out."""
    if len(body) < _SHORT:
        return _whole.decode(body)
    parts = _parts.decode(body)
    return {key: msgspec.json.decode(part) for key, part in parts.items() if key not in BULK}


def slim_body(body: Body) -> dict[str, Json]:
    """Return a body short of its bulk; of what the ranks' logs proved the size of the cache is kept."""
    kept = dict(body) if BULK.isdisjoint(body) else {k: v for k, v in body.items() if k not in BULK}
    if isinstance(ranks := kept.get("evidence"), dict):
        kept["evidence"] = {
            rank: {KV_TOKENS: told[KV_TOKENS]}
            for rank, told in ranks.items()
            if isinstance(told, dict) and KV_TOKENS in told
        }
    return kept


def _digest(head: "re.Match[bytes]", body: memoryview, prev: bytes) -> str:
    """Return the sha256 of the canonical JSON, put together from the line's own bytes: keys sorted, `hash` left out."""
    n, at, kind, line = head.groups()
    made = hashlib.sha256(b'{"at":"%b","body":' % at)
    made.update(body)
    made.update(b',"kind":"%b","line":%b,"n":%b,"prev":"%b"}' % (kind, line, n, prev))
    return made.hexdigest()
