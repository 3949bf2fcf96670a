"""No secret survives, what is harmless does, and JSON stays JSON."""

import json
import string
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bootcheck import redact
from bootcheck.facts import Record

TOLD = Path(__file__).parent / "told"
ENGINES = Path(__file__).parents[2] / "recipes" / "engines"
MARK = "s3cr3t"
"""Part of every secret in the files of that folder."""

# What a secret may look like; the names around it are what gives it away.
# The letters in front keep it from being a piece of the texts below.
SECRET = st.text(alphabet=string.ascii_letters + string.digits + "-_.~+/=", min_size=6, max_size=60).map(
    lambda one: f"Zq7{one}k"
)
NAMES = (
    "HF_TOKEN",
    "VLLM_API_KEY",
    "VLLM_API_KEYS",
    "api_key",
    "api-key",
    "AWS_SECRET_ACCESS_KEY",
    "OPENAI_KEY",
    "ENCRYPTION_KEY",
    "password",
    "DB_PASSWD",
    "DB_PASS",
    "MYSQL_PWD",
    "private_key",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
)
HARMLESS_NAMES = (
    "pad_token_id",
    "eos_token_ids",
    "mask_token_id",
    "bos_token",
    "eos_token",
    "pad_token",
    "mask_token",
    "unk_token",
    "token_ids",
    "max_num_batched_tokens",
    "num_speculative_tokens",
    "num_batched_token",
    "completion_tokens",
    "TOKENIZERS_PARALLELISM",
    "TIKTOKEN_ENCODING_NAME",
    "HF_TOKEN_PATH",
    "MYSQL_PASSWORD_FILE",
    "GPG_KEY",
    "SSH_PUBLIC_KEY",
    "num_key_value_heads",
    "key",
    "monkey",
    "PWD",
    "OLDPWD",
    "inductor_passes",
    "author",
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
    '["serve","--{name}","{secret}","--port"]',
    'Cmd: "serve","--{name}","{secret}","--port"',
    "command:\n  - --{name}\n  - {secret}",
)

# JSON with telling names, their values and everything that looks like both, at any depth.
WORDS = st.sampled_from(
    (*NAMES, *(f"--{name}" for name in NAMES), *HARMLESS_NAMES, "-u", "sshpass", "-p", "Env", "")
)
WRITTEN = st.one_of(
    WORDS,
    st.text(max_size=12),
    st.builds("{}={}".format, WORDS, st.text(max_size=8)),
    st.builds(lambda name, value: json.dumps({name: value}), WORDS, st.text(max_size=8)),
    st.sampled_from(
        ('"', "\\", "a:b", '{"auth": {', "-----BEGIN PRIVATE KEY-----", "Authorization: Bearer x")
    ),
)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WRITTEN)
DOCUMENT = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WRITTEN, inner, max_size=4),
    max_leaves=12,
)
FRAGMENTS = st.lists(
    st.one_of(
        WRITTEN,
        st.sampled_from(list("\"'\\[]{}=:,; \n\t-")),
        st.sampled_from(("{secret}", "hf_" + 24 * "A", "Bearer abcdefgh12", "https://a:b@c", "[1]\n")),
    ),
    max_size=14,
).map("".join)

HOSTILE = (
    "a",
    "TOKEN_",
    "TOKEN=",
    "TOKEN=[",
    "TOKEN={",
    'TOKEN=["',
    'TOKEN=[",',
    '{"TOKEN":[',
    '"TOKEN=',
    "'TOKEN=\\",
    'TOKEN=\\"',
    "password: token: ",
    "\n- token: ",
    "--TOKEN ",
    "--TOKEN,",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "MIIE\n",
    "eyJaaaaaaaa-",
    "Bearer ",
    "://a:",
    '-u "a:',
    "sshpass -p ",
    "\\",
    "[1]\n",
    '{"a":',
    "[",
    " ",
)


