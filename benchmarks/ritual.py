"""How long `sparkctl check` takes on hosts of real namespaces, beside what shell scripts do: one ssh a probe and node.

Usage: python benchmarks/ritual.py [--hosts 4,8,16] [--repeats N] [--sequential N] [--without-loading] [--json] [-o FILE]

Three forms take turns on the same hosts, and the median of each counts: the command line as a user calls it, with new
connections; every command of its probe table over an ssh of its own, one after the other; the same commands, 32 at once.
Probes that load the node are left out of these and timed apart. Needs root, see rehearsal/hosts.
The bars: four hosts in at most 10 s, and in at most a third of the time one after the other. Exit code 1 below them.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bootcheck import collect, gates
from bootcheck.facts import Context
from bootcheck.probes import table as probes
from launcher import survey
from rehearsal.hosts import Rack, obstacle, raised
from ritual_report import Form, Measured, Where, document, faults, table
from sparkctl import ansible
from sparkctl.cli import served
from sparkctl.cli.session import Session
from sparkctl.console import Console

AT_ONCE = 32
LIMIT_S = 3600
SOCKETS = "ANSIBLE_SSH_CONTROL_PATH_DIR"

Commands = list[tuple[str, list[str]]]


def main() -> int:
    """Measure, print, and return 0 when the bars are held, 1 when one is not, 2 where no hosts can be raised."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="4,8,16", help="sizes of rack (default 4,8,16)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each form (default 3)")
    parser.add_argument(
        "--sequential",
        type=int,
        default=1,
        help="turns of the sequential form on all racks but the first, minutes each (default 1)",
    )
    parser.add_argument("--without-loading", action="store_true", help="do not time the loading probes")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-o", type=Path, dest="path", help="write the JSON document there too")
    options = parser.parse_args()
    if why := obstacle():
        say(f"no hosts here: {why}")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as SIGINT does: through the ends of all blocks
    load = os.getloadavg()[0]
    sizes = [int(text) for text in options.hosts.split(",")]
    measured = [
        measure(count, options.repeats, options.repeats if count == sizes[0] else options.sequential)
        for count in sizes
    ]
    loading = None if options.without_loading else with_loading(sizes[0])
    broken = faults(measured)
    answer = document(measured, loading, broken, load) | {"at_once": AT_ONCE}
    if options.path:
        options.path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(answer, indent=2) if options.json else table(measured, loading, broken, load))
    return 1 if broken else 0


def measure(count: int, repeats: int, sequential: int) -> Measured:
    """Let the forms take turns on one rack, the sequential one only so many."""
    with rack_of(count) as (rack, path):
        context = asked(path, count, probes.loading() | probes.requested())
        commands = over_ssh(rack, path, context)
        forms: dict[str, Callable[[], float]] = {
            "sequential": lambda: in_sequence(commands),
            "parallel": lambda: at_once(commands),
        }
        taken: dict[str, list[float]] = {"check": [], "kept": [], "sequential": [], "parallel": []}
        parts: list[Where] = []
        for turn in range(repeats):
            with new_connections():
                taken["check"].append(check(path, count))
                taken["kept"].append(check(path, count))
            for name, run in forms.items():
                if name != "sequential" or turn < sequential:
                    taken[name].append(run())
            with new_connections():
                parts.append(spent(context))
            told = ", ".join(f"{name} {seconds[-1]:.1f} s" for name, seconds in taken.items())
            say(f"{count} hosts, turn {turn + 1} of {repeats}: {told}")
    return Measured(
        hosts=count,
        commands=len(commands),
        forms={name: Form(seconds=tuple(seconds)) for name, seconds in taken.items()},
        where=Where.median(parts),
    )


def with_loading(count: int) -> dict[str, Any]:
    """Time one check with everything that loads GPU and fabric; on hosts these are faces that take their real time."""
    with rack_of(count) as (_, path), new_connections():
        seconds = check(path, count, quick=False)
        context = asked(path, count, probes.requested())
        found = collect.collect(context)
    each: dict[str, float] = {}
    for records in found.nodes.values():
        for record in records.probes:
            if record.probe in probes.loading():
                each[record.probe] = max(each.get(record.probe, 0.0), record.seconds)
    say(f"{count} hosts with the loading probes: {seconds:.1f} s")
    return {"hosts": count, "check_s": seconds, "slowest_s": each}


