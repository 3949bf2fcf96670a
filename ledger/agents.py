"""A level of agents' sessions as the body of a bench row: figures, voids, what was sent, and every call without its words."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict

from ledger.entry import Body, Json
from tuner import counters
from tuner.agents import report
from tuner.agents.exchange import Exchange, Level


def bench(level: Level, *, boot: str, simulated: bool) -> Body:
    """Write one level; its metrics are named `agents_s<live>_...`, and `words` says whether its text was real."""
    return {
        "simulated": simulated,
        "boot": boot,
        "climb": None,
        "on": [],
        "voids": [_text(one) for one in report.voids(level)],
        "metrics": [
            {"name": one.name, "value": one.value, "unit": one.unit, "n": one.n}
            for one in report.metrics(level)
        ],
        "workload": level.load.name,
        "workload_digest": level.load.digest,
        "agents": {
            "live": level.live,
            "words": level.load.words,
            "idle_cap_s": level.idle_cap_s,
            "most_s": level.most_s,
            "characters_a_token": level.characters_a_token,
            "sessions": [dict(asdict(one)) for one in level.sessions],
        },
        "run_tag": level.run_tag,
        "started": level.started,
        "seconds": level.seconds,
        "client_cpu_share": level.client_cpu_share,
        "requests": [_call(one) for one in level.exchanges],
        "counters": _counted(level),
    }


def _call(one: Exchange) -> Mapping[str, Json]:
    told: dict[str, Json] = {
        key: _text(value) if isinstance(value, str) else value
        for key, value in asdict(one).items()
        if key != "text"
    }
    kept = hashlib.sha256(one.text.encode("utf-8", "surrogatepass")).hexdigest()
    return told | {"text_sha256": kept, "text_chars": len(one.text)}


def _counted(level: Level) -> Body | None:
    if level.before is None or level.after is None:
        return None
    grown = counters.growth(level.before, level.after)
    return {**asdict(grown), "acceptance": grown.acceptance}


def _text(value: str) -> str:
    """Return the text with half surrogate pairs spelled out: a server's broken bytes must not cost the row."""
    return value.encode("utf-8", "backslashreplace").decode()
