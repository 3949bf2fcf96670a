"""`sparkctl boot --plan`: every step, node and command of a boot, in order; nothing is touched."""

import shlex
from collections.abc import Iterator
from typing import cast

from bootcheck import collect, redact
from bootcheck.probes import table as probes
from launcher import applying, asking, survey
from launcher.needs import needs
from launcher.plan import STAGES, Plan, Stage
from sparkctl import edge
from sparkctl.cli import predict_memory
from sparkctl.cli.session import Session

SETTLE = "sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory"
"""What the module spark_cache runs through sudo; it lies on the nodes' side, so a test holds the two equal."""


def show_plan(session: Session, plan: Plan) -> int:
    """Print the plan; under `--json` with every probe's whole command."""
    console, line = session.console, plan.line
    tables = _probes(session, plan)
    steps = []
    for stage, about in STAGES:
        does = list(_does(stage, plan, tables))
        steps.append(
            {"stage": stage, "about": about, "nodes": [one.name for one in line.nodes], "does": does}
        )
        console.show(f"{stage}: {about}")
        for text in does:
            console.show(f"  {text}")
    _show_memory(session, plan)
    console.answer(
        {
            "line": line.name,
            "recipe": redact.document(edge.plain(plan.recipe)),
            "steps": steps,
            "probes": tables,
            "commands": [
                {"node": one.node, "rank": one.rank, "argv": list(redact.argv(one.argv))}
                for one in plan.launched()
            ],
            "memory": predict_memory.answer(plan.memory) if plan.memory else None,
            "simulated": session.simulated,
        }
    )
    return 0


def _show_memory(session: Session, plan: Plan) -> None:
    """Print what every rank is predicted to hold, before a boot costs ten minutes to find out."""
    if plan.memory is None:
        session.console.show("memory: not predicted; sparkctl predict memory says why")
        return
    session.console.show("memory: what every rank will hold, predicted")
    predict_memory.show(session.console, plan.memory)


def _probes(session: Session, plan: Plan) -> dict[str, list[list[str]]]:
    """Return the commands that the check runs on each node."""
    known = survey.context(
        plan.line, plan.recipe, plan.floors, session.clock.today(), probes.requested(), plan.memory
    )
    return {
        node: [list(redact.argv(cast("list[str]", row["argv"]))) for row in rows]
        for node, rows in collect.tables(known).items()
    }


def _does(stage: Stage, plan: Plan, tables: dict[str, list[list[str]]]) -> Iterator[str]:
    match stage:
        case "check":
            for name, argvs in tables.items():
                yield f"{name}: {len(argvs)} commands, the last of them under load (--json has them whole; sparkctl check --list-probes says what each is for)"
        case "settle":
            yield from _settles(plan)
        case "launch":
            for one in plan.launched():
                yield f"{one.node} (rank {one.rank}): {shlex.join(redact.argv(one.argv))}"
        case "ready":
            yield f"docker inspect, wait and logs --follow of every rank; {plan.line.url}/health, /v1/models"
            yield "docker logs of every rank: version, kernels, memory, network; as the recipe expects them"
            if plan.recipe.inside:
                yield f"docker exec of every rank: sha256sum {' '.join(sorted(plan.recipe.inside))}"
            for smoke in asking.smokes(plan.recipe):
                yield f"smoke {smoke.name}: {smoke.prompt}"
            yield f"the first smoke {asking.at_once(plan.recipe)} times at once"
            for name, value in _settings(applying.after(plan.line) if plan.apply else None):
                yield f"every node: sudo -n sysctl -w {name}={value}"


def _settles(plan: Plan) -> Iterator[str]:
    for node in plan.line.nodes:
        yield f"{node.name}: docker stop and docker rm -f of containers labelled sparkctl.line={plan.line.name}"
    folder = needs(plan.recipe, plan.line).model_folder
    yield f"every node whose page cache or free blocks ask for it: sudo -n sh -c '{SETTLE}'"
    yield f"  where sudo refuses: posix_fadvise on the files of {folder or 'the model'}"
    if plan.apply:
        mtu = round(plan.floors.mtu_recommended.value)
        for node in plan.line.nodes:
            for rail in node.rails:
                yield f"{node.name}: sudo -n ip link set dev {rail.interface} mtu {mtu}, where it is less"
        for name, value in _settings(applying.before(plan.line, mtu)):
            yield f"every node: sudo -n sysctl -w {name}={value}"
    yield "every node: the probes again that this may have changed"


def _settings(variables: dict[str, object] | None) -> Iterator[tuple[str, object]]:
    settings = (variables or {}).get("apply_settings")
    if isinstance(settings, dict):
        yield from settings.items()
