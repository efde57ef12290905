"""Corpus quality: find faults of a parallel corpus, and remove the pairs that have them.

    report = analyze_corpus(Corpus(CorpusConfig(files=["train.tsv"])), languages=("en", "de"))
    for finding in report.findings: ...

    for pair, violation in accept_or_reject_pairs(pairs): ...  # in order; None if accepted

Both are functions of `analysis_and_filtering`. A corpus is read twice: `statistics_and_models`
collects statistics and a sample, and fits models to them; then `rules` check each pair against
these models.
"""
