"""The words behind a bench's figures: kept once, by the hash that the row names, and found again."""

from pathlib import Path

import pytest

from ledger import record, replies
from ledger.texts import Texts
from sparkctl.errors import LedgerFault
from tuner.request import Request


def request(text: str) -> Request:
    """A request with this reply."""
    return Request(
        cell="c1", round=0, stream=0, prompt="code", tag="[t]", sent_s=0.0, ttft_s=0.1, total_s=1.0, prompt_tokens=9,
        completion_tokens=9, cached_tokens=None, finish_reason="length", text=text,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["Yes.", "drei Br\u00fcder", "half a pair \ud83d", "line\nline"])
def test_a_row_names_the_text_that_is_kept(tmp_path: Path, text: str) -> None:
    """The hash of the row finds the very bytes, whatever an engine sent."""
    store = Texts.beside(tmp_path / "ledger.jsonl")
    replies.keep(store, [text, text])
    named = record._request(request(text))["text_sha256"]
    assert named == replies.name(text)
    assert store.get(str(named)).decode("utf-8", "surrogatepass") == text
    assert len(list(store.folder.iterdir())) == 1


def test_an_empty_reply_is_not_kept(tmp_path: Path) -> None:
    """Nothing was said, and there is no file that says so."""
    store = Texts.beside(tmp_path / "ledger.jsonl")
    replies.keep(store, [""])
    assert not store.folder.exists()
    with pytest.raises(LedgerFault, match="there is no such file"):
        store.get(replies.name(""))
