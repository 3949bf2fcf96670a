"""The head of a practice line: gathers the ranks, loads with them, then serves and watches."""

import asyncio
import time

from rehearsal import model
from rehearsal.engine import ailment, law, memory, stages, stranger
from rehearsal.engine.asked import Served
from rehearsal.engine.front import Front
from rehearsal.engine.journal import Journal
from rehearsal.engine.life import Failed, Life, in_common
from rehearsal.engine.meeting import Gone, Link, Missing, gather
from rehearsal.engine.scheduler import Boot, Scheduler

_WATCH_S = 0.1
_STATS_S = 10.0  # of the line's seconds (VLLM_LOG_STATS_INTERVAL)
_DRAFTS = 5
_STALLED_S = 60.0  # of the line's seconds
_STALLED = (
    "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are "
    "hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
)
"""What vLLM says of ranks that compile and of ranks that hang alike (eugr/spark-vllm-docker#367, reported)."""


async def lead(life: Life) -> None:
    """Live the head's life; it only ends with a fault or with the container."""
    api = Journal("APIServer")
    core = Journal("EngineCore")
    began = time.monotonic()
    api.info("api_server.py:1890", "vLLM API server version 0.33.0")
    api.info("utils.py:253", f"non-default args: {life.argv.settings | {'model': life.argv.model}}")
    if life.argv.is_on("async-scheduling"):
        api.info("vllm.py:1204", "Asynchronous scheduling is enabled.")
    links = await _gathered(life)
    boot = await _booted(life, links, law.next_boot(life.node.root.parent))
    took_s = (time.monotonic() - began) * life.law.pace
    core.info("core.py:310", f"init engine (profile, create kv cache, warmup model) took {took_s:.2f} s")
    scheduler = Scheduler(boot)
    front = Front(scheduler, _served(life))
    address = life.argv.text("host", "0.0.0.0"), life.argv.number("port", 8000)  # noqa: S104 - vLLM's default
    server = await asyncio.start_server(front.serve, *address, limit=2**20, backlog=512)
    api.info("entry.py:88", f"Starting vLLM server on http://{address[0]}:{address[1]}")
    api.plain(f"Started server process [{life.rank}]")
    api.plain("Waiting for application startup.")
    api.plain("Application startup complete.")
    async with server:
        watching = [asyncio.ensure_future(_listen(link, scheduler, core)) for link in links]
        watching.append(asyncio.ensure_future(_watch(life, links, scheduler, Journal("APIServer"))))
        watching.append(asyncio.ensure_future(stranger.ask(scheduler)))
        await scheduler.run()


async def _gathered(life: Life) -> tuple[Link, ...]:
    address, port = life.address
    try:
        return await gather(address, port, life.world, life.limit_s)
    except Missing as fault:
        seconds = life.limit_s * life.law.pace + 1
        text = f"Timed out after {seconds:.0f} seconds waiting for clients. {fault.joined + 1}/{life.world} clients joined."
        raise Failed(f"torch.distributed.DistStoreError: {text}") from fault
    except OSError as fault:
        text = f"The server socket has failed to listen on any local network address. port: {port}"
        raise Failed(
            f"torch.distributed.DistNetworkError: {text}, useIpv6: false, message: {fault.strerror}"
        ) from fault


async def _booted(life: Life, links: tuple[Link, ...], number: int) -> Boot:
    """Load together and size the pool by the rank that has least."""
    for link in links:
        link.tell({"boot": number})
    await stages.load(life)
    effects = [
        life.law.levers[index]
        for index in in_common([life.pulled, *(link.hello["pulled"] for link in links)])
    ]
    if any(lever.breaks == "start" for lever in effects):
        raise Failed("RuntimeError: CUDA error: an illegal memory access was encountered")
    await stages.profile(life)
    await _all_answer(life, links)
    kv = min(life.plan.kv, *(float(link.hello["kv"]) for link in links)) if links else life.plan.kv
    pool = _pool(kv, life)
    for link in links:
        link.tell({"kv": kv})
    await stages.capture(life, kv)
    await _all_answer(life, links)
    speed = model.boot_speed(life.law.noise, life.law.seed, number).times(life.law.speed)
    for lever in effects:
        speed = speed.times(lever.effect)
    return Boot(
        seed=life.law.seed,
        number=number,
        pace=life.law.pace,
        noise=life.law.noise,
        speed=speed,
        gemv_gb_s=min([life.node.gemv_gb_s, *(float(link.hello["gemv_gb_s"]) for link in links)]),
        most_running=life.argv.number("max-num-seqs", 256),
        most_batched=memory.batched(life.argv),
        kv_gib=kv,
        kv_tokens=pool.tokens,
        caches_prefixes=life.argv.is_on("enable-prefix-caching", otherwise=True),
        speculates="speculative-config" in life.argv.settings or "spec-method" in life.argv.settings,
        freezes=any(hello["freezes"] for hello in (life.hello(), *(link.hello for link in links))),
        ails=max(hello["ails"] for hello in (life.hello(), *(link.hello for link in links))),
    )


