"""EXL3, the trellis format of ExLlamaV3: matrices read in plain PyTorch, and made from weights, sorted for budget reads."""
