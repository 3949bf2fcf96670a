"""Gates on what is left: containers, engine processes, ports and shared memory that a new boot would trip over. Pure."""

from collections.abc import Iterator

from bootcheck.facts import Unread
from bootcheck.gates import engines as engines_of
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.gates.ownership import Ownership
from bootcheck.probes.container import Container, Containers
from bootcheck.probes.gpu import Processes
from bootcheck.probes.listeners import Listener, Listeners, SharedMemory, is_everywhere
from bootcheck.probes.processes import ProcessTable, Running, is_engine
from sparkctl.units import GIB, duration, gib, times


def _judge_leftovers(containers: Containers, _: View) -> Seen:
    shown = ", ".join(_state(one) for one in containers.found)
    return Seen(verdict="warn" if containers.found else "pass", measured=shown or "none")


def _state(one: Container) -> str:
    ended = "" if one.is_alive or not one.exit_code else f" with {one.exit_code}"
    killed = ", out of memory" if one.is_oom_killed else ""
    return f"{one.name} ({one.state}{ended}{killed})"


def _judge_containers(containers: Containers, view: View) -> Seen:
    rivals = _rivals(containers, view)
    # A rank that ended is removed by a boot, and a stranger's past restarts harm nobody once it does not come back.
    faults = [fault for one in containers.found if one.is_alive for fault in _faults_of_rank(one)]
    faults += [f"{_restarted(one)} ({one.restart_policy})" for one in rivals if one.state == "restarting"]
    again = [one for one in rivals if one.restarts_itself]
    wide = [
        f"{one.name} may fill {gib(one.shared or 0)} of shared memory"
        for one in rivals
        if _is_wide(one, view)
    ]
    if faults:
        return Seen(verdict="fail", measured="; ".join(faults), hint=_REGROUP)
    if again or wide:
        told = [_describe_policy(one) for one in again]
        hint = _tame(again) or "start it with a smaller --shm-size, or stop it while the line serves"
        return Seen(verdict="warn", measured="; ".join((*told, *wide)), hint=hint)
    others = len(containers.foreign)
    return Seen(verdict="pass", measured=f"{others} of others, none that wants the GPU and starts by itself")


def _faults_of_rank(one: Container) -> Iterator[str]:
    if one.restarts_itself:
        yield f"{one.name} is a rank with restart policy {one.restart_policy}"
    if one.restarts:
        yield _restarted(one)


def _restarted(one: Container) -> str:
    return f"{one.name} was restarted {times(one.restarts)}"


def _describe_policy(one: Container) -> str:
    past = f" and was restarted {times(one.restarts)}" if one.restarts and one.is_alive else ""
    return f"{one.name} ({one.state or 'state not told'}) has restart policy {one.restart_policy}{past}"


def _tame(again: list[Container]) -> str:
    """Say how each stays away: a living one keeps running without its policy, one that ended may go."""
    living = " ".join(one.name for one in again if one.is_alive)
    ended = " ".join(one.name for one in again if not one.is_alive)
    said = (
        f"docker update --restart=no {living}" if living else "",
        f"docker rm {ended}, or docker update --restart=no {ended}" if ended else "",
    )
    return "; ".join(one for one in said if one)


def _rivals(containers: Containers, view: View) -> tuple[Container, ...]:
    """Containers of others that run this image, or that have the GPU or may have it."""
    return tuple(
        one for one in containers.foreign if one.uses_gpu is not False or one.image == view.needs.image
    )


def _is_wide(one: Container, view: View) -> bool:
    return one.is_alive and one.ipc != "host" and (one.shared or 0) > view.floors.rank_shared_gib.value * GIB


