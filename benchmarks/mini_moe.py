"""A mini mixture of experts in the shape of DeepSeek V4: 64 experts, top-6, one shared expert, square-root-of-softplus router, clamped SwiGLU.

What goes in: tokens [rows, positions], perhaps a cache of earlier positions; what comes out: logits. Attention is plain multi-head with RoPE:
only the experts are V4's. Experts are rounded to MXFP4 while they learn (straight-through), so the checkpoint holds what was learnt.
`Experts.forward` takes (x, picks, weights), as calibration's taps want it, and can be cut: see `Cut`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from sparkctl_vllm import mxfp4

Cut = Callable[[int, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Layer, picks and weights [tokens, top-k] to the neurons that are kept of each pick, [tokens, top-k], and the weights to use."""
Cache = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes; 113 M parameters as they stand here, 18 M of them used by a token."""

    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    moe_intermediate_size: int = 384
    n_routed_experts: int = 64
    num_experts_per_tok: int = 6
    swiglu_limit: float = 10.0
    routed_scaling_factor: float = 1.5
    rope_theta: float = 10000.0


class Experts(nn.Module):
    """The routed experts of one layer: w1 and w3 [experts, neurons, hidden], w2 [experts, hidden, neurons]."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        count, hidden, neurons = shape.n_routed_experts, shape.hidden_size, shape.moe_intermediate_size
        self.limit, self.layer = shape.swiglu_limit, layer
        self.w1 = nn.Parameter(torch.randn(count, neurons, hidden) * hidden**-0.5)
        self.w3 = nn.Parameter(torch.randn(count, neurons, hidden) * hidden**-0.5)
        deep = (2 * shape.num_hidden_layers) ** -0.5
        self.w2 = nn.Parameter(torch.randn(count, hidden, neurons) * neurons**-0.5 * deep)
        self.rounding, self.backwards, self.cut = False, False, None

    def forward(self, x: torch.Tensor, picks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum over picks: x [tokens, hidden], picks and weights [tokens, top-k]."""
        kept, tokens, top_k = None, *picks.shape
        if self.backwards:  # the same sum in another order, as a server that adds by atomics may
            picks, weights = picks.flip(1), weights.flip(1)
        if self.cut is not None:
            kept, weights = self.cut(self.layer, picks, weights)
        order = picks.flatten().argsort(stable=True)
        back = order.argsort()
        ends = torch.bincount(picks.flatten(), minlength=len(self.w1)).cumsum(0)
        h = self._hidden(_Spread.apply(x, order, back, top_k), ends)
        if kept is not None:
            h = h * (torch.arange(h.shape[1], device=h.device) < kept.flatten()[order, None])
        out = _grouped(h, self._weight(self.w2, h.dtype), ends)[back]
        return (out.view(tokens, top_k, -1).float() * weights[..., None]).sum(1).to(x.dtype)

    def _hidden(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        gate = _grouped(x, self._weight(self.w1, x.dtype), ends).clamp(max=self.limit)
        up = _grouped(x, self._weight(self.w3, x.dtype), ends).clamp(-self.limit, self.limit)
        return F.silu(gate) * up

    def _weight(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return (weight + (rounded(weight) - weight).detach() if self.rounding else weight).to(dtype)


class Layer(nn.Module):
    """Attention, then the router, the routed experts and the shared one."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        hidden = shape.hidden_size
        self.shape = shape
        self.attn_norm, self.ffn_norm = (nn.Parameter(torch.ones(hidden)) for _ in range(2))
        self.wqkv, self.wo = _linear(3 * hidden, hidden), _linear(hidden, hidden)
        self.gate = nn.Parameter(torch.randn(shape.n_routed_experts, hidden) * hidden**-0.5)
        self.register_buffer("bias", torch.zeros(shape.n_routed_experts))
        self.register_buffer("picked", torch.zeros(shape.n_routed_experts), persistent=False)
        self.experts, self.forced = Experts(shape, layer), None
        neurons = shape.moe_intermediate_size
        self.shared_w1, self.shared_w3 = _linear(neurons, hidden), _linear(neurons, hidden)
        self.shared_w2 = _linear(hidden, neurons)

    def forward(
        self, x: torch.Tensor, turn: torch.Tensor, cache: Cache | None, places: slice
    ) -> torch.Tensor:
        """Return x [rows, positions, hidden] after this layer; keys and values go into `cache` at `places` if there is one."""
        x = x + self._attention(_normed(x, self.attn_norm), turn, cache, places)
        normed = _normed(x, self.ffn_norm).flatten(0, 1)
        picks, weights = self.routed(normed)
        limit = self.shape.swiglu_limit
        gate = (normed @ self.shared_w1.to(x.dtype).T).clamp(max=limit)
        up = (normed @ self.shared_w3.to(x.dtype).T).clamp(-limit, limit)
        shared = (F.silu(gate) * up) @ self.shared_w2.to(x.dtype).T
        return x + (self.experts(normed, picks, weights) + shared).view_as(x)

    def routed(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return picks and weights [tokens, top-k]: the bias steers who is picked, never how much he weighs."""
        scores = F.softplus(x.float() @ self.gate.T).sqrt()
        picks = (scores.detach() + self.bias).topk(self.shape.num_experts_per_tok, dim=1).indices
        if self.forced is not None:  # the picks of another forward over the same tokens
            picks = self.forced
        if self.training:
            self.picked += torch.bincount(picks.flatten(), minlength=len(self.picked))
        weights = scores.gather(1, picks)
        return picks, weights / weights.sum(1, keepdim=True) * self.shape.routed_scaling_factor

    def _attention(
        self, x: torch.Tensor, turn: torch.Tensor, cache: Cache | None, places: slice
    ) -> torch.Tensor:
        rows, positions, hidden = x.shape
        heads = (x @ self.wqkv.to(x.dtype).T).view(rows, positions, 3, self.shape.num_attention_heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        query, key = _turned(query, turn), _turned(key, turn)
        if cache is not None:
            keys, values = cache[self.experts.layer]
            keys[:, :, places], values[:, :, places] = key, value
            key, value = keys[:, :, : places.stop], values[:, :, : places.stop]
        out = F.scaled_dot_product_attention(query, key, value, is_causal=positions > 1)
        return out.transpose(1, 2).reshape(rows, positions, hidden) @ self.wo.to(x.dtype).T


class Mini(nn.Module):
    """The whole model; computes in `dtype`, keeps its weights as they are."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.dtype = shape, torch.float32
        self.embed = nn.Parameter(torch.randn(shape.vocab_size, shape.hidden_size) * 0.02)
        self.layers = nn.ModuleList(Layer(shape, layer) for layer in range(shape.num_hidden_layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden_size))
        self.head = nn.Parameter(torch.randn(shape.vocab_size, shape.hidden_size) * shape.hidden_size**-0.5)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None, begin: int = 0) -> torch.Tensor:
        """Return logits [rows, positions, vocabulary] of tokens that stand at `begin` and behind."""
        places = slice(begin, begin + tokens.shape[1])
        turn = _turn(self.shape, torch.arange(places.start, places.stop, device=tokens.device))
        x = self.embed[tokens].to(self.dtype)
        for layer in self.layers:
            x = layer(x, turn, cache, places)
        return _normed(x, self.norm) @ self.head.to(x.dtype).T

    def in_bfloat16(self) -> None:
        """Compute in bf16 from now on, and keep the experts so: what is rounded to MXFP4 is the same number there."""
        self.dtype = torch.bfloat16
        for layer in self.layers:
            for part in ("w1", "w2", "w3"):
                weight = getattr(layer.experts, part)
                weight.data = weight.data.bfloat16()

    def cache(self, rows: int, positions: int) -> Cache:
        """Return room for so many positions of so many rows."""
        heads = self.shape.num_attention_heads
        size = (rows, heads, positions, self.shape.hidden_size // heads)
        room = [
            torch.zeros(size, dtype=self.dtype, device=self.embed.device) for _ in range(2 * len(self.layers))
        ]
        return list(zip(room[::2], room[1::2], strict=True))

    def cut_by(self, cut: Cut | None) -> None:
        """Cut the routed experts of every layer by this rule, or by none."""
        for layer in self.layers:
            layer.experts.cut = cut


def rounded(numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers rounded to MXFP4 along the last dimension: what mxfp4.quantised and dequantised give, fast enough for every step."""
    groups = numbers.detach().float().unflatten(-1, (-1, mxfp4.GROUP))
    largest = groups.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    scale = torch.exp2(torch.floor(torch.log2(largest)) - 2)
    size = (groups / scale).abs()
    unit = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    whole = (torch.round(size / unit) * unit).clamp(max=6.0)
    return (whole * scale * groups.sign()).flatten(-2).to(numbers.dtype)


def saved(model: Mini, folder: Path, notes: Mapping[str, object]) -> None:
    """Write config.json and one safetensors file a layer, tensors named as V4.1's, experts in MXFP4, the rest in bf16."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "mini_moe", **asdict(model.shape), "notes": dict(notes)}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    for layer in range(model.shape.num_hidden_layers):
        held = {}
        for part in ("w1", "w2", "w3"):
            codes, scales = mxfp4.quantised(state.pop(f"layers.{layer}.experts.{part}"))
            for expert in range(len(codes)):
                name = f"layers.{layer}.ffn.experts.{expert}.{part}"
                held |= {f"{name}.weight": codes[expert].clone(), f"{name}.scale": scales[expert].clone()}
        save_file(held, str(folder / f"experts-{layer}.safetensors"))
    rest = {
        _published(name): tensor if name.endswith("bias") else tensor.bfloat16()
        for name, tensor in state.items()
    }
    save_file(rest, str(folder / "model.safetensors"))


def loaded(folder: Path) -> Mini:
    """Read what `saved` wrote, in float32."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = Mini(Shape(**{name: config[name] for name in Shape.__slots__}))
    state = {name: load for name, load in model.state_dict().items() if ".experts." not in name}
    rest = load_file(str(folder / "model.safetensors"))
    model.load_state_dict({name: rest[_published(name)].float() for name in state}, strict=False)
    for layer, one in enumerate(model.layers):
        held = load_file(str(folder / f"experts-{layer}.safetensors"))
        for part in ("w1", "w2", "w3"):
            weight = getattr(one.experts, part).data
            for expert in range(len(weight)):
                name = f"layers.{layer}.ffn.experts.{expert}.{part}"
                weight[expert] = mxfp4.dequantised(held[f"{name}.weight"], held[f"{name}.scale"])
    return model.eval()


def _published(name: str) -> str:
    if not name.startswith("layers."):
        return f"{name}.weight"
    layers, layer, part = name.split(".", 2)
    renamed = {
        "gate": "ffn.gate.weight",
        "bias": "ffn.gate.bias",
        "wqkv": "attn.wqkv.weight",
        "wo": "attn.wo.weight",
    }
    shared = part.replace("shared_", "ffn.shared_experts.") + ".weight"
    return f"{layers}.{layer}.{renamed.get(part, shared)}"


class _Spread(torch.autograd.Function):
    """Rows of x once for each pick, in the order of the experts; its gradient is a gather and a sum, not atomics."""

    @staticmethod
    def forward(ctx, x, order, back, top_k):  # noqa: ANN001, ANN205 - torch's own signature
        ctx.save_for_backward(back)
        ctx.top_k = top_k
        return x[order // top_k]

    @staticmethod
    def backward(ctx, gradient):  # noqa: ANN001, ANN205 - torch's own signature
        (back,) = ctx.saved_tensors
        return gradient[back].unflatten(0, (-1, ctx.top_k)).sum(1), None, None, None


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.bfloat16:
        return torch._grouped_mm(x, weight.transpose(1, 2), offs=ends.int())  # noqa: SLF001 - public from torch 2.10 on
    parts = x.tensor_split(ends[:-1].cpu())
    return torch.cat([part @ one.T for part, one in zip(parts, weight, strict=True)])


def _linear(out: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(out, width) * width**-0.5)


def _normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * weight.to(x.dtype)


def _turn(shape: Shape, places: torch.Tensor) -> torch.Tensor:
    width = shape.hidden_size // shape.num_attention_heads
    speeds = shape.rope_theta ** (-torch.arange(0, width, 2, device=places.device) / width)
    angles = places[:, None] * speeds
    return torch.stack((angles.cos(), angles.sin()))


def _turned(heads: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    cosine, sine = turn.to(heads.dtype)
    even, odd = heads.chunk(2, dim=-1)
    return torch.cat((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
