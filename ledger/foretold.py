"""What a plan row says of each lever before it cost a boot: predicted effects, written and read back."""

from collections.abc import Mapping, Sequence

from ledger.entry import Body, Json
from ledger.fields import each, get, mapping, number, text
from tuner.predicted import Effect


def written(effects: Mapping[str, Sequence[Effect]]) -> Body:
    """Write the predicted effects of each lever, by its id; a lever that no model covers has an empty list."""
    return {
        lever: [
            {"metric": one.metric, "low": one.low, "high": one.high, "why": one.why}
            for one in effects_of_lever
        ]
        for lever, effects_of_lever in effects.items()
    }


def foretold(found: Json) -> Mapping[str, tuple[Effect, ...]]:
    """Read the predicted effects of each lever."""
    body = mapping(found)
    return {lever: get(body, lever, lambda told: each(told, _effect)) for lever in body}


def _effect(found: Json) -> Effect:
    body = mapping(found)
    return Effect(
        metric=get(body, "metric", text),
        low=get(body, "low", number),
        high=get(body, "high", number),
        why=get(body, "why", text),
    )
