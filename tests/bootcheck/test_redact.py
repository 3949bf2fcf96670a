"""No secret survives, and what is harmless does."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootcheck import redact
from bootcheck.facts import Record

# What a secret may look like; the names around it are what gives it away.
# The letters in front keep it from being a piece of the texts below.
SECRET = st.text(alphabet=string.ascii_letters + string.digits + "-_.~+/=", min_size=6, max_size=60).map(
    lambda one: f"Zq7{one}k"
)
NAMES = (
    "HF_TOKEN",
    "VLLM_API_KEY",
    "api_key",
    "api-key",
    "AWS_SECRET_ACCESS_KEY",
    "password",
    "DB_PASSWD",
    "private_key",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
)
# Each is a place in which the field's kits and tools have shown a secret.
ODD = st.text(alphabet=string.ascii_letters + ",;:)}]{[(#$%&*!?@ ", min_size=10, max_size=40).map(
    lambda one: f"Zq7{one}k"
)
PLACES = (
    "{name}={secret}",
    "export {name}={secret}",
    '{name}="{secret}"',
    "{name}: {secret}",
    "non-default args: {{'host': '0.0.0.0', '{name}': ['{secret}'], 'model': 'm'}}",
    '"{name}": "{secret}"',
    '{{"Env": ["PATH=/usr/bin", "{name}={secret}", "NCCL_DEBUG=INFO"]}}',
    '"{{\\"{name}\\": \\"{secret}\\"}}"',
    "docker run -e {name}={secret} image",
    "vllm serve m --{name} {secret} --port 8000",
    "vllm serve m --{name}={secret}",
    "41800 1 12 3412 vllm serve m --{name} {secret}",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
@given(secret=SECRET)
def test_no_secret_survives_beside_its_name(place: str, name: str, secret: str) -> None:
    """Wherever a telling name stands, the value beside it is gone and the name stays."""
    told = place.format(name=name, secret=secret)
    shown = redact.text(told)
    assert secret not in shown
    assert name in shown
    assert redact.WITHHELD in shown


@pytest.mark.parametrize(
    "place", ['["PATH=/usr/bin", "HF_TOKEN={secret}"]', 'HF_TOKEN="{secret}"', "{{'api_key': ['{secret}']}}"]
)
@given(secret=ODD)
def test_quotes_say_where_a_secret_ends(place: str, secret: str) -> None:
    """A quoted value goes whole, with commas, blanks and brackets."""
    assert secret not in redact.text(place.format(secret=secret))


@pytest.mark.parametrize(
    "told",
    [
        "token hf_EXAMPLEEXAMPLEEXAMPLE was used",
        "Authorization: Bearer abcdefgh12345678",
        "curl -H 'Authorization: Bearer abcdefgh12345678' http://x",
        "https://user:abcdefgh12345678@example.org/repo",
        "ghp_abcdefghijklmnopqrstuvwxyz012345",
        "key sk-abcdefghijklmnop1234",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabcdefgh12345678\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdefgh12345678",
    ],
)
def test_a_shape_gives_a_secret_away(told: str) -> None:
    """Tokens of known makers, bearer headers, passwords in addresses and key blocks go, whatever stands beside them."""
    shown = redact.text(told)
    for piece in ("EXAMPLEEXAMPLE", "abcdefgh", "ghp_a", "sk-a"):
        assert piece not in shown


@pytest.mark.parametrize(
    "told",
    [
        "max_num_batched_tokens=8192 num_speculative_tokens: 5",
        "vllm:generation_tokens_total 551203.0",
        "NCCL_IB_GID_INDEX=3 NCCL_DEBUG=INFO",
        '{"prompt_tokens": 9, "completion_tokens": 20}',
        "MemTotal:       127600412 kB",
        "non-default args: {'api_key': None, 'host': '0.0.0.0'}",
        "author: someone",
        '"Layers": ["sha256:abc"]',
    ],
)
def test_what_is_harmless_stays(told: str) -> None:
    """Counts of tokens, settings and facts are not touched: parsers read them afterwards."""
    assert redact.text(told) == told


@given(secret=SECRET)
def test_a_record_loses_its_secrets_in_every_part(secret: str) -> None:
    """Command, output and errors alike."""
    told = Record(
        probe="processes",
        argv=("vllm", "--api-key", secret, f"HF_TOKEN={secret}"),
        rc=0,
        stdout=f"HF_TOKEN={secret}",
        stderr=f"api_key: {secret}",
        seconds=0.1,
    )
    assert secret not in repr(redact.record(told))


@given(secret=SECRET, value=st.recursive(st.none() | st.booleans() | st.integers(), st.lists, max_leaves=4))
def test_a_document_loses_its_secrets_at_any_depth(secret: str, value: Any) -> None:
    """Keys, lists of arguments and texts inside a JSON document."""
    told = {
        "a": [{"api_key": secret}, ["--api-key", secret], f"HF_TOKEN={secret}", value],
        "environments": {"node": {"HF_TOKEN": secret, "NCCL_DEBUG": "INFO"}},
    }
    shown = redact.document(told)
    assert secret not in json.dumps(shown)
    assert shown["environments"]["node"]["NCCL_DEBUG"] == "INFO"
    assert redact.document(shown) == shown
