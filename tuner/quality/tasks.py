"""Tasks: the questions of a battery as chat requests, and what is right about an answer. Pure.

Every judge returns what is wrong with an answer, '' when nothing is. Two parts judge less: `garble` only whether the answer is
language, and `repeat` also that; how many answers to the same greedy question differ is counted, never judged.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.audit import Reply, audit
from tuner.filler import fill
from tuner.quality import answers
from tuner.quality.answers import Said
from tuner.quality.battery import Battery, Count, Needle, Part, Program, Record, Tool, parts

Json = Mapping[str, object]

_HIDDEN = "The secret code of the lighthouse is {code}."
_ASKED = "What is the secret code of the lighthouse? Answer with the number only."


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question: `body` is a chat request's JSON short of the model, `at_once` how many like it are kept in flight.

    `tokens` is about how long its prompt is, 0 for a short one: a needle longer than what is served is not asked.
    """

    part: Part
    id: str
    body: Json
    wanted: object = None
    at_once: int = 1
    tokens: int = 0

    @property
    def prompt(self) -> str:
        """What is asked."""
        messages = self.body["messages"]
        return str(messages[-1]["content"]) if isinstance(messages, list) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """One answer, judged; `fault` is empty when it is right."""

    part: Part
    id: str
    fault: str


def tasks(battery: Battery, run_tag: str) -> tuple[Task, ...]:
    """Return every question of a battery, in the order of its parts; the probe is none.

    Args:
        battery: what to ask.
        run_tag: a text unique to this run, at the front of each long prompt, so that none is served from a cache.

    """
    made = {
        "needle": _needles,
        "tools": _calls,
        "counting": _counts,
        "json": _records,
        "code": _programs,
        "repeat": _repeats,
        "garble": _open,
    }
    return tuple(task for part in parts(battery) if part in made for task in made[part](battery, run_tag))


def mark(task: Task, said: Said) -> Marked:
    """Judge an answer; a program is judged by `program` and by what running it gives."""
    fault = said.fault or _fault(task, said)
    return Marked(part=task.part, id=task.id, fault=fault)


def program(task: Task, said: Said) -> str:
    """Return the program to run for a code task: what was answered, with the asserts behind it; '' for other tasks."""
    if not isinstance(task.wanted, Program) or said.fault:
        return ""
    return f"{answers.code(said.text)}\n\n{task.wanted.asserts}\n"


def distinct(marked: Sequence[Task], said: Sequence[Said]) -> tuple[int, int]:
    """Return how many answers to the repeated question came, and how many different ones."""
    texts = [
        one.text for task, one in zip(marked, said, strict=True) if task.part == "repeat" and not one.fault
    ]
    return len(texts), len(set(texts))


def _fault(task: Task, said: Said) -> str:
    wanted = task.wanted
    match task.part:
        case "needle":
            return answers.named(said, str(wanted))
        case "tools" if isinstance(wanted, tuple):
            return answers.called(said, *wanted)
        case "counting" if isinstance(wanted, Count):
            return answers.counted(said, wanted.first, wanted.last)
        case "json" if isinstance(wanted, Record):
            return answers.recorded(said, wanted.keys)
        case "code":
            return "" if answers.code(said.text).strip() else "no program in the answer"
        case _:
            return _damage(task, said)


def _damage(task: Task, said: Said) -> str:
    reply = Reply(
        text=said.text,
        reasoning=said.reasoning,
        completion_tokens=said.completion_tokens,
        finish_reason=said.finish_reason,
        prompt=task.prompt,
    )
    found = audit(reply)
    return found[0].said if found else ""


def _needles(battery: Battery, run_tag: str) -> Iterator[Task]:
    if needle := battery.needle:
        for length in needle.lengths:
            for depth in needle.depths:
                code = str(10_000 + (length * 7919 + round(depth * 1000) * 104_729) % 90_000)
                name = f"{length}@{depth:g}"
                text = _haystack(needle, length, depth, code, f"[{run_tag} needle {name}]")
                body = _body(text, needle.max_tokens)
                yield Task(part="needle", id=name, body=body, wanted=code, tokens=length)


def _haystack(needle: Needle, length: int, depth: float, code: str, tag: str) -> str:
    words = fill(needle.filler, tag, length).split(" ")
    at = round(len(words) * depth)
    hidden = [*words[:at], _HIDDEN.format(code=code), *words[at:]]
    return f"{tag} {' '.join(hidden)}\n\n{_ASKED}"


def _calls(battery: Battery, _: str) -> Iterator[Task]:
    if tools := battery.tools:
        offered = [_offered(tool) for tool in tools.tools]
        schemas = {tool.name: tool.parameters for tool in tools.tools}
        for number, call in enumerate(tools.calls, start=1):
            body = _body(call.ask, tools.max_tokens) | {"tools": offered, "tool_choice": "auto"}
            wanted = (call.tool, call.arguments, schemas[call.tool])
            yield Task(part="tools", id=f"{number} {call.tool}", body=body, wanted=wanted)


def _offered(tool: Tool) -> Json:
    function = {"name": tool.name, "description": tool.about, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _counts(battery: Battery, _: str) -> Iterator[Task]:
    for one in battery.counting:
        yield Task(
            part="counting",
            id=f"{one.first} to {one.last}",
            body=_body(one.ask, one.max_tokens),
            wanted=one,
        )


def _records(battery: Battery, _: str) -> Iterator[Task]:
    for number, one in enumerate(battery.json, start=1):
        mode = {"response_format": {"type": "json_object"}}
        body = _body(one.ask, one.max_tokens) | mode
        yield Task(part="json", id=f"{number} {' '.join(one.keys)}", body=body, wanted=one)


def _programs(battery: Battery, _: str) -> Iterator[Task]:
    for one in battery.code:
        yield Task(part="code", id=one.id, body=_body(one.ask, one.max_tokens), wanted=one)


def _repeats(battery: Battery, _: str) -> Iterator[Task]:
    if one := battery.repeat:
        for number in range(1, one.times + 1):
            yield Task(part="repeat", id=f"{number} of {one.times}", body=_body(one.ask, one.max_tokens))


def _open(battery: Battery, _: str) -> Iterator[Task]:
    if one := battery.garble:
        for heat in one.temperatures:
            for number in range(one.rounds):
                ask = one.prompts[number % len(one.prompts)]
                seed = {"temperature": heat, "seed": number} if heat else {}
                body = _body(ask, one.max_tokens) | seed
                name = f"T {heat:g}, {number + 1} of {one.rounds}"
                yield Task(part="garble", id=name, body=body, at_once=one.in_flight)


def _body(ask: str, most: int) -> dict[str, object]:
    message = {"role": "user", "content": ask}
    return {"messages": [message], "max_tokens": most}


def replies(asked: Sequence[Task], said: Sequence[Said]) -> bytes:
    """Write what was answered, by part and id, as JSON: for the store beside the ledger."""
    told = [
        {
            "part": task.part,
            "id": task.id,
            "text": one.text,
            "reasoning": one.reasoning,
            "calls": list(one.calls),
        }
        for task, one in zip(asked, said, strict=True)
    ]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
