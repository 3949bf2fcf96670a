"""EXL3: reads matrices of the trellis format of ExLlamaV3, in plain PyTorch, and writes small ones for fixtures."""
