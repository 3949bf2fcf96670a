"""A model's config.json: the families that are modelled, and every fault of a file at once."""

from typing import Any

import pytest

from launcher.capacity import config
from launcher.capacity.config import Dense, Hybrid
from launcher.capacity.preset import Model
from sparkctl import content, edge
from sparkctl.errors import FileFault

V41 = dict(edge.read(content.model("deepseek-v41-flash-mxfp4"), Model).config)


def test_a_hybrid_is_read_from_its_text_part_too() -> None:
    """The keys may stand at the top or, as in the released file, in text_config."""
    nested = {"architectures": ["DeepseekV41ForCausalLM"], "text_config": V41, "vision_config": {}}
    assert config.attention(nested, "config.json") == config.attention(V41, "config.json")
    found = config.attention(V41, "config.json")
    assert isinstance(found, Hybrid)
    assert found.sources == {2: 2, 8: 2, 14: 2, 20: 1}


def test_every_fault_is_named_at_once() -> None:
    """Missing keys and strange values come in one message, each with its place and what was wanted."""
    broken = {**V41, "sliding_window": "128"}
    del broken["kv_source_layer_ids"], broken["max_position_embeddings"]
    with pytest.raises(FileFault) as fault:
        config.attention(broken, "my/config.json")
    assert fault.value.message.splitlines() == [
        "my/config.json: $.kv_source_layer_ids: the key is missing; wanted a list of whole numbers",
        "my/config.json: $.sliding_window: wanted a whole number of at least 1, found '128'",
        "my/config.json: $.max_position_embeddings: the key is missing; wanted a whole number of at least 1",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kv_source_layer_ids": [0]}, "$.kv_source_layer_ids"),
        ({"compress_ratios": [1.5]}, "$.compress_ratios"),
        ({"compress_ratios": None}, "$.num_attention_heads"),
    ],
)
def test_a_hybrid_that_is_not_one_is_refused(change: dict[str, Any], said: str) -> None:
    """A source without compressed states, a ratio that is no number, a config without ratios: the place is named."""
    with pytest.raises(FileFault) as fault:
        config.attention({**V41, **change}, "config.json")
    assert said in fault.value.message


@pytest.mark.parametrize("strange", ["index_topk", "mamba_d_state", "attention_chunk_size"])
def test_a_family_that_is_not_modelled_is_refused(strange: str) -> None:
    """A model that keeps more than keys and values is not counted as if it did not."""
    with pytest.raises(FileFault) as fault:
        config.attention({"num_hidden_layers": 1, strange: 64}, "config.json")
    assert f"$.{strange}: a model with this keeps more than is modelled here" in fault.value.message


def test_what_is_no_mapping_is_a_fault_of_the_file() -> None:
    """A list in place of a config is said so."""
    with pytest.raises(FileFault, match="wanted the keys of a model's config"):
        config.attention([], "config.json")


DENSE = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "hidden_size": 512,
    "max_position_embeddings": 1024,
}


@pytest.mark.parametrize(
    ("change", "windowed"),
    [
        ({}, 0),
        ({"sliding_window": 64}, 4),
        ({"sliding_window": 64, "use_sliding_window": False}, 0),
        ({"sliding_window": 64, "layer_types": ["sliding_attention"] + ["full_attention"] * 3}, 1),
    ],
)
def test_windowed_layers_are_counted(change: dict[str, Any], windowed: int) -> None:
    """A window holds for the layers that are named, for all where none is, and for none where it is switched off."""
    found = config.attention({**DENSE, **change}, "config.json")
    assert isinstance(found, Dense)
    assert (found.windowed, found.kv_heads, found.head_width) == (windowed, 8, 64)


def test_a_kind_of_layer_that_is_not_known_is_refused() -> None:
    """Linear attention among the layers is named."""
    document = {**DENSE, "layer_types": ["linear_attention"] * 4}
    with pytest.raises(FileFault, match=r"\$\.layer_types: .* with linear_attention"):
        config.attention(document, "config.json")
