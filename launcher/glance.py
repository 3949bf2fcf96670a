"""Glance: reads the vitals of every node of a line over the kept connections. I/O."""

from bootcheck.facts import Record
from launcher import vitals
from launcher.vitals import Vitals
from sparkctl.shell import Said, Shell


def read(shell: Shell) -> tuple[Vitals, ...]:
    """Look at every node of the shell's line, all at once; in rank order."""
    told = [[_record(probe, argv, said) for said in shell.run(argv)] for probe, argv in vitals.ARGVS.items()]
    names = [node.name for node in shell.nodes]
    return tuple(vitals.parse(name, *of_node) for name, *of_node in zip(names, *told, strict=True))


def _record(probe: str, argv: tuple[str, ...], said: Said) -> Record:
    return Record(probe=probe, argv=argv, rc=said.rc, stdout=said.stdout, stderr=said.stderr, seconds=0.0)
