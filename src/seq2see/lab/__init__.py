"""The lab: claims about the Transformer, each measured with the code of this project.

An experiment is a function in `experiments/*.py` that returns numbers for one seed, with rules
that turn the numbers of all seeds into verdicts (`core`). Its texts are in the TOML file of the
same name (`texts`). `runner` trains the declared models (`training`) and runs experiments,
`figures` draws, and `output` formats results. `models` has parts that experiments share.

Rules for authors:
1. The first case of a part is the published one. Another conclusion, a control that is not met or
   an exception gives exit status 1. A number decides a case, is a control, or is only reported.
2. Cases of different verdicts share a quantity whose bounds leave a gap: "undecided" is an outcome.
   Each bound has its reason in a comment, and is committed before the run that publishes it.
3. A sentence that gives a reason has a check for that reason.
4. A quantity averages over many draws within a seed, so that its standard error is a sixth of the
   distance to its bounds at most; seeds are for initialization and training.
5. Ratios and losses are listed in `log`.
6. No wall-clock time in checks or sentences: count operations, saved bytes, or depth.
7. Digits in sentences are placeholders (`{name:.2f}`, `{name.low:.2f}`), or belong to the claim.
8. Code of the notes is parsed from the quotation; what was restored is listed, and the restored
   code is judged. What the paper says is a citation, not a measurement of this project's defaults.
9. Quote the notes completely, in the original language (`sources`). Claims are whole sentences that
   need no knowledge of the notes. A claim with several statements has several parts.
10. `context.full` may change sizes, never a rule. A check that cannot fail is not a check: each
   experiment has a fault in `tests/lab/faults.py` that changes its conclusion.
"""
