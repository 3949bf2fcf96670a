"""`sparkctl predict`: what arithmetic says of a recipe before anything boots: cache, memory, expert bytes, step time."""

import typer

from sparkctl.cli.predict_experts import experts
from sparkctl.cli.predict_kv import kv
from sparkctl.cli.predict_memory import memory
from sparkctl.cli.predict_step import step

app = typer.Typer(rich_markup_mode=None)
for _verb in (kv, memory, step, experts):
    app.command(_verb.__name__)(_verb)
