"""What logs tell of known troubles: the name, the figures, the remedy, and never a figure that is not there."""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import progress
from launcher.diagnosis import TROUBLES, Diagnosis, explain, explain_all
from launcher.progress import RankProgress
from launcher.troubles.memory import highest_utilisation

CASES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "logs").glob("*.json"))
}


@pytest.mark.parametrize("name", CASES)
def test_a_log_is_recognised(name: str) -> None:
    """Each log leads to its trouble; the figures that help are in what is said, and the remedy in the hint."""
    case = CASES[name]
    found = explain(case["text"])
    assert found is not None
    assert (found.name, found.kind) == (case["trouble"], case["kind"])
    assert [text for text in case["says"] if text not in found.said] == []
    assert [text for text in case["hints"] if text not in found.hint] == []
    assert found.is_fault == (case["kind"] == "fault")


def test_every_trouble_has_a_case_and_a_source() -> None:
    """A trouble that no text leads to is untested, and one without a source is a rumour."""
    assert {trouble.name for trouble in TROUBLES} == {case["trouble"] for case in CASES.values()}
    assert all(trouble.source for trouble in TROUBLES)


def test_names_are_unique_and_what_is_wrong_has_a_remedy() -> None:
    """A name means one trouble; a fault or warning says what to do."""
    assert len({trouble.name for trouble in TROUBLES}) == len(TROUBLES)
    found = [explain(case["text"]) for case in CASES.values()]
    assert all(one and (one.hint or one.kind == "information") for one in found)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("engine_ended", "vllm_admission_new"), "memory-admission"),
        (("diststore_1of2", "hf_validation"), "model-path-absent"),
        (("diststore_1of2", "worker_died"), "worker-died"),
        (("shm_broadcast_dead_link", "dmesg_cx7_aer"), "nic-lost"),
        (("nccl_watchdog", "nccl_retry_exc"), "retries-exceeded"),
        (("worker_died", "earlyoom_journal"), "killed-by-user-space"),
        (("vllm_free_memory_info", "nccl_ib_good", "engine_ended"), "engine-ended"),
        (("shm_broadcast_compiling", "kv_derived_two_boots", "ptxas_sm121a"), "ptxas-too-old"),
        (("log_api_key", "worker_died"), "worker-died"),
        (("probe_401", "log_api_key"), "key-in-log"),
    ],
)
def test_the_cause_is_told_before_its_consequences(names: tuple[str, ...], told: str) -> None:
    """Of several troubles the root comes first, whatever the order of the lines; information never wins over a fault."""
    for order in (names, names[::-1]):
        found = explain([line for name in order for line in CASES[name]["text"]])
        assert found is not None
        assert found.name == told


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"] != "fault"])
def test_what_is_no_fault_is_not_called_one(name: str) -> None:
    """No line of a good boot makes a fault."""
    assert [one.name for one in explain_all(CASES[name]["text"]) if one.is_fault] == []


def test_a_healthy_boot_has_no_fault() -> None:
    """Start check, RDMA, a long compilation and the size of the cache together are a good boot."""
    names = ("vllm_free_memory_info", "nccl_ib_good", "shm_broadcast_compiling", "kv_derived_two_boots")
    found = explain_all([line for name in names for line in CASES[name]["text"]])
    assert {one.kind for one in found} == {"information"}
    assert {one.name for one in found} == {"memory-at-start", "nccl-on-rdma", "compiling", "kv-size"}


def test_nothing_known_is_nothing_said() -> None:
    """An empty log and an unknown one explain nothing."""
    assert explain([]) is None
    assert explain(["", "something new happened", "RuntimeError: never seen before"]) is None


def test_the_key_itself_is_never_told() -> None:
    """What is said of a log with a key does not repeat it."""
    told = explain_all(CASES["log_api_key"]["text"])
    assert told
    assert all("EXAMPLE" not in f"{one.said} {one.hint}" for one in told)


