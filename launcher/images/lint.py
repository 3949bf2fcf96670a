"""Lint: what a Containerfile must hold to so that one manifest means one image. Pure; RULES is the table.

A rule reads the whole sheet and names every place that breaks it: measured, and beside the rule what is wanted and the remedy.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bootcheck import redact
from launcher.images import containerfile
from launcher.images.containerfile import Instruction
from launcher.images.inputs import DIGEST
from launcher.images.manifest import BASE, Manifest, is_by_digest

TITLE = "org.opencontainers.image.title"

_COMMIT = re.compile(r"@(?:[0-9a-f]{40}|\$\{?\w+\}?)(?:#\S*)?$")
_EXACT = re.compile(r"^[A-Za-z0-9][\w.\[\],-]*===?[A-Za-z0-9$][\w.${}+!-]*$")
_PIPED = re.compile(
    r"\b(?:curl|wget)\b[^|;&]*\|\s*(?:sudo\s+)?(?:\S*/)?(?:ba|da|z)?sh\b|\bsh\s+-c\s+\"?\$\((?:curl|wget)"
)
_PIP = re.compile(r"(?:\bpip3?|-m\s+pip|\buv\s+pip)\s+install\s+([^;|]*?)(?=&&|;|\||$)")
_APT = re.compile(r"\bapt(?:-get)?\s+install\b")
_FROM_FILE = frozenset({"-r", "--requirement"})
_VALUED = frozenset(
    {"--only-binary", "--no-binary", "--index-url", "--prefix", "--target", "-c", "--constraint"}
)

Fault = tuple[int, str]
"""Line, and what stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What is judged."""

    instructions: tuple[Instruction, ...]
    manifest: Manifest
    files: Mapping[str, str]
    """The files of the build by name."""

    def of(self, *keywords: str) -> Iterator[Instruction]:
        """Yield the instructions of these kinds."""
        return (one for one in self.instructions if one.keyword in keywords)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: what it wants, how a breach is mended, and the judge that finds breaches."""

    name: str
    wanted: str
    remedy: str
    judge: Callable[[Sheet], Iterator[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One place that breaks a rule."""

    rule: str
    line: int
    measured: str
    wanted: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.rule}: {self.measured}; wanted {self.wanted}"


def lint(text: str, manifest: Manifest, files: Mapping[str, str]) -> tuple[Breach, ...]:
    """Return every breach, by rule and line."""
    sheet = Sheet(instructions=containerfile.read(text), manifest=manifest, files=files)
    return tuple(
        Breach(rule=rule.name, line=line, measured=measured, wanted=rule.wanted, remedy=rule.remedy)
        for rule in RULES
        for line, measured in rule.judge(sheet)
    )


def _judge_base(sheet: Sheet) -> Iterator[Fault]:
    stages = set[str]()
    bases = list(sheet.of("FROM"))
    if not bases:
        yield 1, "no FROM"
    for one in bases:
        named = next((word for word in one.words if not word.startswith("--")), "")
        is_ours = named in {f"${{{BASE}}}", f"${BASE}"}
        if not (is_ours or named == "scratch" or named in stages or is_by_digest(named)):
            yield one.line, f"FROM {named}"
        if len(one.words) > 2 and one.words[-2].upper() == "AS":
            stages.add(one.words[-1])
    for one in sheet.of("COPY"):
        source = next((word.removeprefix("--from=") for word in one.words if word.startswith("--from=")), "")
        if source and source not in stages and not is_by_digest(source):
            yield one.line, f"COPY --from={source}"


def _judge_pip(sheet: Sheet) -> Iterator[Fault]:
    for one in sheet.of("RUN"):
        for call in _PIP.findall(one.text):
            for fault in _loose(_split(call), sheet.files):
                yield one.line, f"pip install {fault}"


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _loose(words: list[str], files: Mapping[str, str]) -> Iterator[str]:
    """Yield what pip is asked for without saying exactly which."""
    hashed, before = "--require-hashes" in words, ""
    for word in words:
        asked, _, given = word.partition("=") if word.startswith("--") else (before, "", word)
        if asked in _FROM_FILE and given:
            name = given.rpartition("/")[2]
            if not hashed:
                yield f"{word} without --require-hashes"
            elif name not in files:
                yield f"{word}, which is no file of the build"
        elif (
            before not in _VALUED
            and not word.startswith("-")
            and not (_EXACT.match(word) or _is_commit(word))
        ) or word in {"-e", "--editable"}:
            yield word
        before = word if word in _FROM_FILE | _VALUED else ""


def _is_commit(word: str) -> bool:
    return "git+" in word and bool(_COMMIT.search(word))


def _judge_apt(sheet: Sheet) -> Iterator[Fault]:
    for one in sheet.of("RUN"):
        if not _APT.search(one.text):
            continue
        for wanted in ("--no-install-recommends", "rm -rf /var/lib/apt/lists", "dpkg-query"):
            if wanted not in one.text:
                yield one.line, f"apt-get install without {wanted}"


def _judge_pipe(sheet: Sheet) -> Iterator[Fault]:
    for one in sheet.of("RUN"):
        if found := _PIPED.search(one.text):
            yield one.line, found[0]


def _judge_fetch(sheet: Sheet) -> Iterator[Fault]:
    for one in sheet.of("ADD"):
        yield one.line, f"ADD {one.text}"
    for one in sheet.of("RUN"):
        if re.search(r"\b(?:curl|wget)\b", one.text) and "sha256sum -c" not in one.text:
            yield one.line, "a download without sha256sum -c"
        if "git clone" in one.text and not re.search(
            r"git (?:-C \S+ )?checkout \S*(?:[0-9a-f]{40}|\$)", one.text
        ):
            yield one.line, "git clone without a checkout of one commit"


def _judge_secrets(sheet: Sheet) -> Iterator[Fault]:
    for one in sheet.of("ARG", "ENV"):
        for name, _ in containerfile.pairs(one):
            if redact.names_a_secret(name):
                yield one.line, f"{one.keyword} {name}"


def _judge_files(sheet: Sheet) -> Iterator[Fault]:
    wanted, used = set(sheet.manifest.files), set[str]()
    for one in sheet.of("COPY"):
        for name in containerfile.copied(one):
            used.add(name)
            if name not in wanted:
                yield one.line, f"COPY {name}"
    for name in sorted(wanted - used):
        yield 1, f"{name} is never copied"


def _judge_arguments(sheet: Sheet) -> Iterator[Fault]:
    declared = {BASE, *sheet.manifest.arguments}
    found = set[str]()
    for one in sheet.of("ARG"):
        name, equals, _ = one.text.partition("=")
        found.add(name)
        if equals:
            yield one.line, f"ARG {one.text}"
        elif name not in declared:
            yield one.line, f"ARG {name} is not in the manifest"
    for name in sorted(declared - found):
        yield 1, f"no ARG {name}"


def _judge_labels(sheet: Sheet) -> Iterator[Fault]:
    titles = list[str]()
    for one in sheet.of("LABEL"):
        for name, value in containerfile.pairs(one):
            if name.startswith(DIGEST):
                yield one.line, f"LABEL {name}"
            if name == TITLE:
                titles.append(value)
    if titles != [sheet.manifest.name]:
        yield 1, f"{TITLE} is {', '.join(titles) or 'not there'}"


def _judge_order(sheet: Sheet) -> Iterator[Fault]:
    """Find what stands before a RUN that does not use it: a change of it would do that RUN anew for nothing."""
    rows = sheet.instructions
    for place, one in enumerate(rows):
        names = _brought(one)
        after = [later for later in rows[place + 1 :] if later.keyword in {"RUN", "FROM"}]
        if names and after and after[0].keyword == "RUN" and not any(_uses(after[0], name) for name in names):
            yield (
                one.line,
                f"{one.keyword} {one.text} before the RUN of line {after[0].line}, which does not use it",
            )


def _brought(one: Instruction) -> tuple[str, ...]:
    if one.keyword == "ARG":
        return (one.text.partition("=")[0],)
    return tuple(name.rpartition("/")[2] for name in containerfile.copied(one))


def _uses(run: Instruction, name: str) -> bool:
    return name in run.variables or (not name.isupper() and name in run.text)


RULES: tuple[Rule, ...] = (
    Rule(
        name="base",
        wanted=f"a base by its digest, or ${{{BASE}}}, which the manifest or the owner gives by digest",
        remedy=f"FROM ${{{BASE}}}",
        judge=_judge_base,
    ),
    Rule(
        name="pip",
        wanted="every package pinned: --require-hashes with a file of the build, NAME==VERSION, or a git commit",
        remedy="pin it, and name the pin in the manifest",
        judge=_judge_pip,
    ),
    Rule(
        name="apt",
        wanted="no recommended packages, no package lists left, and what was installed written down (dpkg-query)",
        remedy="install as images/vllm-dsv41-exl3/Containerfile does",
        judge=_judge_apt,
    ),
    Rule(
        name="pipe",
        wanted="nothing fetched and run in one breath",
        remedy="put the file beside image.yml and COPY it",
        judge=_judge_pipe,
    ),
    Rule(
        name="fetch",
        wanted="nothing fetched without a hash or a commit",
        remedy="put the file beside image.yml and COPY it, or check it with sha256sum -c",
        judge=_judge_fetch,
    ),
    Rule(
        name="secrets",
        wanted="no secret among arguments and variables: they stay in the image's history",
        remedy="give it to the container at its start",
        judge=_judge_secrets,
    ),
    Rule(
        name="files",
        wanted="COPY of exactly the files that the manifest lists",
        remedy="list the file under `files`, or take it out",
        judge=_judge_files,
    ),
    Rule(
        name="arguments",
        wanted=f"one ARG for {BASE} and for each of the manifest's arguments, without a default",
        remedy="write the value into the manifest, with its origin",
        judge=_judge_arguments,
    ),
    Rule(
        name="labels",
        wanted=f"{TITLE} with the manifest's name, and no {DIGEST}, which the build sets",
        remedy=f"LABEL {TITLE}=NAME",
        judge=_judge_labels,
    ),
    Rule(
        name="order",
        wanted="what changes often after what does not: ARG and COPY right before the RUN that uses them",
        remedy="move it down",
        judge=_judge_order,
    ),
)
