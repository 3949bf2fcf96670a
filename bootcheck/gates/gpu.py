"""Gates on the GPU: it answers, nobody else uses it, its clock is not latched, and it is not in the hidden slow state.

Only a load tells its health: at idle a latched GPU shows P0 and no throttle reason, and a locked clock looks like work. Copy
bandwidth is no evidence either.
"""

from statistics import median

from bootcheck.gates import engines
from bootcheck.gates.gate import Demand, NodeGate, Seen, View, reading
from bootcheck.probes.burn import Burn, Gemv
from bootcheck.probes.gpu import Gpu, Processes, Throttle
from bootcheck.probes.processes import is_engine
from sparkctl.units import duration

_HELD = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)


def _judge_gpu(gpu: Gpu, view: View) -> Seen:
    state = ", ".join((_shown(gpu.sm_mhz, "MHz"), _shown(gpu.power_w, "W"), _shown(gpu.temperature_c, "°C")))
    idle = gpu.pstate == "P0" and gpu.utilisation_percent == 0 and gpu.sm_mhz is not None
    is_locked = idle and (gpu.sm_mhz or 0) >= view.floors.burn_sm_mhz.value
    remark = "; idle at a high clock, which says nothing of its health" if is_locked else ""
    return Seen(verdict="pass", measured=f"{gpu.name}, driver {gpu.driver}, {gpu.pstate}, {state}{remark}")


def _shown(value: float | None, unit: str) -> str:
    return f"? {unit}" if value is None else f"{value:g} {unit}"


def _judge_throttle(throttle: Throttle, _: View) -> Seen:
    if throttle.lacking:
        return Seen(verdict="warn", measured=throttle.lacking, hint=_LACKING)
    counters = {
        "hardware thermal": throttle.hw_thermal_us,
        "software thermal": throttle.sw_thermal_us,
        "power brake": throttle.hw_power_brake_us,
    }
    told = ", ".join(f"{name} {_spent(value)}" for name, value in counters.items())
    now = "?" if throttle.reasons is None else ", ".join(throttle.reasons) or "none"
    measured = f"now {now}; since the driver was loaded {told}, power cap {_spent(throttle.sw_power_cap_us)}"
    if throttle.reasons is None or None in counters.values():
        return Seen(verdict="warn", measured=measured, hint=_LACKING)
    held = _HELD & set(throttle.reasons) or any(counters.values())
    return Seen(verdict="warn" if held else "pass", measured=measured)


def _spent(microseconds: int | None) -> str:
    if microseconds is None:
        return "?"
    return duration(microseconds / 1e6) if microseconds else "0 s"


_LACKING = "this driver does not tell; the burn and the GEMV judge the GPU without it"


def _judge_quiet(processes: Processes, view: View) -> Seen:
    if not processes.running:
        return Seen(verdict="pass", measured="no compute process")
    ours = tuple(one for one in processes.running if view.is_serving and is_engine(one.name))
    ending = tuple(one for one in engines.ending(view.facts) if one not in ours)
    foreign = tuple(one for one in processes.running if one not in (*ours, *ending))
    if foreign:
        return Seen(verdict="fail", measured=engines.named(foreign))
    if ending:
        measured = f"{engines.named(ending)}: gone, and the GPU not given back yet"
        return Seen(verdict="fail", measured=measured, hint=engines.WAIT, settles=True)
    hint = "sparkctl down stops this line"
    return Seen(verdict="warn", measured=f"{engines.named(ours)}, of this line", hint=hint)


def _judge_burn(burn: Burn, view: View) -> Seen:
    """Judge each figure that was told by its own floor; one below it is enough, since a latch holds them all down."""
    floors = view.floors
    told = (
        (burn.tflops, floors.burn_tflops),
        (burn.sm_mhz, floors.burn_sm_mhz),
        (burn.power_w, floors.burn_power_w),
    )
    is_latched = any(figures and median(figures) < floor.value for figures, floor in told)
    shown = [
        f"{median(figures):.4g} {floor.unit}" if figures else f"? {floor.unit}" for figures, floor in told
    ]
    heat = f", {median(burn.temperature_c):.0f} °C" if burn.temperature_c else ""
    return Seen(verdict="fail" if is_latched else "pass", measured=f"{', '.join(shown)}{heat} under load")


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
        troubles=(
            "XuehaiPan/nvitop#208",
            "NVIDIA/daqiri#77",
            "tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1",
        ),
        reads=reading(Gpu),
        judge=_judge_gpu,
    ),
    NodeGate(
        name="throttle",
        section="gpu",
        about="neither heat nor the power supply held the clocks down",
        demand=lambda _: Demand(
            wanted="no thermal slowdown and no power brake, now or since the driver was loaded",
            origin="hard power-offs and throttling under load (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146, reported)",
        ),
        remedy="see to airflow, ambient temperature and the power adapter; the counters only grow until a reboot, so compare "
        "two checks",
        troubles=(
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146",
            "parallelArchitect/spark-gpu-throttle-check",
        ),
        reads=reading(Throttle),
        judge=_judge_throttle,
        worst="warn",
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
        troubles=("getainode/ainode PR#63", "vllm-project/vllm#55510"),
        reads=reading(Processes),
        judge=_judge_quiet,
    ),
    NodeGate(
        name="burn",
        section="gpu",
        about="the GPU's clock is not latched",
        demand=lambda floors: Demand(
            wanted=f"at least {floors.burn_tflops.value:g} TFLOPS, {floors.burn_sm_mhz.value:g} MHz and "
            f"{floors.burn_power_w.value:g} W under load",
            origin="; ".join(
                f"{one.unit}: {one.origin}"
                for one in (floors.burn_tflops, floors.burn_sm_mhz, floors.burn_power_w)
            ),
        ),
        remedy="latched clock: shut the node down, unplug its AC adapter for 60 s, start it and check again; reboots and "
        "nvidia-smi do not clear it; a node that stays latched is a case for RMA",
        troubles=(
            "Blackwellboy/model-serving-minefield PR#55",
            "parallelArchitect/spark-gpu-throttle-check",
            "RobTand/prismaquant#488",
        ),
        needs_quiet=True,
        reads=reading(Burn),
        judge=_judge_burn,
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
