"""The one door for everything that comes from outside: YAML and JSON to frozen values, all faults at once.

Within the program data is plain frozen dataclasses; here they are checked. Unknown keys are faults, a scalar of the
wrong type is a fault (no coercion: `"8"` is not 8), and each fault names its place: `x.yml: $.levers[3].set: ...`.
A dataclass may check its own fields in `__post_init__` and raise ValueError; the text then joins the faults.
"""

import json
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import yaml
from cattrs import Converter, transform_error
from cattrs.cols import list_structure_factory, mapping_structure_factory
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn

from sparkctl.errors import FileFault, UsageFault

T = TypeVar("T")

Hook = Callable[[Any, Any], Any]

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_PLAIN_KEY = re.compile(r"\['([\w-]+)'\]")
_PLAIN = (str, int, float, bool, type(None), list, dict)


def _scalar(kind: type) -> Hook:
    def structure(value: Any, _: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise ValueError(f"wanted {_NAMES[kind]}, found {_shown(value)}")
        return _finite(value)

    return structure


def _finite(value: Any) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise ValueError(f"wanted a finite number, found {value}")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _literal(value: Any, kind: Any) -> Any:
    allowed = get_args(kind)
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise ValueError(f"wanted one of {', '.join(map(str, allowed))}; found {_shown(value)}")
    return value


def _plain_value(value: Any, kind: Any) -> Any:
    if not isinstance(value, tuple(get_origin(one) or one for one in get_args(kind))):
        raise ValueError(f"wanted text, a number, true or false; found {_shown(value)}")
    return _finite(value)


def _is_plain_union(kind: Any) -> bool:
    """Whether `kind` is a union of scalars, lists and mappings that pass through as they are.

    An optional scalar (`int | None`) is left to cattrs, which then checks the scalar strictly.
    """
    if get_origin(kind) not in {Union, types.UnionType}:
        return False
    members = [get_origin(one) or one for one in get_args(kind)]
    return len([one for one in members if one is not type(None)]) > 1 and all(
        one in _PLAIN for one in members
    )


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _is_mapping(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin in {Mapping, dict}


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _converter() -> Converter:
    made = Converter(forbid_extra_keys=True, detailed_validation=True)

    def guarded(wanted: str, fits: Callable[[Any], bool], inner: Hook) -> Hook:
        def structure(value: Any, kind: Any) -> Any:
            if not fits(value):
                raise ValueError(f"wanted {wanted}, found {_shown(value)}")
            return inner(value, kind)

        return structure

    def for_dataclass(kind: Any) -> Hook:
        return guarded("keys with values", _is_dict, make_dict_structure_fn(kind, made))

    def for_mapping(kind: Any) -> Hook:
        return guarded("keys with values", _is_dict, mapping_structure_factory(kind, made))

    def for_tuple(kind: Any) -> Hook:
        items = list_structure_factory(cast("type", types.GenericAlias(list, get_args(kind)[:1])), made)
        return guarded("a list", _is_list, lambda value, _: tuple(items(value, kind)))

    made.register_structure_hook_factory(
        lambda kind: isinstance(kind, type) and is_dataclass(kind), for_dataclass
    )
    made.register_structure_hook_factory(_is_mapping, for_mapping)
    made.register_structure_hook_factory(_is_tuple, for_tuple)
    made.register_structure_hook_func(_is_plain_union, _plain_value)
    made.register_structure_hook_func(_is_literal, _literal)
    for kind in (str, int, float, bool):
        made.register_structure_hook(kind, _scalar(kind))
    return made


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


converter = _converter()


# libyaml reads ten times as fast; where PyYAML was built without it, PyYAML's own reader says the same.
_Reader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Reader):  # type: ignore[misc]
    """YAML as our formats mean it: a key stands once in its mapping, and a date is text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        """Make a mapping, and refuse a key that stands twice in it: YAML would keep the last one without a word."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(getattr(key, "value", key))
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name} stands twice", key.start_mark
                )
            seen.add(name)
        return cast("dict[Any, Any]", super().construct_mapping(node, deep))


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(path: Path, kind: type[T]) -> T:
    """Read a YAML or JSON file into a value of `kind`.

    Raises:
        FileFault: the file is missing, is not YAML, or does not fit; the message lists every fault.

    """
    return structure(read_raw(path), kind, source=str(path))


