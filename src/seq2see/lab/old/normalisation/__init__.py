"""Residual connections, norms, dropout and the feed-forward network: items 38 to 44."""
