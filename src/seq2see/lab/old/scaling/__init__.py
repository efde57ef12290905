"""Experiments 1 to 12: why q·k is divided by √d_k, and what softmax does."""