@pytest.mark.parametrize("shown", ["'api_key': None", "'api_key': []", "'api_key': ''", "'api_key': [None]"])
def test_no_key_is_no_key(shown: str) -> None:
    """A start line without a key is no warning, and neither is a usage text."""
    assert explain(["usage: vllm serve [--api-key API_KEY [API_KEY ...]]"]) is None
    assert explain([f"non-default args: {{'host': '0.0.0.0', {shown}, 'model': 'm'}}"]) is None


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        # The admission would pass, or the need is more than there is: figures that contradict the sentence.
        (CASES["vllm_admission_new"]["text"][0].replace("55.91", "95.91"), "less memory available than"),
        (CASES["vllm_admission_new"]["text"][0].replace("119.58", "0"), "less memory available than"),
        (
            CASES["vllm_admission_new"]["text"][0].replace("55.91/119.58", "55,91/119,58"),
            "less memory available than",
        ),
        (CASES["kv_short"]["text"][1].replace("22.56", "92.56"), "cannot hold one request"),
        (CASES["nccl_retry_exc"]["text"][0].replace("reqSize=8388608 ", ""), "of a message from"),
        (CASES["exec_format"]["text"][1], "another architecture"),
        (CASES["dmesg_cx7_aer"]["text"][2], "was lost: 0000:01:00.0"),
        (
            CASES["tcpstore_client_timeout"]["text"][0].replace("600000ms", "10 Minuten"),
            "did not answer this rank in time",
        ),
    ],
)
def test_what_cannot_be_read_is_left_out(said: str, wanted: str) -> None:
    """A text whose figures are missing, foreign or absurd still names its trouble, without figures."""
    found = explain([said])
    assert found is not None
    assert wanted in found.said
    assert not found.figures.keys() & {"have_gib", "need_gib", "waited_s", "bytes", "stuck_s"}


def test_the_estimate_of_a_length_is_used_only_if_it_can_be() -> None:
    """A length that is not shorter than the one refused is no way out; the other way out is still told."""
    found = explain([CASES["kv_short"]["text"][1].replace("190208", "290208")])
    assert found is not None
    assert "max-model-len" not in found.hint
    assert "memory.utilisation by 0.01" in found.hint


def test_a_shortage_behind_the_decimals_has_its_ceiling() -> None:
    """Where both figures print alike, less than 0.01 GiB is missing and the ceiling is one step lower."""
    line = CASES["vllm_admission_new"]["text"][0].replace("55.91", "59.79")
    found = explain([line])
    assert found is not None
    assert found.figures["passes"] == 0.49


def test_the_total_of_the_log_is_preferred() -> None:
    """A step of utilisation is reckoned of the node's own total when the log names it."""
    lines = [*CASES["vllm_admission_old"]["text"], *CASES["kv_short"]["text"]]
    told = {one.name: one for one in explain_all(lines)}
    assert "of 79.25 GiB)" in told["kv-short"].hint


def test_the_rank_with_least_memory_decides() -> None:
    """Of two ranks' start checks the lower ceiling is told: a utilisation is one number for the line."""
    first = CASES["vllm_admission_new"]["text"][0]
    found = explain([first, first.replace("55.91", "40.00")])
    assert found is not None
    assert found.figures["passes"] == 0.33


@given(total=st.integers(100, 13000), data=st.data())
def test_the_highest_utilisation_passes_and_the_next_does_not(total: int, data: st.DataObject) -> None:
    """The ceiling times the total is there, whatever two decimals hide; one step more is not."""
    have_gib, total_gib = data.draw(st.integers(0, total)) / 100, total / 100
    passes = highest_utilisation(have_gib, total_gib)
    assert 0 <= passes <= 1
    assert passes * (total_gib + 0.005) <= max(have_gib - 0.005, 0) + 1e-9
    assert (passes + 0.01) * (total_gib + 0.005) > have_gib - 0.005 - 1e-9


def test_a_cut_number_is_no_difference_between_ranks() -> None:
    """Two ranks with the same count, the second cut off in its middle, do not disagree."""
    first, second = CASES["blocks_disagree"]["text"]
    same = second.replace("2055", "2111")
    assert explain([first, same]) is None
    assert all(explain([first, same[:-cut]]) is None for cut in range(1, 4))


def test_sockets_that_were_opened_beside_rdma_are_no_fall_back() -> None:
    """An NCCL that opens its sockets and then chooses RDMA is sound; one that chooses sockets is not, whatever it opened."""
    opened = "node-a:301:344 [0] NCCL INFO NET/Socket : Using [0]enP7s7:192.0.2.10<0>"
    good = CASES["nccl_ib_good"]["text"]
    assert [one.name for one in explain_all([opened, *good])] == ["nccl-on-rdma"]
    chosen = "node-a:301:344 [0] NCCL INFO Using network Socket"
    assert explain_all([*good, opened, chosen])[0].name == "nccl-on-sockets"


