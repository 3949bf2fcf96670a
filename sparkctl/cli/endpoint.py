"""Endpoint: what a verb asks: a line of ours that serves, with its boot, or any address with a model's name."""

from dataclasses import dataclass

from launcher.status import observe
from sparkctl.cli.hold import holder
from sparkctl.cli.session import Session
from sparkctl.errors import Refused, UsageFault
from sparkctl.line import Line
from tuner.client import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Where to ask; `line` and `boot` are those of a line of ours, None and '' for any other address."""

    endpoint: Endpoint
    line: Line | None = None
    boot: str = ""


def choose(session: Session, line_name: str | None, url: str | None, model: str | None) -> Chosen:
    """Return what is asked.

    Raises:
        UsageFault: --url, --model and --line do not go together so.
        Refused: the line does not serve.

    """
    if url is not None:
        if model is None or line_name is not None:
            raise UsageFault(
                "--url goes with --model and without --line",
                hint="for example --url http://HOST:8000 --model NAME",
            )
        return Chosen(endpoint=Endpoint(url=url, model=model))
    line = session.line(line_name)
    seen = observe(line, session.clock)
    if seen.state != "serving":
        pid = holder(line)
        hint = seen.hint or "boot it first: sparkctl boot"
        if pid:
            hint = f"wait for sparkctl (pid {pid}), which works on it"
        raise Refused(f"line {line.name} is {seen.state}: {seen.note}", hint=hint)
    own = Endpoint(url=line.url, model=model or seen.serves[0], key_file=line.api_key_file)
    return Chosen(endpoint=own, line=line, boot=seen.ranks[0].boot)
