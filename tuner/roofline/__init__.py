"""Roofline: what routed experts cost a step in bytes and arithmetic, and where the roof is. Pure; the model of `Why Decode Wants 64 GPUs`."""