def test_every_failed_transfer_is_one_to_whoever_reads_the_log() -> None:
    """A log that tells of a dead link neither waits for workers nor compiles, and its rank is given up soon."""
    for line in CASES["shm_broadcast_dead_link"]["text"]:
        if "NCCL WARN" not in line:
            continue
        wait = "(EngineCore pid=1) INFO [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds."
        assert [one.name for one in explain_all([wait, line])] == ["link-dead"]
        assert progress.take(RankProgress(node="n", name="r", since_s=0.0, spoke_s=0.0), line, 1.0).broken
    sound = "n:1:1 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=IBV_WC_SUCCESS(0)"
    assert explain([sound]) is None


def test_colours_and_progress_bars_do_not_hide_a_trouble() -> None:
    """A log as a terminal got it, with escapes and carriage returns, reads like a plain one."""
    bar, error = CASES["safetensor_eof"]["text"]
    found = explain([f"(Worker pid=1) \rLoading: 0%\r\x1b[32m{bar}\x1b[0m\r\n", f"\x1b[1;31m{error}\x1b[0m"])
    assert found is not None
    assert found.figures == {"done": 17.0, "shards": 41.0}


# What is reckoned from other figures, and how: anything else must stand in the text.
DERIVED: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "gap_gib": lambda one: one["need_gib"] - one["have_gib"],
    "passes": lambda one: highest_utilisation(one["have_gib"], one["total_gib"]),
    "pin_gib": lambda one: math.ceil(round(one["need_gib"] * 10, 6)) / 10,
}
# Reckoned from the text by a unit, by counting or by blocks: checked by the cases above.
CONVERTED = {
    "resident_gib",
    "wanted_gib",
    "free_gib",
    "waited_s",
    "bytes",
    "more",
    "fits",
    "times",
    "functions",
    "devices",
}
# Numbers of the sentences themselves.
WORDS = {"128", "121.69", "660", "13", "2", "0600", "400", "25", "1", "64"}
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*", re.ASCII)
_TOLD_NUMBER = re.compile(r"(?<![A-Za-z_0-9.,])" + _NUMBER.pattern, re.ASCII)


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text))


def _invented(one: Diagnosis, text: str) -> set[str]:
    """Return the numbers in what is told that neither stand in the text nor are figures or words of the table."""
    shown = {form(abs(value)) for value in one.figures.values() for form in _FORMS}
    return set(_TOLD_NUMBER.findall(f"{one.said} {one.hint}")) - _numbers(text) - shown - WORDS


_FORMS: tuple[Callable[[float], str], ...] = (
    lambda value: f"{value:.2f}",
    lambda value: f"{value:.1f}",
    lambda value: f"{value:.0f}",
    lambda value: f"{value:g}",
    lambda value: f"{value / 1024**2:.1f}",
)


def _check(text: str) -> None:
    found = explain_all(text.split("\n"))
    values = {float(number.replace(",", "")) for number in _numbers(text) if number.count(".") < 2}
    for one in found:
        assert _invented(one, text) == set(), one
        assert all(math.isfinite(value) for value in one.figures.values())
        for name, value in one.figures.items():
            if name in DERIVED:
                assert value == DERIVED[name](one.figures)
            elif name not in CONVERTED:
                assert abs(value) in values, f"{name} of {one.name}"


TEXTS = st.sampled_from(["\n".join(case["text"]) for case in CASES.values()])


@given(text=TEXTS, data=st.data())
def test_a_cut_log_gives_no_made_up_figure(text: str, data: st.DataObject) -> None:
    """Cut anywhere at either end, a log is told with its own figures or without any."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    _check(text[start:end])


@given(text=TEXTS, data=st.data())
def test_a_foreign_or_torn_log_gives_no_made_up_figure(text: str, data: st.DataObject) -> None:
    """Decimal commas, other digits, lost and inserted pieces change figures or take them away; they never invent one."""
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        gap = data.draw(st.integers(0, 12))
        piece = data.draw(
            st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
            | st.sampled_from(["%", "{}", "-", "9" * 30])
        )
        text = text[:at] + piece + text[at + gap :]
    if data.draw(st.booleans()):
        text = re.sub(r"(?<=[0-9])\.(?=[0-9])", ",", text)
    _check(text)


@given(lines=st.lists(st.text(max_size=200), max_size=8))
def test_any_text_is_taken(lines: list[str]) -> None:
    """Whatever a log holds, the answer is a value."""
    assert all(isinstance(one, Diagnosis) for one in explain_all(lines))
