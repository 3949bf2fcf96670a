"""Gates on the GPU: it answers, nobody else uses it, and it is not in the hidden slow state."""

from statistics import median

from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.probes.gpu import Gemv, Gpu, Process, Processes

# vLLM names its workers so (v1/executor/multiproc_executor.py sets the process title).
_RANK_PROCESS = "VLLM::"


def _judge_gpu(gpu: Gpu, _: View) -> Seen:
    def shown(value: float | None, unit: str) -> str:
        return f"? {unit}" if value is None else f"{value:g} {unit}"

    state = ", ".join((shown(gpu.sm_mhz, "MHz"), shown(gpu.power_w, "W"), shown(gpu.temperature_c, "°C")))
    return Seen(verdict="pass", measured=f"{gpu.name}, driver {gpu.driver}, {gpu.pstate}, {state}")


def _judge_quiet(processes: Processes, view: View) -> Seen:
    if not processes.running:
        return Seen(verdict="pass", measured="no compute process")
    ours = [one for one in processes.running if view.is_serving and one.name.startswith(_RANK_PROCESS)]
    foreign = [one for one in processes.running if one not in ours]
    if foreign:
        return Seen(verdict="fail", measured=_named(foreign))
    return Seen(
        verdict="warn", measured=f"{_named(ours)}, of this line", hint="sparkctl down stops this line"
    )


def _named(processes: list[Process]) -> str:
    return ", ".join(f"{one.name} (pid {one.pid})" for one in processes)


def _judge_gemv(gemv: Gemv, view: View) -> Seen:
    middle, low, high = median(gemv.blocks), min(gemv.blocks), max(gemv.blocks)
    return Seen(
        verdict="pass" if middle >= view.floors.gemv_gb_s.value else "fail",
        measured=f"{middle:.0f} GB/s ({low:.0f} to {high:.0f} in {len(gemv.blocks)} blocks)",
    )


GATES = (
    NodeGate(
        name="gpu",
        section="gpu",
        about="the GPU answers",
        demand=lambda _: Demand(
            wanted="a GPU that answers nvidia-smi", origin="nothing can be served without it"
        ),
        remedy="run nvidia-smi on the node; a driver that does not answer needs a reboot",
        reads=reading(Gpu),
        judge=_judge_gpu,
    ),
    NodeGate(
        name="gpu-quiet",
        section="gpu",
        about="nothing else uses the GPU",
        demand=lambda _: Demand(
            wanted="no compute process",
            origin="another process takes memory and bandwidth and blinds the GPU probes",
        ),
        remedy="stop these processes",
        troubles=("getainode/ainode PR#63",),
        reads=reading(Processes),
        judge=_judge_quiet,
    ),
    NodeGate(
        name="gemv",
        section="gpu",
        about="the GPU is not in the hidden slow state",
        demand=lambda floors: Demand(
            wanted=f"a median of at least {floors.gemv_gb_s.value:g} GB/s", origin=floors.gemv_gb_s.origin
        ),
        remedy="hidden slow state: keep the GPU busy for some minutes or reboot the node, then check again",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1",),
        needs_quiet=True,
        reads=reading(Gemv),
        judge=_judge_gemv,
    ),
)