def read_raw(path: Path) -> object:
    """Read a YAML or JSON file into plain lists, mappings and scalars; one named *.json is read as JSON, which is quicker."""
    text = read_text(path)
    if path.suffix == ".json":
        return parse_json(text, source=str(path))
    try:
        return cast("object", yaml.load(text, Loader=_Loader))  # noqa: S506  # a SafeLoader, made stricter
    except (RecursionError, ValueError) as fault:
        raise FileFault(
            f"{path}: not YAML: nested too deep, or a number too long", hint="mend the file"
        ) from fault
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        problem = getattr(fault, "problem", None) or "not readable"
        raise FileFault(f"{path}: not YAML{where}: {problem}", hint="mend the file at that line") from fault


def parse_json(text: str, *, source: str) -> object:
    """Read JSON text into plain lists, mappings and scalars; `source` names where it came from in the faults."""
    try:
        return cast("object", json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as fault:
        raise FileFault(
            f"{source}: not JSON (line {fault.lineno}): {fault.msg}", hint="mend the file at that line"
        ) from fault
    except (RecursionError, ValueError) as fault:
        raise FileFault(f"{source}: not JSON: {fault}", hint="mend the file") from fault


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice} stands twice")
    return found


def read_text(path: Path) -> str:
    """Read a text file; its line ends stay as they are."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as fault:
        raise FileFault(f"{path}: there is no such file", hint="check the path") from fault
    except (OSError, UnicodeDecodeError) as fault:
        raise FileFault(
            f"{path}: cannot be read: {fault}", hint="check the path and its permissions"
        ) from fault


def lines(path: Path) -> Iterator[str]:
    """Read a text file line by line, for those that may be larger than memory; line ends stay as they are."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file
    except FileNotFoundError as fault:
        raise FileFault(f"{path}: there is no such file", hint="check the path") from fault
    except (OSError, UnicodeDecodeError) as fault:
        raise FileFault(
            f"{path}: cannot be read: {fault}", hint="check the path and its permissions"
        ) from fault


def parse_value(text: str, *, source: str) -> Any:
    """Read one value as YAML: `8` is a number, `"8"` is text, `{a: 1}` a mapping."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader, made stricter
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise UsageFault(
            f"{source}: not a YAML value", hint="quote text that holds : or # or braces"
        ) from fault


def structure(raw: object, kind: type[T], *, source: str) -> T:
    """Turn plain data into a value of `kind`; `source` names where it came from in the faults."""
    try:
        return converter.structure(raw, kind)
    except (ClassValidationError, IterableValidationError) as fault:
        faults = transform_error(fault, format_exception=_explain)
    except RecursionError:
        faults = ["nested too deep, or a part that holds itself @ $"]
    except (ValueError, TypeError, KeyError) as fault:
        faults = [f"{_explain(fault, None)} @ $"]
    lines = [_placed(source, text) for text in faults]
    raise FileFault("\n".join(lines), hint="mend the places named above; docs/formats.md describes every key")


def plain(value: object) -> Any:
    """Turn a value into plain lists, mappings and scalars, ready for JSON."""
    return converter.unstructure(value)


def to_json(value: object) -> str:
    """Write a value as indented JSON."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def _explain(fault: BaseException, _: type | None) -> str:
    if isinstance(fault, ForbiddenExtraKeysError):
        return f"unknown key {', '.join(sorted(map(str, fault.extra_fields)))}"
    if isinstance(fault, KeyError):
        return f"the key {fault.args[0]} is missing"
    return str(fault)


def _placed(source: str, text: str) -> str:
    fault, _, where = text.rpartition(" @ ")
    place = _PLAIN_KEY.sub(r".\1", where)
    return f"{source}: {place}: {fault}"