def harmless(value: Any) -> Any:
    """Return the document in which nothing tells: neither a name nor a shape."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(value),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(value), inner, max_size=4)
        ),
        max_leaves=12,
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(secret=SECRET)
def test_no_secret_survives_beside_its_name(place: str, name: str, secret: str) -> None:
    """Wherever a telling name stands, the value beside it is gone and the name stays."""
    told = place.format(name=name, secret=secret)
    shown = redact.text(told)
    assert secret not in shown
    assert name in shown
    assert redact.WITHHELD in shown


@pytest.mark.parametrize(
    "place",
    [
        '["PATH=/usr/bin", "HF_TOKEN={secret}"]',
        'ran ["PATH=/usr/bin", "HF_TOKEN={secret}"]',
        'HF_TOKEN="{secret}"',
        "{{'api_key': ['{secret}']}}",
        "password: {secret}",
        "> Cookie: {secret}",
    ],
)
@given(secret=ODD)
def test_quotes_and_lines_say_where_a_secret_ends(place: str, secret: str) -> None:
    """A quoted value goes whole, with commas, blanks and brackets, and so does the rest of a line that begins with its name."""
    assert secret not in redact.text(place.format(secret=secret))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_tells(name: str) -> None:
    """As a variable and as a flag."""
    assert redact.names_a_secret(name)
    assert redact.names_a_secret(f"--{name}")


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_harmless_name_does_not_tell(name: str) -> None:
    """Counts, a tokenizer's marks, files, public keys and folders are no secrets; neither are their values."""
    assert not redact.names_a_secret(name)
    told = f'{{"{name}": "x"}} {name}=x --{name} x'
    assert redact.text(told) == told


def test_no_flag_that_a_recipe_may_set_tells() -> None:
    """A secret is no business of a recipe's arguments: what the engine is told there is shown whole."""
    for path in sorted(ENGINES.glob("*.yml")):
        flags = yaml.safe_load(path.read_text(encoding="utf-8"))["flags"]
        assert len(flags) > 10
        assert [flag for flag in flags if redact.names_a_secret(flag)] == []


@pytest.mark.parametrize(
    "told",
    [
        "token hf_EXAMPLEEXAMPLEEXAMPLE was used",
        "Authorization: Bearer abcdefgh12345678",
        "curl -H 'Authorization: Bearer abcdefgh12345678' http://x",
        "curl -u user:abcdefgh12345678 http://x",
        'curl --user "user:abcdefgh 12345678" http://x',
        "sshpass -p abcdefgh12345678 ssh x",
        "sshpass -p 'x abcdefgh12345678' ssh x",
        '["sshpass", "-p", "abcdefgh12345678"]',
        '["curl", "-u", "user:abcdefgh12345678"]',
        "https://user:abcdefgh12345678@example.org/repo",
        "ghp_abcdefghijklmnopqrstuvwxyz012345",
        "key sk-abcdefghijklmnop1234",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabcdefgh12345678\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nabcdefgh12345678",
        "abcdefgh12345678\nabcdefgh12345678==\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_shape_gives_a_secret_away(told: str) -> None:
    """Tokens of known makers, headers, log-ins, passwords in addresses and key blocks go, whatever stands beside them."""
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
        '"Env": ["OPENAI_API_KEY=", "X=1"]',
        "'hf_overrides': {'pad_token_id': 0}",
        "docker run -u 1000:1000 -p 8000:8000 image",
        "vllm serve m --enable-auth\n41801 1 12 3412 python3",
        '{"x": 1.10, "x": 1e400, "y": "\\ud800\\/", "z": 123456789012345678901234567890}',
    ],
)
def test_what_is_harmless_stays(told: str) -> None:
    """Counts of tokens, settings and facts are not touched: parsers read them afterwards."""
    assert redact.text(told) == told


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in TOLD.glob("*.txt") if not path.stem.endswith(".shown"))
)
def test_what_tools_print_loses_its_secrets_only(name: str) -> None:
    """Documents as docker, vLLM, compose, ps and shells print them: shown as in the file beside them, JSON as JSON."""
    told = (TOLD / f"{name}.txt").read_text(encoding="utf-8")
    shown = redact.text(told)
    assert MARK in told
    assert MARK not in shown
    assert shown == (TOLD / f"{name}.shown.txt").read_text(encoding="utf-8")
    if "inspect" in name and "truncated" not in name:
        json.loads(shown)


