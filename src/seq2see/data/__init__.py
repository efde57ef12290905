"""Parallel data: corpora, their encoding and batches, corpus quality, and built-in corpora.

Files are described by `corpus_config_and_reading` and read by `readers`; `encoded_corpus` stores
token ids on disk; `batch_sampler` and `batch_loader` yield the batches of each update.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2see.data.batch_loader import Batch, BatchConfig, BatchLoader
    from seq2see.data.batch_sampler import BatchSampler, DataPosition
    from seq2see.data.corpus_config_and_reading import (
        Corpus,
        CorpusConfig,
        DataConfig,
        TrainingCorpusConfig,
    )
    from seq2see.data.encoded_corpus import EncodedCorpus, EncodingOptions, encode_corpus
    from seq2see.data.readers import SentencePair

__all__ = [
    "Batch",
    "BatchConfig",
    "BatchLoader",
    "BatchSampler",
    "Corpus",
    "CorpusConfig",
    "DataConfig",
    "DataPosition",
    "EncodedCorpus",
    "EncodingOptions",
    "SentencePair",
    "TrainingCorpusConfig",
    "encode_corpus",
]

_MODULES = {
    "Batch": "seq2see.data.batch_loader",
    "BatchConfig": "seq2see.data.batch_loader",
    "BatchLoader": "seq2see.data.batch_loader",
    "BatchSampler": "seq2see.data.batch_sampler",
    "Corpus": "seq2see.data.corpus_config_and_reading",
    "CorpusConfig": "seq2see.data.corpus_config_and_reading",
    "DataConfig": "seq2see.data.corpus_config_and_reading",
    "DataPosition": "seq2see.data.batch_sampler",
    "EncodedCorpus": "seq2see.data.encoded_corpus",
    "EncodingOptions": "seq2see.data.encoded_corpus",
    "SentencePair": "seq2see.data.readers",
    "TrainingCorpusConfig": "seq2see.data.corpus_config_and_reading",
    "encode_corpus": "seq2see.data.encoded_corpus",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because batches need torch and readers do not."""
    if name not in _MODULES:
        raise AttributeError(f"module 'seq2see.data' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
