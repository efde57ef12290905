"""The systems that `benchmarks.translation` compares with: functions from lines to translations."""
