"""The one place that prints: data on stdout, everything else on stderr.

With `--json` stdout holds one document and nothing else. Progress is a spinner on a terminal and plain lines
elsewhere. Errors say what was measured and wanted and, after a blank line, `hint:` with the remedy.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from sparkctl.errors import SparkctlError

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import RenderableType

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
    _shown: "RichConsole | None" = field(default=None, init=False)
    """On which something moves at its foot; what is told goes above it."""
    _hears: Callable[[str], None] | None = field(default=None, init=False)
    """Who is told what is going on now."""

    def say(self, text: str) -> None:
        """Tell something on stderr; `--quiet` silences it."""
        if not self.quiet:
            self._beside().print(text, markup=False, highlight=False, soft_wrap=True)

    def detail(self, text: str) -> None:
        """Tell something on stderr under `--verbose` only."""
        if self.verbose:
            self.say(text)

    def warn(self, text: str) -> None:
        """Tell something on stderr that even `--quiet` must not hide."""
        self._beside().print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)

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
        if self.quiet or not on.is_terminal or self._hears:
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=on, transient=True) as shown:
            task = shown.add_task(title, total=None)
            with self._above(on, lambda text: shown.update(task, description=text)):
                yield

    @contextmanager
    def live(self, view: "Callable[[], RenderableType]", hear: Callable[[str], None]) -> Iterator[None]:
        """Keep a view at the foot of the terminal until the block ends, and hand `progress` to `hear`; elsewhere nothing is kept."""
        on = self._on(sys.stderr)
        if self.quiet or not on.is_terminal or on.is_dumb_terminal:
            with self._above(None, hear):
                yield
            return
        from rich.live import Live  # noqa: PLC0415  # only when a view is shown

        with (
            Live(
                get_renderable=view,
                console=on,
                transient=True,
                refresh_per_second=2,
                redirect_stdout=False,
                redirect_stderr=False,
            ),
            self._above(on, hear),
        ):
            yield

    @property
    def is_live(self) -> bool:
        """Whether something moves on the terminal that shows what is going on."""
        return self._shown is not None

    def progress(self, text: str) -> None:
        """Say what is going on now; without a terminal only `--verbose` prints it."""
        if not text:
            return
        if self._hears:
            self._hears(text)
        else:
            self.detail(text)

    @contextmanager
    def _above(self, shown: "RichConsole | None", hears: Callable[[str], None]) -> Iterator[None]:
        before = self._shown, self._hears
        self._shown, self._hears = shown, hears
        try:
            yield
        finally:
            self._shown, self._hears = before

    def _beside(self) -> "RichConsole":
        return self._shown or self._on(sys.stderr)

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
