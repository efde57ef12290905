"""The systems of `benchmarks.training`, a program each: the same model, the same batches.

python -m benchmarks.trainers.NAME BATCHES PRESET
"""
