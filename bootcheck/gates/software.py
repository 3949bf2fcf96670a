"""Gates on software: docker answers, no kernel that is known to be bad, and the same of everything everywhere."""

from collections.abc import Callable

from bootcheck import known_bad
from bootcheck.facts import F, NodeFacts, Unread
from bootcheck.gates.gate import Demand, NodeGate, ParityGate, Seen, View, reading
from bootcheck.probes.gpu import Gpu
from bootcheck.probes.software import Bios, Docker, Kernel, KernelArguments


def _judge_docker(docker: Docker, view: View) -> Seen:
    told = (facts.one(Docker) for _, facts in view.scene.answering())
    stores = {one.has_containerd_store for one in told if not isinstance(one, Unread)}
    aside = "; other nodes have the other store, where an Id is another thing" if len(stores) > 1 else ""
    return Seen(
        verdict="pass", measured=f"docker {docker.version}, {docker.store}, {docker.architecture}{aside}"
    )


def _read_kernel(facts: NodeFacts) -> tuple[Kernel, KernelArguments | Unread] | Unread:
    kernel = facts.one(Kernel)
    return kernel if isinstance(kernel, Unread) else (kernel, facts.one(KernelArguments))


def _judge_known_bad(found: tuple[Kernel, KernelArguments | Unread], _: View) -> Seen:
    kernel, arguments = found
    known = known_bad.find(kernel.release)
    if known is None:
        return Seen(verdict="pass", measured=f"{kernel.release}, nothing known against it")
    remedy = ", or ".join(known.remedies)
    if isinstance(arguments, Unread):
        measured = f"{kernel.release}, on which {known.breaks}; its arguments are not known: {arguments.why}"
        return Seen(verdict="unknown", measured=measured, hint=f"see cat /proc/cmdline; {remedy}")
    cured = known_bad.cure(known, arguments.words)
    if cured:
        return Seen(verdict="pass", measured=f"{kernel.release} with {cured}, without which {known.breaks}")
    return Seen(
        verdict="fail", measured=f"{kernel.release}, on which {known.breaks} ({known.origin})", hint=remedy
    )


def _telling(kind: type[F], tell: Callable[[F], str]) -> Callable[[NodeFacts], str | None]:
    """Return what reads one fact for a parity gate; what could not be read is another gate's."""

    def read(facts: NodeFacts) -> str | None:
        found = facts.one(kind)
        return None if isinstance(found, Unread) else tell(found)

    return read


GATES = (
    NodeGate(
        name="docker",
        section="parity",
        about="docker answers; which image store it keeps",
        demand=lambda _: Demand(
            wanted="a docker daemon that answers", origin="ranks are containers; nothing starts without it"
        ),
        remedy="see systemctl status docker on the node, and that the user may use docker",
        troubles=("Richard0571/deepseek-v41-dgx-spark-vllm-tp4",),
        reads=reading(Docker),
        judge=_judge_docker,
    ),
    NodeGate(
        name="kernel-known-bad",
        section="parity",
        about="the running kernel is none on which a line cannot work",
        demand=lambda _: Demand(
            wanted="a kernel that is not known to be bad",
            origin="bootcheck/known_bad.py, from public reports such as NVIDIA/NV-Kernels#590",
        ),
        remedy="boot another kernel, or the argument that undoes the fault",
        troubles=(
            "NVIDIA/NV-Kernels#590",
            "NVIDIA/NV-Kernels#591",
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#14",
            "eugr/spark-vllm-docker#389",
            "eugr/spark-vllm-docker#392",
        ),
        reads=_read_kernel,
        judge=_judge_known_bad,
    ),
    ParityGate(
        name="kernel-parity",
        section="parity",
        about="every rank runs the same kernel",
        demand=lambda _: Demand(
            wanted="the same kernel on every node",
            origin="one upgraded kernel under equal drivers ended every boot of a day "
            "(NVIDIA/open-gpu-kernel-modules#1358, reported)",
        ),
        remedy="bring the node to the kernel of the others",
        troubles=("NVIDIA/open-gpu-kernel-modules#1358", "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#14"),
        reads=_telling(Kernel, lambda kernel: kernel.release),
        worst="warn",
    ),
    ParityGate(
        name="driver-parity",
        section="parity",
        about="every rank has the same driver",
        demand=lambda _: Demand(
            wanted="the same driver on every node",
            origin="the hidden slow state came with some drivers only (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1)",
        ),
        remedy="bring the node to the driver of the others",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1",),
        reads=_telling(Gpu, lambda gpu: gpu.driver),
        worst="warn",
    ),
    ParityGate(
        name="docker-parity",
        section="parity",
        about="every rank has the same docker",
        demand=lambda _: Demand(
            wanted="the same docker on every node",
            origin="ours, chosen: no rank's container should start by other rules than the rest",
        ),
        remedy="bring the node to the docker of the others",
        troubles=("NVIDIA/open-gpu-kernel-modules#1358",),
        reads=_telling(Docker, lambda docker: docker.version),
        worst="warn",
    ),
    ParityGate(
        name="bios-parity",
        section="parity",
        about="every rank has the same BIOS",
        demand=lambda _: Demand(
            wanted="the same BIOS on every node",
            origin="the slow fleet had 0ACUM018, the one that never was slow 0ACUM027 "
            "(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1, reported)",
        ),
        remedy="bring the node to the BIOS of the others (fwupdmgr update on DGX OS)",
        troubles=("tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1", "NVIDIA/open-gpu-kernel-modules#1358"),
        reads=_telling(Bios, lambda bios: f"{bios.version} ({bios.product or 'product not told'})"),
        worst="warn",
    ),
)
