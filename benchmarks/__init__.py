"""Benchmarks that compare seq2see with other systems: `python -m benchmarks.NAME`."""
