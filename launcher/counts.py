"""Counts: flags of the engine that are whole numbers, in the forms that its parser takes. Pure."""

import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"\d+")
_SHORT = re.compile(r"\d+|\d+(\.\d+)?[kmgt]|\d+[KMGT]")
_LENGTH = re.compile(rf"{_SHORT.pattern}|-1|(?i:auto)")

FORMS = {
    "max-model-len": (_LENGTH, "a whole number, one such as 256k or 1M, or auto"),
    "max-num-batched-tokens": (_SHORT, "a whole number, or one such as 8k or 8K"),
    "max-num-seqs": (_PLAIN, "a whole number"),
    "block-size": (_PLAIN, "a whole number"),
}
"""By flag what it may be written as; vLLM 0.32, `human_readable_int` and its kin in vllm/utils/argparse_utils.py."""


def wrong(args: Mapping[str, Any]) -> str:
    """Say which flag of these is no count and what is wanted; empty where all are."""
    for flag, (form, wanted) in FORMS.items():
        value = args.get(flag, 1)
        if type(value) not in {int, str} or not form.fullmatch(str(value).strip()):
            return f"{flag} is {value!r}, wanted {wanted}"
    return ""
