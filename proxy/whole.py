"""A reply that comes in one piece: nothing of it was sent, so on an alarm the whole is asked again with full reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.asked import Asked
from proxy.depth import Depths
from proxy.reply import Alarm
from proxy.said import read
from proxy.thresholds import Limits
from proxy.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a whole reply raises, and its depths, None where it loops (see `proxy.watch`)."""

    alarm: Alarm | None
    healthy: Depths | None


def judge(asked: Asked, document: Mapping[str, object], limits: Limits, *, mends: bool) -> Judged:
    """Return the alarm that a whole reply raises, None for one that is sound, and its depths."""
    watch = Watch(limits=limits)
    sign = watch.feed(read(document))
    if sign is None:
        return Judged(alarm=None, healthy=watch.healthy)
    why = "it was asked for full reads" if asked.full else "" if mends else "nothing is repaired here"
    alarm = Alarm(
        sign=sign,
        action="tell" if why else "anew",
        why=why,
        at_tokens=watch.tokens,
        kept_tokens=watch.tokens if why else 0,
        dropped_tokens=0 if why else watch.tokens,
        late_tokens=0,
    )
    return Judged(alarm=alarm, healthy=watch.healthy)
