"""Prepare a run: check its settings and data, and write the files that its workers read.

The training text is read twice: once for its fingerprint, the checks, the tokenizers and its
statistics, and once to encode it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch

from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.data.encoded_corpus import encode_corpus, has_pairs_within_limits
from seq2see.data.quality.empty_or_swapped_corpora import (
    SAMPLE_SIZE,
    CorpusSample,
    check_not_empty_or_swapped,
    sample_pairs,
)
from seq2see.data.readers import SentencePair
from seq2see.errors import InputError
from seq2see.keyed_random import ReservoirSample
from seq2see.progress_callbacks import StageCallback
from seq2see.text import TokenizerPair
from seq2see.text.training_text_statistics import (
    MAX_MEASURED_PAIRS,
    TrainingTextStatistics,
    measure_training_text,
)
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import CheckpointDirectory
from seq2see.training.memory_estimate import check_memory
from seq2see.training.process_and_update_counts import choose_processes
from seq2see.training.run_directory import CorpusRecord, RunPlan


class RunReadyToStart(NamedTuple):
    """What is known of a run whose files are written and whose workers have not started."""

    processes: int
    """Number of worker processes to start on this machine."""
    notes: list[str]
    """Remarks for the user on the data and the model."""


@contextmanager
def prepare_run(
    builder: RunBuilder, resume: bool = False, on_stage: StageCallback = lambda *_: None
) -> Iterator[RunReadyToStart]:
    """Check the settings and the data, and write all files that the workers read.

    The directory is locked within the context, so that no other run replaces the files. Raise
    ConfigError or InputError if the run cannot be started or resumed.
    """
    directory = builder.directory
    directory.check_can_start(resume)
    is_resumed = directory.has_run
    _check_memory(builder)
    plan = _load_plan(builder) if is_resumed else None
    prepared_text = None if is_resumed else _read_training_text(builder, on_stage)
    directory.path.mkdir(parents=True, exist_ok=True)
    with directory.lock():
        checkpoints = CheckpointDirectory(directory.checkpoints, builder.run_config.checkpoints)
        damage = checkpoints.set_aside_damaged() if is_resumed else []
        if prepared_text:
            directory.check_can_start()  # another run may have started meanwhile
            tokenizers, statistics = prepared_text
            tokenizers.save(directory.path)
            directory.write_training_text(statistics)
        _encode_corpora(builder, on_stage)
        # raise their errors before the start
        _ = builder.model_config, builder.batch_sampler, directory.read_training_text()
        processes = plan.processes if plan else _choose_processes(builder)
        yield RunReadyToStart(processes, [*damage, *_notes(builder, processes)])


def _check_memory(builder: RunBuilder) -> None:
    """Raise ConfigError if the model or the batches do not fit into the memory."""
    config = builder.run_config
    if "train.init_from" in builder.pretrained_models:
        model = builder.model_config
    else:
        size = config.tokenizer.vocab_size
        model = config.build_model_config(size, None if config.tokenizer.joint else size)
    processes = choose_processes(config.train.processes, config.batches.max_tokens)
    check_memory(config, model, processes)


def _load_plan(builder: RunBuilder) -> RunPlan:
    """Return the plan of a run to resume; raise ConfigError or InputError if its inputs changed."""
    fingerprints = {
        f"{corpus.name} ({key})": corpus.fingerprint for key, corpus in builder.corpora.items()
    }
    return builder.directory.load_plan(builder.run_config, builder.model_checksums, fingerprints)


def _read_training_text(
    builder: RunBuilder, on_stage: StageCallback
) -> tuple[TokenizerPair, TrainingTextStatistics | None]:
    """Check the corpora of a new run; return its tokenizers and the statistics of its text.

    Nothing is written.
    """
    config, pretrained = builder.run_config, builder.pretrained_models
    reader = _TrainingTextReader(config.tokenizer.max_lines, config.tokenizer.joint, on_stage)
    samples = {
        key: reader.read(corpus) if key in builder.training_keys else sample_pairs(corpus)
        for key, corpus in builder.corpora.items()
    }
    check_not_empty_or_swapped(
        [samples[key] for key in builder.training_keys],
        [samples[key] for key in builder.evaluation_keys],
        config.data.languages,
    )
    sources, targets = (lines.items for lines in reader.lines)
    if pretrained:
        tokenizers = next(iter(pretrained.values())).tokenizers
    else:
        on_stage("training the tokenizer", len(sources) + len(targets))
        tokenizers = TokenizerPair.train(sources, targets, config.tokenizer)
    _check_usable_pairs(builder, samples, tokenizers)
    statistics = measure_training_text(
        reader.pairs.items,
        config.data.languages,
        tokenizers,
        config.batches.max_length,
        lambda num_pairs, _: on_stage("measuring the training text", num_pairs),
    )
    return tokenizers, statistics


def _check_usable_pairs(
    builder: RunBuilder, samples: Mapping[str, CorpusSample], tokenizers: TokenizerPair
) -> None:
    """Raise InputError if a corpus has no pair within the length limits."""
    for key, sample in samples.items():
        blocks = chain([sample.pairs], sample.corpus.read_blocks())  # the text is rarely needed
        if not has_pairs_within_limits(blocks, builder.encoding_options(key, tokenizers)):
            raise InputError(
                f"{sample.corpus.name} has no usable pair: all are empty or longer than "
                "batches.max_length"
            )


class _TrainingTextReader:
    """Reads the training text once for several purposes."""

    def __init__(self, max_lines: int, joint: bool, on_stage: StageCallback) -> None:
        """Create a reader that keeps at most `max_lines` lines for each tokenizer.

        A joint tokenizer gets equal numbers of source and target lines.
        """
        max_side_lines = max_lines // 2 if joint else max_lines
        self.lines = [ReservoirSample[str](max(1, max_side_lines)) for _ in range(2)]
        """Source and target lines to train tokenizers on."""
        self.pairs = ReservoirSample[SentencePair](MAX_MEASURED_PAIRS)
        """Pairs to measure."""
        self._on_stage = on_stage
        self._num_read = 0

    def read(self, corpus: Corpus) -> CorpusSample:
        """Add the lines of a corpus; return a uniform sample of its non-empty pairs."""
        sample = ReservoirSample[SentencePair](SAMPLE_SIZE)
        for block in corpus.read_fingerprinted_blocks():
            for pair in block:
                for side, text in zip(self.lines, pair, strict=True):
                    side.add(text)
                if pair.source.strip() and pair.target.strip():
                    sample.add(pair)
                    self.pairs.add(pair)
            self._num_read += len(block)
            self._on_stage("reading the training text", self._num_read)
        return CorpusSample(corpus, sample.items)


def _encode_corpora(builder: RunBuilder, on_stage: StageCallback) -> None:
    """Encode all corpora, unless the cache has them, and write where they are."""
    num_encoded = 0

    def count(num_pairs: int) -> None:
        nonlocal num_encoded
        num_encoded += num_pairs
        on_stage("encoding", num_encoded)

    records = {}
    for key, corpus in builder.corpora.items():
        options = builder.encoding_options(key, builder.tokenizers)
        cache, threads = builder.directory.cache, torch.get_num_threads()
        encoded = encode_corpus(corpus, options, cache, threads, count)
        num_pairs = len(encoded) + encoded.skipped.empty + encoded.skipped.too_long
        records[key] = CorpusRecord(
            name=corpus.name,
            fingerprint=corpus.fingerprint,
            pairs=num_pairs,
            directory=encoded.directory.name,
        )
    builder.directory.write_corpus_records(records)


def _choose_processes(builder: RunBuilder) -> int:
    config = builder.run_config
    if config.train.processes is None and builder.model_config.norm.kind == "batch":
        return 1  # several processes would change the batch statistics
    return choose_processes(config.train.processes, config.batches.max_tokens)


def _notes(builder: RunBuilder, processes: int) -> Iterator[str]:
    """Yield remarks on the files, skipped pairs, and batch normalization in several processes."""
    for corpus in builder.corpora.values():
        yield from corpus.open().notes
    for key, encoded in builder.encoded_corpora.items():
        if skipped := str(encoded.skipped):
            note = " (validation loss only)" if key in builder.evaluation_keys else ""
            yield f"{builder.corpora[key].name}{note}: {skipped}."
    processes = int(os.environ.get("WORLD_SIZE", processes))  # set by torchrun
    if processes > 1 and builder.model_config.norm.kind == "batch":
        yield (
            f"Batch normalization uses the statistics of each of the {processes} processes; "
            "results differ from train.processes = 1."
        )
