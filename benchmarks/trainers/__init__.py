"""The systems of `benchmarks.training`, each a program of its own: the same model, the same batches.

python -m benchmarks.trainers.NAME BATCHES PRESET
"""
