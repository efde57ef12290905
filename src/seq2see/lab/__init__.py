"""The lab: claims about the Transformer, each measured with the code of this project.

An experiment is a function in `experiments/*.py` that returns numbers for one seed, with rules that
turn the numbers of all seeds into verdicts (`core`). Its texts are in the TOML file of the same name
(`texts`). `runner` trains the declared models (`training`) and runs experiments, `figures` draws,
and `output` formats results. `docs/writing_experiments.md` explains how to write one.
"""
