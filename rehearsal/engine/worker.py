"""A headless rank: joins the head, loads with it, and ends when it ends."""

from rehearsal.engine import stages
from rehearsal.engine.life import Failed, Life
from rehearsal.engine.meeting import Gone, Missing, join


async def follow(life: Life) -> None:
    """Live a headless rank's life; returning is a clean exit."""
    address, port = life.address
    life.journal.info(
        "serve.py:112",
        f"Launching vLLM (v0.33.0) headless multiproc executor, with head node address {address}:{port} for "
        "torch.distributed process group.",
    )
    try:
        head = await join(address, port, life.hello(), life.limit_s)
    except Missing as fault:
        text = f"The client socket has timed out after {life.limit_s * life.law.pace * 1000:.0f}ms while trying to connect to"
        raise Failed(f"torch.distributed.DistNetworkError: {text} ({address}, {port}).") from fault
    try:
        await head.hear()  # all are there
    except Gone as fault:
        raise Failed(
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed."
        ) from fault
    try:
        await stages.load(life)
        await stages.profile(life)
        head.tell({"loaded": True})
        kv = float((await head.hear())["kv"])
        await stages.capture(life, kv)
        head.tell({"ready": True})
        while True:
            told = await head.hear()
            life.show(life.plan.used(kv), int(told["running"]), frozen=bool(told["frozen"]))
            if told["slow"]:
                life.turn_slow()
    except Gone:
        life.journal.warning("multiproc_executor.py:820", "Parent process exited, terminating worker")
