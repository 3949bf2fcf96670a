"""Config: what a model keeps for attention, from its config.json as plain data; every missing or strange key is named at once. Pure.

Three families are modelled: the hybrid of DeepSeek-V4.1 (windows, compressed states, an indexer), multi-head latent
attention, and dense grouped-query attention with or without sliding windows. Anything else is refused, not guessed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparkctl.errors import FileFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """Attention as in DeepSeek-V4.1: every layer has a window; the layers of `sources` keep compressed states for the others.

    `sources` holds the tokens that one state stands for (1 or 2), by layer; `draft_layers` belong to the drafter, which looks
    `draft_tokens` further than the window.
    """

    layers: int
    window: int
    sources: Mapping[int, int]
    draft_layers: int
    draft_tokens: int
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention: one latent of `width` elements a token and layer, the same on every rank."""

    layers: int
    width: int
    heads: int
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Grouped-query attention: a key and a value of `head_width` elements for each of `kv_heads`; `windowed` layers see `window` tokens."""

    layers: int
    heads: int
    kv_heads: int
    head_width: int
    longest: int
    windowed: int = 0
    window: int = 0


Attention = Hybrid | Latent | Dense


def attention(document: object, source: str) -> Attention:
    """Return what a model keeps for attention.

    Raises:
        FileFault: keys are missing or strange, or the family is not modelled; the message lists every fault.

    """
    if not isinstance(document, Mapping):
        raise FileFault(f"{source}: $: wanted the keys of a model's config", hint=_HINT)
    inner = document.get("text_config")
    keys = _Keys(document={**document, **inner} if isinstance(inner, Mapping) else document)
    found = _family(keys)(keys)
    if keys.faults:
        raise FileFault("\n".join(f"{source}: {fault}" for fault in keys.faults), hint=_HINT)
    return found


_HINT = "give the config.json that lies beside the model's weights; docs/predictions.md says which families are modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """A config's keys, and what was wrong with those that were asked for."""

    document: Mapping[object, object]
    faults: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return self.document.get(name) is not None

    def number(self, name: str, least: int = 1) -> int:
        value = self.document.get(name)
        if type(value) is int and value >= least:
            return value
        self.faults.append(_fault(name, f"a whole number of at least {least}", self.document))
        return least

    def numbers(self, name: str) -> tuple[int, ...]:
        value = self.document.get(name)
        if isinstance(value, (list, tuple)) and all(type(one) is int and one >= 0 for one in value):
            return tuple(value)
        self.faults.append(_fault(name, "a list of whole numbers", self.document))
        return ()


def _fault(name: str, wanted: str, document: Mapping[object, object]) -> str:
    if name not in document:
        return f"$.{name}: the key is missing; wanted {wanted}"
    return f"$.{name}: wanted {wanted}, found {document[name]!r}"


def _family(keys: _Keys) -> Callable[[_Keys], Attention]:
    if keys.has("compress_ratios"):
        return _hybrid
    strange = [name for name in _NOT_MODELLED if keys.has(name)]
    if strange:
        names = ", ".join(f"$.{name}" for name in strange)
        keys.faults.append(f"{names}: a model with this keeps more than is modelled here")
    return _latent if keys.has("kv_lora_rank") else _dense


_NOT_MODELLED = (
    "index_topk",
    "mamba_d_state",
    "linear_num_value_heads",
    "ssm_state_size",
    "attention_chunk_size",
)
"""Keys of models with a state or an index of their own, whose pages follow other rules."""


def _hybrid(keys: _Keys) -> Hybrid:
    layers, ratios = keys.number("num_hidden_layers"), keys.numbers("compress_ratios")
    sources = {layer: ratios[layer] for layer in keys.numbers("kv_source_layer_ids") if layer < len(ratios)}
    strange = {layer: ratio for layer, ratio in sources.items() if ratio not in {1, 2} or layer >= layers}
    if strange:
        keys.faults.append(
            f"$.kv_source_layer_ids: wanted layers below {layers} whose compress_ratios are 1 or 2, found {strange}"
        )
    drafts = keys.number("num_nextn_predict_layers", 0) if keys.has("num_nextn_predict_layers") else 0
    return Hybrid(
        layers=layers,
        window=keys.number("sliding_window"),
        sources=sources,
        draft_layers=drafts,
        draft_tokens=keys.number("dspark_block_size") if drafts else 0,
        longest=keys.number("max_position_embeddings"),
    )


def _latent(keys: _Keys) -> Latent:
    return Latent(
        layers=keys.number("num_hidden_layers"),
        width=keys.number("kv_lora_rank") + keys.number("qk_rope_head_dim"),
        heads=keys.number("num_attention_heads"),
        longest=keys.number("max_position_embeddings"),
    )


def _dense(keys: _Keys) -> Dense:
    layers, heads = keys.number("num_hidden_layers"), keys.number("num_attention_heads")
    width = keys.number("head_dim") if keys.has("head_dim") else keys.number("hidden_size") // heads
    windowed = _windowed(keys, layers)
    return Dense(
        layers=layers,
        heads=heads,
        kv_heads=keys.number("num_key_value_heads") if keys.has("num_key_value_heads") else heads,
        head_width=width,
        longest=keys.number("max_position_embeddings"),
        windowed=windowed,
        window=keys.number("sliding_window") if windowed else 0,
    )


def _windowed(keys: _Keys, layers: int) -> int:
    """Count the layers with a sliding window: those that `layer_types` names, or all where there is a window and no such list."""
    kinds = keys.document.get("layer_types")
    if isinstance(kinds, (list, tuple)):
        strange = sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
        if strange or len(kinds) != layers:
            keys.faults.append(
                f"$.layer_types: wanted {layers} of full_attention and sliding_attention, found {len(kinds)}"
                + (f" with {', '.join(strange)}" if strange else "")
            )
        return sum(kind == "sliding_attention" for kind in kinds)
    # Qwen's configs carry a window that `use_sliding_window: false` switches off.
    return (
        layers if keys.has("sliding_window") and keys.document.get("use_sliding_window") is not False else 0
    )
