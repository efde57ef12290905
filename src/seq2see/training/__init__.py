"""Training: from the settings of a recipe to a model directory.

`corpus_and_tokenizer_preparation.prepare_run` checks the settings and writes the files that the
worker processes read; `training_session.train_as_worker` trains in one worker process, from the
start or from the last checkpoint.
"""
