"""Budget reads of mixture-of-experts weights: plan, allocator, reference and kernels. Enters vLLM's environment; imports no sparkctl."""