def _judge_engines(table: ProcessTable, view: View) -> Seen:
    engines = [one for one in table.running if one.is_engine]
    ending = engines_of.ending(view.facts)
    if odd := [row for row in table.unread if any(is_engine(word) for word in row.split())]:
        hint = "run ps -eo pid=,ppid=,etimes=,rss=,args= on the node"
        return Seen(verdict="unknown", measured=f"a row of ps that cannot be read: {odd[0][:120]}", hint=hint)
    leaving = [one for one in table.running if one.is_ending]
    if not engines and not ending and not leaving:
        return Seen(verdict="pass", measured="no engine process")
    owners = Ownership.of(view)
    if owners is None:
        told = _listed(engines, view) or engines_of.named((*ending, *leaving))
        return Seen(verdict="unknown", measured=f"{told}: whose they are cannot be told")
    strays = [one for one in engines if not owners.is_ours(one.pid)]
    if strays:
        # Settling stops this line alone: what is not its own stays.
        return Seen(
            verdict="fail",
            measured=_listed(strays, view, owners),
            hint=_end(strays, owners),
            settles=False,
        )
    if (ending or leaving) and not owners.ranks:
        told = f"the GPU still lists {engines_of.named(ending)}" if ending else engines_of.named(leaving)
        return Seen(verdict="fail", measured=f"not released yet: {told}", hint=engines_of.WAIT)
    return Seen(verdict="pass", measured=f"{len(engines)} engine processes, of this line")


def _listed(engines: list[Running], view: View, owners: Ownership | None = None) -> str:
    return "; ".join(_describe(one, view, owners) for one in engines)


def _describe(one: Running, view: View, owners: Ownership | None) -> str:
    container = owners.container(one.pid) if owners else None
    inside = f" in the container {container.name}" if container else ""
    return f"{one.name} (pid {one.pid}{inside}), {duration(one.age_s)} old, {_held(one, view)}"


def _held(one: Running, view: View) -> str:
    processes = view.facts.one(Processes)
    listed = () if isinstance(processes, Unread) else processes.running
    on_gpu = next((each for each in listed if each.pid == one.pid), None)
    if on_gpu is None:
        return f"{gib(one.memory)} resident"
    return "? GiB on the GPU" if on_gpu.memory is None else f"{gib(on_gpu.memory)} on the GPU"


def _end(strays: list[Running], owners: Ownership) -> str:
    """Say how their owner ends them; sparkctl ends nothing that it did not start."""
    found = [(one.pid, owners.container(one.pid)) for one in strays]
    names = sorted({inside.name for _, inside in found if inside and not inside.line})
    pids = [str(pid) for pid, inside in found if not inside]
    commands = [
        f"sparkctl down --line {line}" for line in sorted({one.line for _, one in found if one and one.line})
    ]
    commands += [f"docker stop {' '.join(names)}"] if names else []
    commands += [f"kill {' '.join(pids)}"] if pids else []
    return (
        f"if they are yours: {' and '.join(commands)}, then check again; sparkctl ends only what it started"
    )


def _judge_ports(listeners: Listeners, view: View) -> Seen:
    line = view.scene.line
    wanted = {line.master_port: ("master port", "")}
    if view.node.rank == 0:
        wanted[line.api_port] = ("API port", line.api_host)
    held = [(one, *wanted[one.port]) for one in listeners.found if one.port in wanted]
    held = [(one, what, bind) for one, what, bind in held if _collides(one, bind)]
    owners = Ownership.of(view)
    taken = [(one, what) for one, what, _ in held if owners is None or not owners.is_ours(one.pid)]
    if not taken:
        ours = "held by a rank of this line" if held else "free"
        return Seen(verdict="pass", measured=f"{' and '.join(str(port) for port in sorted(wanted))} {ours}")
    told = "; ".join(f"{what}: {one.shown}" for one, what in taken)
    if owners is None:
        return Seen(verdict="unknown", measured=f"{told}; whether it is a rank of ours cannot be told")
    return Seen(verdict="fail", measured=told)


def _collides(one: Listener, bind: str) -> bool:
    """Whether a listener is in the way of one that binds there; an empty address is every address."""
    return one.is_wildcard or not bind or is_everywhere(bind) or one.address == bind


