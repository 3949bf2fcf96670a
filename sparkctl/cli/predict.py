"""`sparkctl predict`: what arithmetic says of a recipe before anything boots: cache, memory, expert bytes, step time."""

import typer

from sparkctl.cli.predict_kv import kv
from sparkctl.cli.predict_memory import memory

app = typer.Typer(rich_markup_mode=None)
for _verb in (kv, memory):
    app.command(_verb.__name__)(_verb)
