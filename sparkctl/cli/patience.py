"""Patience: the first Ctrl-C is a wish for the next good moment, the second ends the work as it stands. I/O: signals."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

PROMISE = (
    "stops after this boot and its bench, and leaves the line as it serves then; Ctrl-C again stops now: a boot under way is "
    "taken down, a line that serves is left"
)


@dataclass(slots=True)
class Patience:
    """Whether somebody asked to stop."""

    asked: bool = False


@contextmanager
def patient(promise: Callable[[], None]) -> Iterator[Patience]:
    """Take the first Ctrl-C as a wish; `promise` says, in a thread of its own, what will happen and what a second one does.

    Other signals, and a Ctrl-C that nobody of this program hears (in the background, or not in the main thread), are left alone.
    """
    found = Patience()
    heard_by_us = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not heard_by_us:
        yield found
        return

    def heard(number: int, frame: FrameType | None) -> None:
        if found.asked:
            signal.default_int_handler(number, frame)
        found.asked = True
        # A handler may come in the midst of a print, which must end before the next one.
        threading.Thread(target=promise, name="promise").start()

    signal.signal(signal.SIGINT, heard)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