def _pool(gib: float, life: Life) -> memory.Pool:
    """Size the pool and say what it holds, as vLLM does."""
    pool = memory.pool(gib, life.argv)
    if pool.fault:
        raise Failed(pool.fault)
    Journal("EngineCore").info(
        "kv_cache_utils.py:2306",
        f"GPU KV cache size: {pool.tokens:,} tokens, Maximum concurrency for {pool.longest:,} tokens per request: "
        f"{pool.requests:.2f}x",
    )
    return pool


async def _all_answer(life: Life, links: tuple[Link, ...]) -> None:
    """Wait for every rank, without a limit as vLLM does; the first that has ended ends the line."""
    answers = {asyncio.ensure_future(link.hear()): link for link in links}
    waiting = set(answers)
    while waiting:
        done, waiting = await asyncio.wait(
            waiting, timeout=_STALLED_S / life.law.pace, return_when=asyncio.FIRST_EXCEPTION
        )
        for answer in done:
            fault = answer.exception()
            if fault:
                text = f"Worker proc VllmWorker-{answers[answer].rank} died unexpectedly, shutting down executor."
                raise Failed(f"RuntimeError: {text}") from fault
        if waiting:
            Journal("EngineCore").info("shm_broadcast.py:801", _STALLED)


def _served(life: Life) -> Served:
    """Return what clients see. A lever that garbles does so as soon as one rank has it."""
    return Served(
        name=life.argv.text("served-model-name", life.argv.model),
        model=life.argv.model,
        max_model_len=memory.longest(life.argv),
        garbles=any(life.law.levers[index].breaks == "garble" for index in life.pulled),
        damage=sum(life.law.levers[index].damage for index in life.pulled),
        calls_tools=life.argv.is_on("enable-auto-tool-choice") and "tool-call-parser" in life.argv.settings,
        details=life.argv.is_on("enable-prompt-tokens-details"),
    )


async def _listen(link: Link, scheduler: Scheduler, core: Journal) -> None:
    """Notice a rank's end; the server itself stays up, as vLLM's does."""
    try:
        while True:
            await link.hear()
    except Gone:
        core.error(
            "multiproc_executor.py:262",
            f"Worker proc VllmWorker-{link.rank} died unexpectedly, shutting down executor.",
        )
        scheduler.die()


async def _watch(life: Life, links: tuple[Link, ...], scheduler: Scheduler, api: Journal) -> None:
    """Tell all ranks how busy the line is, and write the engine's own statistics; off the hot path."""
    shown, logged, told = (-1, False, False), time.monotonic(), (0, 0, 0)
    while True:
        slow = ailment.is_slow(scheduler.boot.ails, scheduler.long_tokens)
        now = running, frozen, _ = len(scheduler.running), scheduler.is_frozen, slow
        if now != shown:
            shown = now
            life.show(life.plan.used(scheduler.boot.kv_gib), running, frozen=frozen)
            for link in links:
                link.tell({"running": running, "frozen": frozen, "slow": slow})
            if slow:
                life.turn_slow()
        passed_s = (time.monotonic() - logged) * scheduler.boot.pace
        if passed_s >= _STATS_S:
            logged, told = time.monotonic(), _statistics(scheduler, api, told, passed_s)
        await asyncio.sleep(_WATCH_S)


def _statistics(
    scheduler: Scheduler, api: Journal, told: tuple[int, int, int], passed_s: float
) -> tuple[int, int, int]:
    """Write vLLM's two statistics lines when something was served since the last ones."""
    tally = scheduler.tally
    now = (tally.prompt_tokens, tally.generated_tokens, tally.drafts)
    prompts, generated, drafts = (new - old for new, old in zip(now, told, strict=True))
    if not prompts and not generated and not scheduler.running:
        return now
    api.info(
        "loggers.py:259",
        f"Engine 000: Avg prompt throughput: {prompts / passed_s:.1f} tokens/s, Avg generation throughput: "
        f"{generated / passed_s:.1f} tokens/s, Running: {len(scheduler.running)} reqs, Waiting: {len(scheduler.waiting)} reqs, "
        f"GPU KV cache usage: {scheduler.kv_usage * 100:.1f}%, Prefix cache hit rate: "
        f"{100 * tally.prefix_hits / max(tally.prefix_queries, 1):.1f}%",
    )
    if drafts:
        accepted = sum(tally.accepted_by_position)
        rates = ", ".join(f"{count / tally.drafts:.3f}" for count in tally.accepted_by_position)
        api.info(
            "metrics.py:101",
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / tally.drafts:.2f}, Accepted throughput: "
            f"{(generated - drafts) / passed_s:.2f} tokens/s, Drafted throughput: {drafts * _DRAFTS / passed_s:.2f} tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {tally.drafts * _DRAFTS} tokens, Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * accepted / (tally.drafts * _DRAFTS):.1f}%",
        )
    return now