@contextmanager
def rack_of(count: int) -> Iterator[tuple[Rack, Path]]:
    """Raise hosts and write their inventory."""
    with tempfile.TemporaryDirectory(prefix="ritual-") as home, raised(Path(home), count) as rack:
        yield rack, rack.inventory()


def asked(path: Path, count: int, left_out: frozenset[str]) -> Context:
    """Return what a check of that inventory asks."""
    session = Session(console=Console(json=True), state=path.parent / "state", inventory_path=path)
    chosen = served.choose(session, None, None, [f"parallel.tensor={count}"])
    return survey.context(chosen.line, chosen.recipe, chosen.floors, session.clock.today(), left_out)


def check(path: Path, count: int, *, quick: bool = True) -> float:
    """Run the command line and return its wall time."""
    argv = [str(Path(sys.executable).with_name("sparkctl")), "check", "--json", "-i", str(path)]
    argv += ["--state", str(path.parent / "state"), "--set", f"parallel.tensor={count}"]
    start = time.perf_counter()
    ran = subprocess.run(
        [*argv, *(["--quick"] if quick else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    seconds = time.perf_counter() - start
    found = json.loads(ran.stdout)["findings"] if ran.stdout else []
    reached = [one for one in found if one["gate"] == "reachable" and one["verdict"] == "pass"]
    if len(reached) != count:
        raise SystemExit(f"check reached {len(reached)} of {count} hosts: {ran.stderr.strip()[-2000:]}")
    return seconds


def over_ssh(rack: Rack, path: Path, context: Context) -> Commands:
    """Return an ssh for every command that the product's own probe table has for these hosts."""
    known = path.with_suffix(".known_hosts")
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={known}",
        "ControlPath=none",
    ]
    flags = [word for option in options for word in ("-o", option)]
    made: Commands = []
    for name, rows in collect.tables(context).items():
        log_in = ["ssh", "-F", "none", *flags, "-i", str(rack.key), f"root@{rack.host(name).peer.management}"]
        made += [(name, [*log_in, shlex.join([str(word) for word in row["argv"]])]) for row in rows]  # type: ignore[attr-defined]
    return made


def in_sequence(commands: Commands) -> float:
    """Run one after the other and return the wall time."""
    start = time.perf_counter()
    for name, argv in commands:
        one(name, argv)
    return time.perf_counter() - start


def at_once(commands: Commands) -> float:
    """Run `AT_ONCE` at a time and return the wall time."""
    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda command: one(*command), commands):
            pass
    return time.perf_counter() - start


def one(name: str, argv: list[str]) -> None:
    """Run one command over ssh; only a failed log-in counts as a fault."""
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT_S)
    if ran.returncode == 255:
        raise SystemExit(f"ssh to {name} failed: {ran.stderr.decode(errors='replace').strip()}")


@contextmanager
def new_connections() -> Iterator[None]:
    """Give Ansible a folder for its connections within the block, and end them after it: the next run logs in anew."""
    with tempfile.TemporaryDirectory(prefix="ssh-") as folder:
        os.environ[SOCKETS] = folder
        try:
            yield
        finally:
            del os.environ[SOCKETS]
            for socket in Path(folder).iterdir():
                argv = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "any"]
                subprocess.run(argv, capture_output=True, check=False)


def spent(context: Context) -> Where:
    """Run one check's parts in this process and time each."""
    events: list[tuple[float, ansible.Answer]] = []
    began = time.perf_counter()
    answers = ansible.run(
        "probe",
        context.line,
        {"probe_tables": collect.tables(context)},
        report=lambda answer: events.append((time.perf_counter() - began, answer)),
    )
    ended = time.perf_counter() - began
    bundle = collect.bundle(context, answers)
    gates.judge(survey.scene(bundle))
    judged = time.perf_counter() - began - ended
    tasks = [(at, answer) for at, answer in events if "probes" in answer.result]
    first = min(at - answer.seconds for at, answer in tasks)
    last = max(at for at, _ in tasks)
    return Where(
        program=program_s(),
        ansible_start=first,
        hosts=last - first,
        fastest=min(answer.seconds for _, answer in tasks),
        slowest=max(answer.seconds for _, answer in tasks),
        command=max(one.seconds for records in bundle.nodes.values() for one in records.probes),
        ansible_end=ended - last,
        judging=judged,
    )


def program_s() -> float:
    """Return how long the command line takes to say what it would ask."""
    argv = [str(Path(sys.executable).with_name("sparkctl")), "check", "--list-probes", "--json"]
    begun = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - begun


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
