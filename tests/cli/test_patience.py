"""The first Ctrl-C is a wish, the second ends the work: in plain code, in the bench's event loop, and while Ansible runs."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from sparkctl import interrupts
from sparkctl.cli.patience import Patience, patient


@pytest.fixture(autouse=True)
def hearing() -> Iterator[None]:
    """Hear Ctrl-C, also where the suite runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_the_first_is_promised_and_the_second_ends() -> None:
    """The promise is made once, and what was before is there again afterwards."""
    promised = threading.Semaphore(0)
    with patient(promised.release) as patience:
        press()
        assert patience == Patience(asked=True)
        assert promised.acquire(timeout=5)
        with pytest.raises(KeyboardInterrupt):
            press()
    assert not promised.acquire(blocking=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_bench_goes_on_until_the_second() -> None:
    """Its event loop takes no Ctrl-C for itself."""
    reached = list[str]()

    async def bench() -> None:
        press()
        await asyncio.sleep(0)
        reached.append("went on")
        press()
        await asyncio.sleep(5)
        reached.append("went on for ever")

    with pytest.raises(KeyboardInterrupt), patient(lambda: None):
        asyncio.run(bench())
    assert reached == ["went on"]


def test_ansible_is_ended_by_the_second_only() -> None:
    """Without patience by the first, since nobody takes that for later."""
    with patient(lambda: None), interrupts.noted() as interrupted:
        press()
        assert not interrupted.is_set()
        press()
        assert interrupted.is_set()
    with interrupts.noted() as interrupted:
        press()
        assert interrupted.is_set()


def test_a_stop_by_the_system_is_no_wish() -> None:
    """SIGTERM ends Ansible at once, with patience too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with patient(lambda: None) as patience, interrupts.noted() as interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert interrupted.is_set()
            assert not patience.asked
    finally:
        signal.signal(signal.SIGTERM, before)


def test_who_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    """A program that a shell started in the background was told to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with patient(lambda: pytest.fail("nobody pressed")) as patience:
        press()
    assert not patience.asked
