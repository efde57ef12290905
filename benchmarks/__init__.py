"""Benchmarks of speed and memory, some against other systems: `python -m benchmarks.NAME`."""
