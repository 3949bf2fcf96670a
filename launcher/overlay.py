"""Overlay: a recipe and settings with dotted keys to another recipe. Pure, and the only way a recipe changes.

Keys are `args.<engine flag>`, `env.<NAME>`, `memory.*`, `parallel.*`, `engine.*`, `speculative.*`, `graphs.*`,
`budget.*`, `engram.*`, `exl3.*` and `ready.*`. A key that names nothing, or a value of another type than what it replaces, is refused.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from launcher.command import placeholder_faults
from launcher.recipe import DERIVED_FLAGS, Argument, EngineFacts, Fork, Recipe
from sparkctl.errors import UsageFault
from sparkctl.nearest import nearest

Settings = Mapping[str, Argument]

_SECTIONS = ("engine", "parallel", "memory", "speculative", "graphs", "budget", "engram", "exl3", "ready")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_DERIVED_FROM = {
    "tensor-parallel-size": "parallel.tensor",
    "pipeline-parallel-size": "parallel.pipeline",
    "data-parallel-size": "parallel.data",
    "distributed-executor-backend": "parallel.backend",
    "gpu-memory-utilization": "memory.utilisation",
    "kv-cache-memory-bytes": "memory.kv_cache_gib",
    "speculative-config": "speculative.*",
    "compilation-config": "graphs.mode",
}


def overlay(recipe: Recipe, settings: Settings, facts: EngineFacts) -> Recipe:
    """Return the recipe with every setting applied.

    Raises:
        UsageFault: a key names nothing or a value does not fit; every fault at once.

    """
    faults = tuple(
        f"{key}: {fault}"
        for key, value in settings.items()
        if (fault := find_fault(recipe, key, value, facts))
    )
    if faults:
        raise UsageFault("\n".join(faults), hint="sparkctl boot --plan shows every key of the recipe in use")
    try:
        return _applied(recipe, settings)
    except ValueError as fault:
        raise UsageFault(
            f"{', '.join(settings)}: {fault}", hint="change the keys that do not fit together"
        ) from fault


def _applied(recipe: Recipe, settings: Settings) -> Recipe:
    args, env, fitted = dict(recipe.args), dict(recipe.env), dict[str, dict[str, Argument]]()
    fork = recipe.fork or Fork(of="")
    fork_args, fork_env = dict(fork.args), dict(fork.env)
    for key, value in settings.items():
        section, _, name = key.partition(".")
        if section == "args":
            (fork_args if name in fork_args else args)[name] = value
        elif section == "env":
            (fork_env if name in fork_env else env)[name] = str(value)
        else:
            fitted.setdefault(section, {})[name] = _fitted(recipe, section, name, value)
    # At once, since one key of a section may only make sense with another.
    sections = {name: dataclasses.replace(getattr(recipe, name), **values) for name, values in fitted.items()}
    if recipe.fork:
        sections["fork"] = dataclasses.replace(fork, args=fork_args, env=fork_env)
    return dataclasses.replace(recipe, args=args, env=env, **sections)


def find_fault(recipe: Recipe, key: str, value: Argument, facts: EngineFacts) -> str:
    """Return what is wrong with one setting, or an empty text."""
    section, dot, name = key.partition(".")
    if not dot or section not in {"args", "env", *_SECTIONS}:
        return f"unknown recipe key; wanted args.<flag>, env.<NAME> or {', '.join(f'{one}.*' for one in _SECTIONS)}"
    if section == "args":
        known = recipe.fork.args if recipe.fork else {}
        return (name not in known and _flag_fault(name, facts)) or _argument_fault(value)
    if section == "env":
        return _variable_fault(name, value)
    if key in {"engine.kind", "engine.version"}:
        return "an engine cannot be changed by a setting; name a recipe that is written for it"
    return _field_fault(recipe, section, name, value)


def _flag_fault(name: str, facts: EngineFacts) -> str:
    if name in DERIVED_FLAGS:
        return f"this flag follows from {_DERIVED_FROM.get(name, 'the inventory')}; set that instead"
    if name not in facts.flags:
        return f"unknown recipe key; {facts.engine} {facts.version} has no flag --{name}{nearest(name, facts.flags)}"
    return ""


def _variable_fault(name: str, value: object) -> str:
    if not _ENV_NAME.match(name):
        return "unknown recipe key; an environment variable is letters, digits and underscores"
    if not isinstance(value, str):
        return f"wanted text (quote it for YAML and the shell: '{name}=\"...\"'), found {value!r}"
    return "; ".join(placeholder_faults(value))


def _argument_fault(value: object) -> str:
    if type(value) is float and not math.isfinite(value):
        return f"wanted a finite number, found {value}"
    if value is None or not isinstance(value, (str, int, float, bool, list, dict)):
        return f"wanted text, a number, true, false, a list or a mapping; found {value!r}"
    return ""


def _field_fault(recipe: Recipe, section: str, name: str, value: Argument) -> str:
    current = getattr(recipe, section)
    if current is None:
        return f"the recipe {recipe.name} has no section {section}"
    known = [one.name for one in dataclasses.fields(current)]
    if name not in known:
        return f"unknown recipe key; {section} has {', '.join(known)}{nearest(name, tuple(known))}"
    return _type_fault(get_type_hints(type(current))[name], value)


def _type_fault(kind: Any, value: object) -> str:
    allowed = tuple(_members(kind))
    if get_origin(kind) is Literal:
        return "" if value in allowed else f"wanted one of {', '.join(map(str, allowed))}, found {value!r}"
    if type(value) is float and not math.isfinite(value):
        return f"wanted a finite number, found {value}"
    fits = type(value) in allowed or (float in allowed and type(value) is int)
    wanted = " or ".join(one.__name__ for one in allowed if one is not type(None))
    return "" if fits else f"wanted {wanted}, found {value!r}"


def _members(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in {Union, type(int | str), Literal}:
        yield from get_args(kind)
    else:
        yield kind


def _fitted(recipe: Recipe, section: str, name: str, value: Argument) -> Argument:
    kind = get_type_hints(type(getattr(recipe, section)))[name]
    return float(value) if type(value) is int and int not in tuple(_members(kind)) else value