@settings(deadline=None)
@given(told=DOCUMENT, indent=st.sampled_from((None, 1)))
def test_json_stays_json(told: Any, indent: int | None) -> None:
    """As one text and as the line of a log; a document and its text are treated alike."""
    written = json.dumps(told, indent=indent)
    shown = redact.text(written) if isinstance(told, (dict, list, str)) else written
    assert json.loads(shown) == redact.document(told)
    if indent is None and isinstance(told, (dict, list)):
        *_, last = redact.text(f"a log\n{written}").split("\n")
        assert json.loads(last) == redact.document(told)


@settings(deadline=None)
@given(told=harmless([*HARMLESS_NAMES, "NCCL_DEBUG=INFO", "--port", "8000", "Ünïcode", '"quoted"']))
def test_json_without_secrets_is_left_as_it_is(told: Any) -> None:
    """To the letter: numbers, escapes and blanks too."""
    written = json.dumps(told, indent=2)
    assert redact.text(written) == written
    assert redact.document(told) == told


@settings(deadline=None)
@given(told=DOCUMENT, name=st.sampled_from(NAMES), secret=st.text(min_size=3).map(lambda one: f"Zq7{one}k"))
def test_json_loses_every_secret_beside_a_telling_name(told: Any, name: str, secret: str) -> None:
    """Any letters, below a key, in a list below it, in an environment, behind a flag and in JSON within JSON."""
    inner = json.dumps({name: secret, "a": told})
    whole = [
        told,
        {name: secret, "x": [{name: {"a": [secret, 1]}}]},
        {"Env": [f"{name}={secret}", f"--{name}={secret}"], "Cmd": ["serve", f"--{name}", secret, told]},
        {"label": inner, "list": [inner]},
    ]
    for shown in (redact.text(json.dumps(whole)), json.dumps(redact.document(whole))):
        assert json.dumps(secret)[1:-1] not in shown
        assert "Zq7" not in shown
        json.loads(json.loads(shown)[3]["label"])


@settings(max_examples=300, deadline=None)
@given(told=FRAGMENTS)
def test_twice_is_as_once(told: str) -> None:
    """What was withheld stays as it is shown."""
    shown = redact.text(told)
    assert redact.text(shown) == shown


@settings(deadline=None)
@given(told=DOCUMENT)
def test_a_document_twice_is_as_once(told: Any) -> None:
    """The same of values."""
    shown = redact.document(told)
    assert redact.document(shown) == shown


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_no_longer_than_its_length(unit: str) -> None:
    """A text made to be read again and again: what grew with the square of its length would take minutes."""
    began = time.process_time()
    redact.text((unit * (1 << 17))[: 1 << 17])
    assert time.process_time() - began < 5


def test_as_much_as_a_node_may_answer_takes_seconds() -> None:
    """1 MiB of the worst of it."""
    told = "".join((unit * (1 << 16))[: (1 << 20) // len(HOSTILE)] for unit in HOSTILE)
    began = time.process_time()
    redact.text(told)
    assert time.process_time() - began < 10


def test_json_of_any_depth_is_no_fault() -> None:
    """What Python's own reader refuses is read as plain text."""
    told = 100_000 * "[" + '"HF_TOKEN=Zq7secretk"' + 100_000 * "]"
    assert "Zq7" not in redact.text(told)


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


def test_the_lines_of_a_log_lose_a_secret_of_several_lines() -> None:
    """A key block is only seen when its lines are read together."""
    log = (
        "one",
        "-----BEGIN EC PRIVATE KEY-----",
        "Zq7abcd",
        "-----END EC PRIVATE KEY-----",
        "HF_TOKEN=x",
        "two",
    )
    assert redact.lines(log) == ("one", redact.WITHHELD, f"HF_TOKEN={redact.WITHHELD}", "two")


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
