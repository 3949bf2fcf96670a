"""Interrupts: SIGINT, SIGTERM and SIGHUP, ignored for a clean-up or noted for later while something must be ended in order. I/O."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM for the block: for the clean-up that an interrupt asked for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, signal.SIG_IGN) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def noted() -> Iterator[threading.Event]:
    """Turn SIGINT, SIGTERM and SIGHUP into an event while Ansible runs, so that it ends its children before we go on.

    Note: ansible-runner would install its own handlers and leave them behind; a cancel callback of ours prevents it.
    """
    event = threading.Event()
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):
        yield event
        return
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.getsignal(name) for name in names}

    def heard(number: int, frame: FrameType | None) -> None:
        # Whoever waits for interrupts above may take one for later; only what would end the work ends Ansible.
        above = before[signal.Signals(number)]
        try:
            if callable(above):
                above(number, frame)
            else:
                event.set()
        except KeyboardInterrupt:
            event.set()

    for name in names:
        signal.signal(name, heard)
    try:
        yield event
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
