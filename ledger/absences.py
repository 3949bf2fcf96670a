"""Absences as notes of a climb over several lines: a line that left it, and one that came back; to bodies and from them. Pure."""

from ledger.entry import Body
from ledger.fields import get, text, whole
from tuner.steps import Away, Back


def write(event: Away | Back, *, climb: str, simulated: bool) -> Body:
    """Write that a line left its climb and why, or from which stage on it is in it again."""
    told: Body = {"away": event.why} if isinstance(event, Away) else {"back": event.stage}
    return {"simulated": simulated, "climb": climb, **told}


def read(line: str, body: Body) -> Away | Back | None:
    """Read a note; None for any other."""
    if "away" in body:
        return Away(line=line, why=get(body, "away", text))
    return Back(line=line, stage=get(body, "back", whole)) if "back" in body else None
