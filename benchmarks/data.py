"""Speed from files to batches, compared with SentencePiece, and memory for a large corpus.

    python -m benchmarks.data [FILES…] [--rounds 5] [--lines 5000000]

Speed: seq2see reads the files, encodes them into a new cache and iterates over one epoch of
batches; SentencePiece encodes the same lines, already in memory, with the same model and number of
threads. They run alternately; the results are medians. Without files, the corpus is tatoeba en–de
from the directory in SEQ2SEE_DATA, or else the built-in fables.

Memory: the peak of a process that encodes a corpus of `--lines` lines, made by repetition, and
iterates over it. Mapped pages of the cache are counted, though the system can reclaim them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from sentencepiece import SentencePieceProcessor

from benchmarks.machine import seconds
from seq2see.data.batch_loader import Batch, BatchConfig, BatchLoader
from seq2see.data.batch_sampler import BatchSampler
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.encoded_corpus import EncodedCorpus, EncodingOptions, encode_corpus
from seq2see.text import Tokenizer, TokenizerConfig, TokenizerPair

BATCHES = BatchConfig(max_tokens=4096, max_length=256)
VOCAB_SIZE = 8000


def default_files() -> list[str]:
    """Return the files of tatoeba en–de if they exist, otherwise the fables."""
    tatoeba = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"), "tatoeba-en-de/train.tsv.gz")
    return [str(tatoeba)] if tatoeba.exists() else ["builtin:fables"]


def iterate_epoch(corpus: Corpus, tokenizers: TokenizerPair, cache: Path, threads: int) -> None:
    """Encode a corpus and build all batches of an epoch."""
    encoded = encode_corpus(corpus, EncodingOptions(tokenizers, BATCHES.max_length), cache, threads)
    for _ in epoch_batches(encoded):
        pass


def epoch_batches(encoded: EncodedCorpus) -> Iterator[Batch]:
    """Yield the batches of the first epoch."""
    for update in BatchLoader(
        [encoded], BatchSampler([encoded], BATCHES.max_tokens, seed=1)
    ).updates():
        yield from update.batches
        if update.next_position.epoch:
            return


def measure_speed(corpus: Corpus, tokenizers: TokenizerPair, rounds: int) -> None:
    """Print pairs per second of both with one and two threads."""
    sides = [[pair.source for pair in corpus], [pair.target for pair in corpus]]
    pairs = len(sides[0])
    processor = SentencePieceProcessor(model_proto=tokenizers.source.serialized_model)
    print(f"{corpus.name}: {pairs:,} pairs, {VOCAB_SIZE:,} pieces, {rounds} runs")
    print("| threads | seq2see, pairs/s | SentencePiece | ratio |\n|---|---|---|---|")
    for threads in (1, 2):
        encode_all = partial(_encode_all, processor, sides, threads)
        ours = partial(_encode_from_scratch, corpus, tokenizers, threads)
        times = [(seconds(ours), seconds(encode_all)) for _ in range(rounds)]
        speeds = [pairs / median(column) for column in zip(*times, strict=True)]
        ratio = median(theirs_time / our_time for our_time, theirs_time in times)
        print(f"| {threads} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | **{ratio:.2f}** |")


def _encode_all(processor: SentencePieceProcessor, sides: list[list[str]], threads: int) -> None:
    for side in sides:
        processor.encode(side, num_threads=threads)


def _encode_from_scratch(corpus: Corpus, tokenizers: TokenizerPair, threads: int) -> None:
    fresh = Tokenizer(tokenizers.source.serialized_model)  # with an empty word cache
    again = Corpus(corpus.config)  # without a cached fingerprint
    with tempfile.TemporaryDirectory() as cache:
        iterate_epoch(again, TokenizerPair(fresh, fresh), Path(cache), threads)


def measure_padding(corpus: Corpus, tokenizers: TokenizerPair) -> None:
    """Print the fraction of positions that are padding."""
    with tempfile.TemporaryDirectory() as cache:
        encoded = encode_corpus(
            corpus, EncodingOptions(tokenizers, BATCHES.max_length), Path(cache)
        )
        batches = list(epoch_batches(encoded))
        num_tokens = sum(b.num_source_tokens + b.num_target_tokens for b in batches)
        num_positions = sum(b.source_BS.numel() + b.labels_BT.numel() for b in batches)
        share = 1 - num_tokens / num_positions
    print(f"padding {share:.1%} of {BATCHES.max_tokens:,} tokens per batch")


def measure_memory(corpus: Corpus, tokenizers: TokenizerPair, lines: int) -> None:
    """Print the peak memory of a separate process for a corpus of this number of lines."""
    with tempfile.TemporaryDirectory() as directory:
        large, model = Path(directory, "large.tsv"), Path(directory, "tokenizer.model")
        tokenizers.source.save(model)
        _repeat(corpus, large, lines)
        command = [sys.executable, "-m", "benchmarks.data", "--child", str(large), str(model)]
        environment = {**os.environ, "TMPDIR": directory}
        subprocess.run(command, check=True, env=environment)


def _repeat(corpus: Corpus, path: Path, lines: int) -> None:
    texts = [f"{pair.source}\t{pair.target}\n" for pair in corpus]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, lines, len(texts)):
            file.writelines(islice(texts, lines - start))


def run_child(large: str, model: str) -> None:
    """Encode and iterate over a large corpus, and print the peak memory."""
    started = _peak_memory()
    tokenizers = TokenizerPair.load(Path(model).parent)
    corpus = Corpus(CorpusConfig(files=(large,)))
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(lambda: iterate_epoch(corpus, tokenizers, Path(cache), threads=2))
        prepared = _peak_memory()
        again = seconds(
            lambda: encode_corpus(corpus, EncodingOptions(tokenizers, 256), Path(cache))
        )
    print(f"peak memory {prepared:,.0f} MB ({started:,.0f} MB after the imports)")
    print(f"encoded and iterated in {first:.0f} s; opened from the cache in {again:.1f} s")


def _peak_memory() -> float:
    """Return the peak memory in MB (`getrusage` would include that of the parent)."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--lines", type=int, default=5_000_000, help="lines for the memory test; 0 skips it"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmarks."""
    options = parse()
    if options.child:
        run_child(*options.files)
        return
    corpus = Corpus(CorpusConfig(files=options.files or default_files()))
    tokenizers = TokenizerPair.train(
        (pair.source for pair in corpus),
        (pair.target for pair in corpus),
        TokenizerConfig(vocab_size=VOCAB_SIZE),
    )
    measure_speed(corpus, tokenizers, options.rounds)
    measure_padding(corpus, tokenizers)
    if options.lines:
        print(f"\n{options.lines:,} lines:")
        measure_memory(corpus, tokenizers, options.lines)


if __name__ == "__main__":
    main()
