"""Gates on the GPU: it answers, nobody else uses it, and it is not in the hidden slow state."""

from statistics import median

from bootcheck.facts import Gemv, Gpu, NodeFacts, Process, Processes
from bootcheck.floors import Floors
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Seen, is_serving
from sparkctl.line import Node

# vLLM names its workers so (v1/executor/multiproc_executor.py sets the process title).
_RANK_PROCESS = "VLLM::"


def _judge_gpu(gpu: Gpu, _: Node, __: NodeFacts, ___: Floors) -> Seen:
    def shown(value: float | None, unit: str) -> str:
        return f"? {unit}" if value is None else f"{value:g} {unit}"

    state = ", ".join((shown(gpu.sm_mhz, "MHz"), shown(gpu.power_w, "W"), shown(gpu.temperature_c, "°C")))
    return Seen(verdict="pass", measured=f"{gpu.name}, driver {gpu.driver}, {gpu.pstate}, {state}")


def _judge_quiet(processes: Processes, _: Node, facts: NodeFacts, __: Floors) -> Seen:
    if not processes.running:
        return Seen(verdict="pass", measured="no compute process")
    ours = [one for one in processes.running if is_serving(facts) and one.name.startswith(_RANK_PROCESS)]
    foreign = [one for one in processes.running if one not in ours]
    if foreign:
        return Seen(verdict="fail", measured=_named(foreign), hint="stop these processes")
    return Seen(
        verdict="warn", measured=f"{_named(ours)}, of this line", hint="sparkctl down stops this line"
    )


def _named(processes: list[Process]) -> str:
    return ", ".join(f"{one.name} (pid {one.pid})" for one in processes)


def _judge_gemv(gemv: Gemv, _: Node, __: NodeFacts, floors: Floors) -> Seen:
    middle, low, high = median(gemv.blocks), min(gemv.blocks), max(gemv.blocks)
    return Seen(
        verdict="pass" if middle >= floors.gemv_gb_s.value else "fail",
        measured=f"{middle:.0f} GB/s ({low:.0f} to {high:.0f} in {len(gemv.blocks)} blocks)",
        hint="hidden slow state: keep the GPU busy for some minutes or reboot the node, then check again",
    )


GPU = NodeGate(
    name="gpu",
    about="the GPU answers",
    demand=lambda _: Demand(
        wanted="a GPU that answers nvidia-smi", origin="nothing can be served without it"
    ),
    reads=lambda facts: facts.gpu,
    judge=_judge_gpu,
)

GPU_QUIET = NodeGate(
    name="gpu-quiet",
    about="nothing else uses the GPU",
    demand=lambda _: Demand(
        wanted="no compute process",
        origin="another process takes memory and bandwidth and blinds the GPU probes",
    ),
    reads=lambda facts: facts.processes,
    judge=_judge_quiet,
)

GEMV = NodeGate(
    name="gemv",
    about="the GPU is not in the hidden slow state",
    demand=lambda floors: Demand(
        wanted=f"a median of at least {floors.gemv_gb_s.value:g} GB/s", origin=floors.gemv_gb_s.origin
    ),
    reads=lambda facts: facts.gemv,
    judge=_judge_gemv,
)

DRIVER_PARITY = ParityGate(
    name="driver-parity",
    about="every rank has the same driver",
    demand=lambda _: Demand(
        wanted="the same driver on every node",
        origin="the hidden slow state came with some drivers only (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1)",
    ),
    reads=lambda facts: facts.gpu.driver if isinstance(facts.gpu, Gpu) else None,
    show=str,
    verdict="warn",
)
