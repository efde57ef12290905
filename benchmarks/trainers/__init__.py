"""The systems of `benchmarks.training`, one program each: same model, same batches.

python -m benchmarks.trainers.NAME BATCHES PRESET
"""
