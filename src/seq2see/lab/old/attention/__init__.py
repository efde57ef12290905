"""Experiments 13 to 24: what attention is, where it looks, and what it is compared with."""
