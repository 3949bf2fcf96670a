"""A mini model of a few thousand parameters, for tests of calibration."""

import torch

import mini_moe

SHAPE = mini_moe.Shape(
    vocab_size=24,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    moe_intermediate_size=192,
    n_routed_experts=6,
    num_experts_per_tok=2,
)


def model(seed=0, shape=SHAPE):
    """A mini model whose experts already are MXFP4 numbers; sampled weights are larger than trained ones, so that cuts show."""
    torch.manual_seed(seed)
    made = mini_moe.Mini(shape).eval()
    for layer in made.layers:
        layer.bias += torch.randn(shape.n_routed_experts) * 0.05
        for part in ("w1", "w2", "w3"):
            weight = getattr(layer.experts, part).data
            spread = (
                torch.exp(torch.randn(weight.shape[:2])) if part != "w2" else torch.ones(weight.shape[:2])
            )
            weight.copy_(mini_moe.rounded(weight * spread[..., None]))
    return made


def talks(rows=8, positions=12, seed=1):
    """Token ids [rows, positions]."""
    return torch.randint(SHAPE.vocab_size, (rows, positions), generator=torch.Generator().manual_seed(seed))
