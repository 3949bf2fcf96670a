"""The one place that prints: data on stdout, everything else on stderr.

With `--json` stdout holds one document and nothing else. Progress is a spinner on a terminal and plain lines
elsewhere. Errors say what was measured and wanted and, after a blank line, `hint:` with the remedy.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from sparkctl.errors import SparkctlError
from sparkctl.units import duration

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.progress import Progress

# Wide enough for a table of findings where no terminal gives a width.
_PLAIN_WIDTH = 140

_LONG_TABLE = 2000
"""Rows from which a table is not laid out by Rich, which takes half a millisecond a row. Ours."""

_STYLES = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "magenta"}
_STYLES |= {"accept": "green", "reject": "red", "inconclusive": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table; a `fold` column may break over lines, the others keep theirs."""

    title: str
    fold: bool = False


@dataclass(slots=True, kw_only=True)
class Console:
    """How to speak to the user."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool = True
    _shown: "Progress | None" = field(default=None, init=False)

    def say(self, text: str) -> None:
        """Tell something on stderr; `--quiet` silences it."""
        if not self.quiet:
            on = self._shown.console if self._shown else self._on(sys.stderr)
            on.print(text, markup=False, highlight=False, soft_wrap=True)

    def detail(self, text: str) -> None:
        """Tell something on stderr under `--verbose` only."""
        if self.verbose:
            self.say(text)

    def warn(self, text: str) -> None:
        """Tell something on stderr that even `--quiet` must not hide."""
        self._on(sys.stderr).print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)

    def show(self, text: str) -> None:
        """Print text as data; under `--json` the document says it instead."""
        if not self.json:
            self._on(sys.stdout).print(text, markup=False, highlight=False, soft_wrap=True)

    def data(self, text: str) -> None:
        """Print text as the one document of stdout, with and without `--json`."""
        print(text)  # noqa: T201  # the one place that prints

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table as data; cells that are a verdict are coloured. A very long one is for a pager or grep: plain, one line a row."""
        if self.json:
            return
        if len(rows) > _LONG_TABLE:
            self.data("\n".join(_padded([[column.title for column in columns], *rows])))
            return
        from rich.table import Table  # noqa: PLC0415  # only when a table is shown
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column.title, overflow="fold", no_wrap=not column.fold)
        for row in rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        self._on(sys.stdout).print(table)

    def answer(self, document: Any) -> None:
        """Print the one JSON document of `--json`."""
        if self.json:
            print(json.dumps(document, indent=2, ensure_ascii=False))  # noqa: T201  # the one place that prints

    def fault(self, fault: SparkctlError) -> None:
        """Print an error and its remedy; under `--json` also as the document."""
        hint = f"\n\nhint: {fault.hint}" if fault.hint else ""
        self._on(sys.stderr).print(
            f"error: {fault.message}{hint}", markup=False, highlight=False, soft_wrap=True
        )
        error = {"message": fault.message, "hint": fault.hint, "exit_code": fault.exit_code}
        self.answer({"ok": False, "error": error})

    @contextmanager
    def work(self, title: str) -> Iterator[None]:
        """Show what is going on and since when, until the block ends: on a terminal; nothing elsewhere."""
        on = self._on(sys.stderr)
        if self.quiet or not on.is_terminal or self._shown:
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=on, transient=True) as shown:
            self._shown = shown
            shown.add_task(title, total=None)
            try:
                yield
            finally:
                self._shown = None

    def progress(self, text: str) -> None:
        """Say what is going on now; without a terminal only `--verbose` prints it."""
        if not text:
            return
        if self._shown:
            self._shown.update(self._shown.task_ids[0], description=text)
        else:
            self.detail(text)

    def step(self, text: str) -> None:
        """Say what begins now, and count its time from here."""
        if self._shown:
            self._shown.reset(self._shown.task_ids[0], description=text)
        else:
            self.detail(text)

    def stage(self, text: str, seconds: float) -> None:
        """Tell that a stage ended and how long it took."""
        self.say(f"{text:<60} {duration(seconds):>12}")

    def _on(self, stream: TextIO | None) -> "RichConsole":
        from rich.console import Console as RichConsole  # noqa: PLC0415  # 0.05 s that --help must not pay

        if stream is None:
            # Closed by the caller: there is nobody to tell.
            return RichConsole(file=io.StringIO())
        plain = not self.color or "NO_COLOR" in os.environ
        width = None if stream.isatty() or "COLUMNS" in os.environ else _PLAIN_WIDTH
        made = RichConsole(
            file=stream, no_color=plain, width=width, highlight=False, stderr=stream is sys.stderr
        )
        # Rich would end the program with 1 in the midst of whatever it does; we end it as an interrupt does.
        made.on_broken_pipe = _lost  # type: ignore[method-assign]
        return made


def _padded(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:<{width}}}" for width in widths[:-1]) + "  {}"
    return (form.format(*row).rstrip() for row in rows)


def _lost() -> NoReturn:
    raise BrokenPipeError(errno.EPIPE, "nobody reads what is told")


@dataclass(slots=True)
class _Current:
    """The console of the call that runs, so that its errors are reported the way the user asked for."""

    console: Console = field(default_factory=Console)


current = _Current()
