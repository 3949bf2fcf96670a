"""The key of an API: only from a file that nobody else may read, and nothing else for a key."""

from pathlib import Path

import pytest

from sparkctl import key
from sparkctl.errors import FileFault

GOOD = "Zq7Zq7Zq7Zq7"


def _kept(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_key_is_read(tmp_path: Path) -> None:
    """The line's end is no part of it."""
    path = _kept(tmp_path, f"{GOOD}\n")
    assert key.read(path) == GOOD
    assert key.header(str(path)) == {"authorization": f"Bearer {GOOD}"}
    assert key.header(None) == {}


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (GOOD, 0o640, "others may read"),
        (GOOD, 0o604, "wanted mode 0600"),
        ("", 0o600, "not a key"),
        ("short", 0o600, "at least 8"),
        (f"{GOOD}\n{GOOD}", 0o600, "one line"),
        ("with a space", 0o600, "without spaces"),
        ("schlüssel-schlüssel", 0o600, "not a key"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    """The message names the file and what was wanted, never the key."""
    with pytest.raises(FileFault, match=said) as caught:
        key.read(_kept(tmp_path, text, mode))
    assert not text or text not in caught.value.message


def test_no_file_is_named(tmp_path: Path) -> None:
    """A path that leads nowhere."""
    with pytest.raises(FileFault, match="there is no such file"):
        key.read(tmp_path / "nowhere")