def _judge_shared(shared: SharedMemory, view: View) -> Seen:
    floors = view.floors
    used = shared.used > floors.shared_memory_gib.value * GIB
    wide = view.needs.shared_gib > floors.rank_shared_gib.value
    largest = sorted(shared.segments, key=lambda one: -one.size)[:3]
    named = ", ".join(f"{one.name} of {one.owner} ({gib(one.size)})" for one in largest)
    measured = f"{gib(shared.used)} used" + (f": {named}" if used and named else "")
    if wide:
        measured += f"; the recipe lets a rank fill {view.needs.shared_gib} GiB of shared memory"
    hint = f"set memory.shared_gib to {floors.rank_shared_gib.value:g} or less" if wide and not used else ""
    if used and _is_shared(view):
        hint = "a rank of this line that runs shares it (--ipc host): sparkctl down, then look again"
    return Seen(verdict="warn" if used or wide else "pass", measured=measured, hint=hint)


def _is_shared(view: View) -> bool:
    """Whether a rank lives that shares the node's /dev/shm; those that sparkctl starts now have their own."""
    containers = view.facts.one(Containers)
    return not isinstance(containers, Unread) and any(
        one.is_alive and one.ipc == "host" for one in containers.found
    )


_REGROUP = (
    "docker update --restart=no NAME, and stop it; two deaths in a row mean: look why before it starts again"
)

GATES = (
    NodeGate(
        name="leftovers",
        section="leftovers",
        about="no rank of an earlier boot is left",
        demand=lambda _: Demand(
            wanted="no container of this line",
            origin="a worker that meets a stale head hangs the new boot (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        ),
        remedy="sparkctl down removes them; a boot does so once its checks have passed",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",),
        reads=reading(Containers),
        judge=_judge_leftovers,
        worst="warn",
    ),
    NodeGate(
        name="containers",
        section="leftovers",
        about="no rank restarts by itself, and no other container that wants the GPU does",
        demand=lambda floors: Demand(
            wanted="no restart policy and no restart where the GPU is wanted, "
            f"at most {floors.rank_shared_gib.value:g} GiB of shared memory each",
            origin="a restart policy made 35 restarts and an outage of one failed boot: two deaths mean regroup "
            "(eugr/spark-vllm-docker#257, reported)",
        ),
        remedy="docker update --restart=no NAME",
        troubles=(
            "eugr/spark-vllm-docker#257",
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31",
        ),
        reads=reading(Containers),
        judge=_judge_containers,
    ),
    NodeGate(
        name="engine-processes",
        section="leftovers",
        about="no engine outlived its container, and the GPU was given back",
        demand=lambda _: Demand(
            wanted="no engine process but those of a rank that runs",
            origin="an orphan held 104 GB after its server was killed (vllm-project/vllm#55510, reported)",
        ),
        remedy="let their owner end them, or wait until the GPU was given back",
        troubles=(
            "vllm-project/vllm#55510",
            "Blackwellboy/model-serving-minefield PR#53",
            "getainode/ainode PR#63",
        ),
        settles=True,
        reads=reading(ProcessTable),
        judge=_judge_engines,
    ),
    NodeGate(
        name="ports",
        section="leftovers",
        about="API and rendezvous port are free, or held by a rank of this line",
        demand=lambda _: Demand(
            wanted="the API port on the head and the master port on every node free",
            origin="a new worker joins whatever listens on the master port "
            "(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
        ),
        remedy="stop that process, or give the line another api_port or master_port in the inventory",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark",),
        reads=reading(Listeners),
        judge=_judge_ports,
    ),
    NodeGate(
        name="shared-memory",
        section="leftovers",
        about="little lies in /dev/shm, and a rank may not fill much",
        demand=lambda floors: Demand(
            wanted=f"at most {floors.shared_memory_gib.value:g} GiB in /dev/shm, and "
            f"{floors.rank_shared_gib.value:g} GiB for a rank",
            origin=f"{floors.shared_memory_gib.origin}; {floors.rank_shared_gib.origin}",
        ),
        remedy="remove what no process maps any more (fuser -v /dev/shm/*); none of it is ours, ranks have their own",
        troubles=(
            "sgl-project/sglang#28089",
            "MiaAI-Lab/Qwen3.8-Flash-Next-Single-DGX-Spark PR#41",
            "llm-d/llm-d PR#364",
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31",
        ),
        reads=reading(SharedMemory),
        judge=_judge_shared,
        worst="warn",
    ),
)
