"""What benchmarks/plugin_gpu.py found: log-probabilities held against each other, what that must look like, and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

NOISE = 0.05
"""Nats a token on the mean by which a read may be further from float32 than stock vLLM in bf16 is. Ours: the same as of the tests on the CPU."""
ANOTHER = 1.0
"""Nats a token on the mean from which on it is another model."""
Answers = Mapping[str, dict[str, Any]]


def apart(one: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return by how many nats the same tokens differ, over all requests: on the mean and at the most, of replies and of prompts."""
    answer = {}
    for name, key in (("decode", "logprobs"), ("prefill", "prompt")):
        pairs = zip(one["replies"], other["replies"], strict=True)
        gaps = [abs(mine - its) for first, second in pairs for mine, its in zip(first[key], second[key], strict=True)]  # fmt: skip
        answer |= {f"{name}_mean": sum(gaps) / len(gaps), f"{name}_most": max(gaps)}
    return answer


def agreeing(one: dict[str, Any]) -> float:
    """Return the share of the given tokens that it would have said itself."""
    first = [told for reply in one["replies"] for told in reply["first"]]
    return sum(first) / len(first)


def compared(answers: Answers) -> dict[str, dict[str, Any]]:
    """Return of every case that ended what it is apart from float32, from stock vLLM and, read by half, from read whole."""
    answer: dict[str, dict[str, Any]] = {}
    for name, told in answers.items():
        if "failed" in told:
            continue
        form = name.split("-")[0]
        found: dict[str, Any] = {"agreeing": agreeing(told)}
        others = {
            "exact": f"{form}-exact-eager",
            "stock": f"{form}-stock-eager",
            "whole": name.replace("-half-", "-whole-"),
        }
        for against, other in others.items():
            if "replies" in answers.get(other, {}):
                found[against] = apart(told, answers[other])
        answer[name] = found
    return answer


def faults(answers: Answers) -> list[str]:
    """Return what is not as it must be."""
    answer = [f"{name}: did not end: {told['failed'].splitlines()[-1:]}" for name, told in answers.items() if "failed" in told]  # fmt: skip
    gaps = compared(answers)
    for name in gaps:
        form, way, _ = name.split("-")
        if way in {"plain", "whole", "half"} and "exact" in gaps.get(f"{form}-stock-eager", {}):
            answer += _near(name, gaps[name]["exact"], gaps[f"{form}-stock-eager"]["exact"])
        if way == "half" and "whole" in gaps[name] and gaps[name]["whole"]["decode_mean"] > NOISE:
            answer.append(
                f"{name}: {gaps[name]['whole']['decode_mean']:.4f} nats from read whole, wanted {NOISE} or less"
            )
        if way == "wrong" and "exact" in gaps[name]:
            off = gaps[name]["exact"]["decode_mean"]
            answer += [] if off >= ANOTHER else [f"{name}: {off:.3f} nats from float32, wanted {ANOTHER} or more: it reads another half"]  # fmt: skip
        if way in {"plain", "whole", "half", "wrong"} and not answers[name]["said"]:
            answer.append(f"{name}: the plug-in said nothing, wanted its line that it is on")
        answer += _bytes(name, way, answers[name])
    return answer + _sums(answers)


def _near(name: str, mine: Mapping[str, float], stock: Mapping[str, float]) -> list[str]:
    answer = []
    for what in ("decode_mean", "prefill_mean"):
        most = stock[what] + NOISE
        if mine[what] > most:
            answer.append(f"{name}: {what} {mine[what]:.4f} nats from float32, wanted {most:.4f} or less")
    return answer


def _bytes(name: str, way: str, told: Mapping[str, Any]) -> list[str]:
    said = told.get("accounts")
    if said is None:
        return []
    share = {"whole": 1.0, "half": 0.5, "wrong": 0.5}[way]
    found = sum(said["read"]) / max(1.0, sum(said["whole"]))
    return (
        [] if abs(found - share) < 1e-9 else [f"{name}: {found:.4f} of the bytes were read, wanted {share}"]
    )


def _sums(answers: Answers) -> list[str]:
    """A graph must leave the accounts of the same numbers without one, to the last bit; other numbers (attention may be cut otherwise) cost otherwise."""
    answer = []
    for name, told in answers.items():
        other = answers.get(name.replace("-eager", "-graph"), {})
        if name.endswith("-eager") and "accounts" in told and "accounts" in other and _same(told, other):
            sums = told["accounts"]["checksum"], other["accounts"]["checksum"]
            if sums[0] != sums[1]:
                answer.append(f"{name}: accounts {sums[0]}, in a graph {sums[1]}, wanted the same")
    return answer


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        first["logprobs"] == second["logprobs"]
        for first, second in zip(one["replies"], other["replies"], strict=True)
    )


def table(answers: Answers, wrong: Sequence[str]) -> str:
    """Return all of it as text."""
    gaps = compared(answers)
    rows = [f"{'case':24} {'float32: decode':>16} {'most':>7} {'prefill':>8} {'stock: decode':>14} {'whole: decode':>14} {'same':>6} {'bytes':>6} {'accounts':>9} graphs, kernels"]  # fmt: skip
    for name, told in answers.items():
        if "failed" in told:
            rows.append(f"{name:24} did not end")
            continue
        exact, stock, whole = (gaps[name].get(one, {}) for one in ("exact", "stock", "whole"))
        said = told.get("accounts", {})
        share = f"{sum(said['read']) / max(1.0, sum(said['whole'])):.3f}" if said else "-"
        rows.append(
            f"{name:24} {_number(exact, 'decode_mean'):>16} {_number(exact, 'decode_most'):>7} {_number(exact, 'prefill_mean'):>8}"
            f" {_number(stock, 'decode_mean'):>14} {_number(whole if '-half-' in name else {}, 'decode_mean'):>14} {gaps[name]['agreeing']:>6.3f} {share:>6} {said.get('checksum', '-'):>9}"
            f" {told['compilation']['graphs'].split('.')[-1]} {', '.join(said.get('kernels', ()))}"
        )
    rows += ["", f"{'case':24} {'rows':>5} {'forward us':>11} {'quickest':>9} {'step us':>9} {'steps':>6}"]
    for name, told in answers.items():
        for one in told.get("times", ()):
            rows.append(f"{name:24} {one['rows']:>5.0f} {one['forward_us']:>11.1f} {one['quickest_us']:>9.1f} {one['step_us']:>9.0f} {one['steps']:>6.0f}")  # fmt: skip
    return "\n".join([*rows, "", *(wrong or ["all as it must be"])])


def _number(found: Mapping[str, float], name: str) -> str:
    return f"{found[name]:.4f}" if name in found else "-"
