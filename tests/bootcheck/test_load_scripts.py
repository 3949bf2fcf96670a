"""The scripts that run inside containers: they end by themselves, and the burn keeps what counts. No GPU is needed here."""

import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bootcheck.facts import Record
from bootcheck.probes import burn, collective, runtime
from bootcheck.probes.burn import Burn, parse_burn
from bootcheck.probes.table import find

SCRIPTS = {"burn": burn.BURN_SCRIPT, "gemv": burn.GEMV_SCRIPT, "collective": collective.SCRIPT}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_every_script_arms_its_watchdog_first(script: str) -> None:
    """A script is Python, and its first line makes sure that its container ends."""
    compile(script, "script", "exec")
    assert script.startswith(burn.WATCHDOG)


def test_the_look_inside_ends_before_its_client_does() -> None:
    """It is the first process of its container too: an alarm without a handler would be ignored there."""
    compile(runtime.RUNTIME_SCRIPT, "script", "exec")
    assert runtime.RUNTIME_SCRIPT.startswith(burn.watchdog(55))
    assert "alarm" not in runtime.RUNTIME_SCRIPT
    probe = find("runtime")
    assert probe is not None
    assert probe.limit_s > 55


def test_the_watchdog_ends_a_process_that_ignores_signals() -> None:
    """As the first process of a container does: SIGTERM and SIGALRM do nothing there, and it may hang outside Python."""
    armed = burn.WATCHDOG.replace("100", "0.05")
    deaf = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGALRM}); signal.pause()"
    done = subprocess.run([sys.executable, "-c", armed + deaf], capture_output=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"Timeout (")


class _Gpu(ModuleType):
    """As much of torch as the burn needs; a product takes no time and a synchronisation one millisecond."""

    float16 = None

    def __init__(self, wait: Any) -> None:
        super().__init__("torch")
        self.cuda = SimpleNamespace(synchronize=lambda: wait(0.001))

    def randn(self, *_: object, **__: object) -> object:
        return object()

    def empty_like(self, _: object) -> object:
        return object()

    def mm(self, *_: object, **__: object) -> None:
        return None


def _burn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: Callable[[bool], str]
) -> Burn:
    """Run the burn script, its seconds shortened, over a torch that does nothing; `answer` is told whether it is early."""
    names: dict[str, Any] = {}

    def run(*_: object, **__: object) -> object:
        return SimpleNamespace(stdout=answer(time.perf_counter() - names["began"] < names["skipped_s"]))

    monkeypatch.setitem(sys.modules, "torch", _Gpu(time.sleep))
    monkeypatch.setattr(subprocess, "run", run)
    script = burn.BURN_SCRIPT.removeprefix(burn.WATCHDOG)
    script = script.replace("16, 2.0, 10.0, 0.5", "16, 0.02, 0.2, 0.01").replace("< 1.0:", "< 0.01:")
    exec(compile(script, "burn", "exec"), names)  # noqa: S102 - the script is what is tested
    record = Record(probe="burn", argv=(), rc=0, stdout=capsys.readouterr().out, stderr="", seconds=1.0)
    found = parse_burn(record)
    assert isinstance(found, Burn)
    return found


def test_the_burn_leaves_out_what_the_meter_says_too_early(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readings of the first two seconds do not count (RobTand/prismaquant#488); later ones do."""
    found = _burn(monkeypatch, capsys, lambda early: f"2164, {11.0 if early else 84.4}, 66\n")
    assert set(found.power_w) == {84.4}
    assert set(found.sm_mhz) == {2164.0}
    assert len(found.tflops) >= 3


def test_a_burn_keeps_what_the_driver_tells_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`[N/A]` is no reading, and a driver that says nothing at all leaves the rates alone."""
    partly = _burn(monkeypatch, capsys, lambda _: "[N/A], 84.4, 66\nsecond GPU\n")
    assert (partly.sm_mhz, set(partly.power_w)) == ((), {84.4})
    silent = _burn(monkeypatch, capsys, lambda _: "")
    assert (silent.sm_mhz, silent.power_w, silent.temperature_c) == ((), (), ())
    assert silent.tflops
