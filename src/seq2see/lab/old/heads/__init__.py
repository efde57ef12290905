"""Experiments 25 to 29: several heads, what they cost and what they are for."""
