"""Lever effects: what the models say of every lever of a ladder, before any of them costs a boot."""

from collections.abc import Mapping

from launcher.capacity import config
from sparkctl import content
from sparkctl.cli import presets
from sparkctl.cli.served import Served
from sparkctl.errors import Refused, Unclear, UsageFault
from tuner.lever import Ladder
from tuner.predicted import Effect, Known, predicted


def of_ladder(chosen: Served, ladder: Ladder) -> Mapping[str, tuple[Effect, ...]]:
    """Return the predicted effects of each lever alone on a GB10 line, by its id; none where the models do not reach."""
    model = presets.served(chosen.recipe)
    if model is None or not model.config:
        return {lever.id: () for lever in ladder.levers}
    known = Known(
        model=model,
        attention=config.attention(model.config, str(content.model(model.name))),
        hardware=presets.hardware("gb10"),
    )
    metrics = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    found = dict[str, tuple[Effect, ...]]()
    for lever in ladder.levers:
        after = chosen.with_settings(lever.set).recipe
        try:
            found[lever.id] = predicted(chosen.recipe, after, known, metrics)
        except (Refused, Unclear, UsageFault):
            found[lever.id] = ()
    return found
