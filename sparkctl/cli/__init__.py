"""The command line: a verb parses, calls one function and prints. Only this package joins the stages.

A verb's module is imported when the verb is called, so that `sparkctl --help` stays quick; the table below tells what
each verb is for, and a test compares it with the verb's own words.
"""

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from sparkctl import __version__
from sparkctl.console import Console, current
from sparkctl.errors import FileFault, Interrupted, SparkctlError, UsageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb, or a group of them when `group`: its module under sparkctl.cli, and what it is for."""

    name: str
    module: str
    about: str
    group: bool = False


VERBS: tuple[Verb, ...] = (
    Verb(name="check", module="check", about="Probe every node and judge it; changes nothing."),
    Verb(name="boot", module="boot", about="Run the ritual and launch; ready means answered sensibly."),
    Verb(name="status", module="status", about="Say what a line is doing: every rank and the API."),
    Verb(name="logs", module="status", about="Print the last lines of every rank's log."),
    Verb(name="down", module="down", about="Stop a line and prove that nothing is left."),
    Verb(
        name="bundle",
        module="bundle",
        about="Gather everything needed to judge a boot elsewhere; secrets are withheld.",
    ),
    Verb(name="bench", module="bench", about="Measure what a line or an endpoint serves now."),
    Verb(name="audit", module="audit", about="Judge bench results: are these numbers real?"),
    Verb(
        name="quality",
        module="quality",
        about="Ask what a line still can, and how far it lies from a stored reference.",
    ),
    Verb(name="tune", module="tune", about="Climb a ladder of levers with bounded error."),
    Verb(
        name="proxy",
        module="proxy",
        about="Watch replies as they stream, and repair those about to collapse.",
    ),
    Verb(
        name="predict", module="predict", about="What fits and how fast it can be, before a boot.", group=True
    ),
    Verb(name="ledger", module="ledger", about="Read, verify and extend the ledger.", group=True),
    Verb(name="recipes", module="recipes", about="List, show, check and import recipes.", group=True),
    Verb(name="images", module="images", about="Build, spread and show the serving image.", group=True),
    Verb(name="patches", module="patches", about="Show a patch set, and bring it to the nodes.", group=True),
    Verb(
        name="report",
        module="report",
        about="Render the ledger into the block of a README, or into a page with plots.",
    ),
    Verb(
        name="doctor", module="doctor", about="Say whether this controller is fit to work; no node is asked."
    ),
    Verb(
        name="rehearse",
        module="rehearse",
        about="The practice cluster: four simulated nodes here.",
        group=True,
    ),
)

_COMPLETE = "_SPARKCTL_COMPLETE"


def build(wanted: Sequence[str]) -> typer.Typer:
    """Make the command line; of the verbs only those named in `wanted` are imported."""
    app = typer.Typer(
        name="sparkctl",
        help="Boot, tune and trust a large model served by vLLM over GB10 nodes.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_top)
    modules = _loaded([verb for verb in VERBS if verb.name in wanted])
    for verb in VERBS:
        module = modules.get(verb.name)
        if verb.group:
            group = module.app if module else typer.Typer(callback=_stand_in)
            app.add_typer(group, name=verb.name, help=verb.about)
        else:
            app.command(verb.name, help=verb.about)(getattr(module, verb.name) if module else _stand_in)
    return app


def _loaded(verbs: Sequence[Verb]) -> dict[str, Any]:
    """Import the verbs' modules; what they make lives to the end, and to look for garbage in it took a tenth of the start."""
    gc.disable()
    found = {verb.name: import_module(f"sparkctl.cli.{verb.module}") for verb in verbs}
    gc.freeze()
    gc.enable()
    return found


def _stand_in() -> None:
    """Stand in the list of verbs for a verb that was not called."""


def _top(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")
) -> None:
    if version:
        typer.echo(f"sparkctl {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line and exit with its code: 0 yes, 1 no, 2 used wrongly, 3 could not tell, 4 inconclusive."""
    # A service manager's stop and a lost terminal end the work like Ctrl-C: what was started is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one call and return its exit code; an error is printed with its remedy, never as a traceback."""
    current.console = Console(json="--json" in arguments)
    # Completion asks for options of any verb without naming it in argv.
    wanted = [verb.name for verb in VERBS] if _COMPLETE in os.environ else arguments
    return _guarded(lambda: build(wanted)(args=list(arguments), prog_name="sparkctl", standalone_mode=False))


# What typer makes of an interrupt that reaches it.
_INTERRUPTED = 130


# What a wrong path or a full disk says, wherever it is met first.
_OWNERS = {errno.ENOTDIR, errno.ENOSPC, errno.EROFS, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}


def _lost(lost: OSError) -> int:
    """Return the exit code of a file that is wrong, or of a reader that went away; anything else is a fault of ours."""
    if lost.errno in _OWNERS:
        wrong = FileFault(
            str(lost), hint="name a folder and files that can be written, and see that there is space"
        )
        current.console.fault(wrong)
        return wrong.exit_code
    if lost.errno not in {errno.EPIPE, errno.EIO}:
        raise lost
    # Whoever read us went away, or the terminal did; nothing more can be told, and the interpreter must not try at its end.
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return Interrupted.exit_code


def _guarded(call: Callable[[], object]) -> int:
    try:
        code = call()
    except SparkctlError as fault:
        current.console.fault(fault)
        return fault.exit_code
    except KeyboardInterrupt:
        return Interrupted.exit_code
    except OSError as lost:
        return _lost(lost)
    except typer.Exit as ended:
        return Interrupted.exit_code if ended.exit_code == _INTERRUPTED else int(ended.exit_code)
    except typer._click.exceptions.ClickException as wrong:  # noqa: SLF001  # typer exports no base of its errors
        current.console.fault(
            UsageFault(wrong.format_message(), hint="sparkctl --help lists verbs and options")
        )
        return UsageFault.exit_code
    return code if isinstance(code, int) else 0
