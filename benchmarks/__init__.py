"""Measurements, side by side with others in one run: `python -m benchmarks.NAME`."""
