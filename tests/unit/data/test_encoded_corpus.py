"""The encoded corpus on disk, and the batches that are built from it."""

from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from seq2see.data import encoded_corpus, readers
from seq2see.data.batch_loader import (
    Batch,
    BatchConfig,
    BatchLoader,
)
from seq2see.data.batch_sampler import BatchSampler, DataPosition
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.encoded_corpus import EncodedCorpus, EncodingOptions, SkippedPairs, encode_corpus
from seq2see.errors import ConfigError, InputError
from seq2see.text import BOS_ID, EOS_ID, PAD_ID, PackedIds, TokenizerConfig, TokenizerPair

LINES = [(f"the animal number {n} " + "crossed " * (n % 5), f"l'animal {n} a") for n in range(60)]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    source, target = ([pair[side] for pair in LINES] for side in (0, 1))
    return TokenizerPair.train(
        source, target, TokenizerConfig(vocab_size=320, user_defined_symbols=["<bt>"])
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return write(tmp_path, LINES)


def write(directory: Path, pairs: list[tuple[str, str]], name: str = "a.tsv", **settings) -> Corpus:
    (directory / name).write_text("".join(f"{s}\t{t}\n" for s, t in pairs), "utf-8")
    return Corpus(CorpusConfig(files=[name], **settings), root=directory)


def ids_of(encoded: EncodedCorpus) -> list[tuple[list[int], list[int]]]:
    return [(encoded.source[n].tolist(), encoded.target[n].tolist()) for n in range(len(encoded))]


@pytest.mark.parametrize("threads", [1, 3])
def test_ids_equal_those_of_the_tokenizers(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path, threads: int, monkeypatch
) -> None:
    monkeypatch.setattr(readers, "LINES_PER_BLOCK", 7)
    read = []
    encoded = encode_corpus(
        corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache", threads, read.append
    )
    assert ids_of(encoded) == [
        (tokenizers.source.encode(s), tokenizers.target.encode(t)) for s, t in LINES
    ]
    assert sum(read) == len(LINES)
    assert encoded.skipped == SkippedPairs()


def test_corpus_is_encoded_once(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path, monkeypatch
) -> None:
    first = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    monkeypatch.setattr(encoded_corpus, "_write_columns", None)
    again = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    assert ids_of(first) == ids_of(again)


def test_other_text_or_options_are_encoded_separately(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    encode_corpus(corpus, EncodingOptions(tokenizers, 99), cache)
    encode_corpus(corpus, EncodingOptions(tokenizers, 98), cache)
    other = encode_corpus(write(tmp_path, LINES[::-1]), EncodingOptions(tokenizers, 99), cache)
    assert len(list(cache.iterdir())) == 3
    assert ids_of(other)[0][0] == tokenizers.source.encode(LINES[-1][0])


@pytest.mark.parametrize("name", ["source.values", "target.ends", "manifest.json"])
@pytest.mark.parametrize("damage", ["a byte", "shorter", "gone"])
def test_damaged_cache_is_encoded_again(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path, name: str, damage: str
) -> None:
    before = ids_of(encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache"))
    (encoded_directory,) = (tmp_path / "cache").iterdir()
    file = encoded_directory / name
    content = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    else:
        index = content.index(b"0") if name == "manifest.json" else 3  # the number of empty pairs
        content[index] ^= 1
        file.write_bytes(content if damage == "a byte" else content[:-1])
    assert (
        ids_of(encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")) == before
    )
    assert (
        json.loads((encoded_directory / "manifest.json").read_text("utf-8"))["content"]["empty"]
        == 0
    )


def test_change_of_the_text_while_reading_is_an_error(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    _ = corpus.fingerprint
    write(tmp_path, LINES[1:])
    with pytest.raises(InputError, match="a.tsv was changed while it was read: start again"):
        encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_obstructing_path_is_replaced(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path, kind: str
) -> None:
    encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    (encoded_directory,) = (tmp_path / "cache").iterdir()
    shutil.rmtree(encoded_directory)
    if kind == "file":
        encoded_directory.write_text("x")
    elif kind == "link":
        encoded_directory.symlink_to(tmp_path / "nowhere")
    else:
        (encoded_directory / "x").mkdir(parents=True)
    encoded = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    assert len(encoded) == len(LINES)
    assert list((tmp_path / "cache").iterdir()) == [encoded_directory]


def test_unwritable_cache_is_named(
    corpus: Corpus, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("x")
    with pytest.raises(InputError, match="cache.* cannot be written: "):
        encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")


def test_failure_leaves_no_files(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    corpus = write(tmp_path, LINES)
    _ = corpus.fingerprint
    with (tmp_path / "a.tsv").open("a") as file:
        file.write("no second column\n")
    with pytest.raises(InputError, match="line 61 must have at least 2 columns"):
        encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_skipped_pairs_are_counted(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    pairs = [("a", "b"), ("", "b"), ("long " * 50, "b"), ("a", " "), ("a", "x" * 90), ("c", "d")]
    encoded = encode_corpus(
        write(tmp_path, pairs), EncodingOptions(tokenizers, 40), tmp_path / "cache"
    )
    assert encoded.skipped == SkippedPairs(empty=2, too_long=2, first_too_long=3)
    assert str(encoded.skipped) == (
        "4 pairs skipped: 2 longer than batches.max_length (first: pair 3); 2 with an empty side"
    )
    assert not str(SkippedPairs())
    assert str(SkippedPairs(empty=1)) == "1 pair skipped: 1 with an empty side"
    assert [tokenizers.source.decode(s) for s, _ in ids_of(encoded)] == ["a", "c"]


def test_units_without_one_of_the_languages_are_counted(
    tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    one, both = '<tuv xml:lang="en"><seg>a</seg></tuv>', '<tuv xml:lang="fr"><seg>b</seg></tuv>'
    units = f"<tu>{one}</tu><tu>{one}{both}</tu><tu>{one}</tu>"
    (tmp_path / "a.tmx").write_text(f'<tmx version="1.4"><body>{units}</body></tmx>', "utf-8")
    corpus = Corpus(CorpusConfig(files=["a.tmx"]), ("en", "fr"), tmp_path)
    for _ in range(2):  # encoded, and read from the cache
        encoded = encode_corpus(corpus, EncodingOptions(tokenizers, 40), tmp_path / "cache")
        assert str(encoded.skipped) == "2 pairs skipped: 2 without one of the languages"


def test_empty_corpus_cannot_be_sampled(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    encoded = encode_corpus(
        write(tmp_path, []), EncodingOptions(tokenizers, 40), tmp_path / "cache"
    )
    assert len(encoded) == 0
    with pytest.raises(InputError, match="at least one pair"):
        BatchSampler([encoded], 99, seed=1)


def test_tag_precedes_each_source(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    corpus = write(tmp_path, LINES)
    plain = ids_of(encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache"))
    tagged = ids_of(
        encode_corpus(corpus, EncodingOptions(tokenizers, 99, tag="<bt>"), tmp_path / "cache")
    )
    tag = tokenizers.source.pieces.index("<bt>")
    assert tagged == [([tag, *source], target) for source, target in plain]
    with pytest.raises(ConfigError, match="`tag` must be a user-defined symbol of the tokenizer"):
        encode_corpus(corpus, EncodingOptions(tokenizers, 99, tag="<xx>"), tmp_path / "cache")


def test_batch_has_bos_eos_and_padding() -> None:
    batch = Batch.from_packed_ids(
        PackedIds.from_lists([[7, 8], [9]]), PackedIds.from_lists([[5], [6, 7, 8]])
    )
    assert batch.source_BS.tolist() == [[7, 8, EOS_ID], [9, EOS_ID, PAD_ID]]
    assert batch.target_BT.tolist() == [
        [BOS_ID, 5, EOS_ID, PAD_ID, PAD_ID],
        [BOS_ID, 6, 7, 8, EOS_ID],
    ]
    assert batch.decoder_input_BT.shape == batch.labels_BT.shape == (2, 4)
    assert (batch.num_source_tokens, batch.num_target_tokens) == (5, 6)


def test_max_tokens_must_fit_the_longest_pair() -> None:
    with pytest.raises(ConfigError, match="`max_tokens` must be at least 514"):
        BatchConfig(max_tokens=513)


def make_loader(corpora, shares_of_batch: int = 1, **options) -> BatchLoader:
    return BatchLoader(
        corpora, BatchSampler(corpora, 300, seed=3, batches_per_update=shares_of_batch), **options
    )


def sentences(batches: list[Batch]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the ids of each pair without BOS and EOS."""
    pairs = []
    for batch in batches:
        for source, target in zip(batch.source_BS.tolist(), batch.target_BT.tolist(), strict=True):
            pairs.append(
                (tuple(source[: source.index(EOS_ID)]), tuple(target[1 : target.index(EOS_ID)]))
            )
    return pairs


def epoch(loader: BatchLoader) -> list[Batch]:
    batches = []
    for update in loader.updates():
        if update.epoch:
            return batches
        batches += update.batches
    raise AssertionError


def test_loader_yields_each_pair_once(corpus, tokenizers, tmp_path) -> None:
    encoded = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    expected = sorted((tuple(s), tuple(t)) for s, t in ids_of(encoded))
    assert sorted(sentences(epoch(make_loader([encoded])))) == expected


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_every_batch(corpus, tokenizers, tmp_path, workers: int) -> None:
    encoded = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    alone = epoch(make_loader([encoded], shares_of_batch=2))
    shares = [
        epoch(make_loader([encoded], shares_of_batch=2, rank=r, world_size=workers))
        for r in range(workers)
    ]
    for full_batch, *shares_of_batch in zip(alone, *shares, strict=True):
        assert sorted(sentences(shares_of_batch)) == sorted(sentences([full_batch]))
        assert max(map(len, shares_of_batch)) - min(map(len, shares_of_batch)) <= 1


def test_more_workers_than_pairs_get_empty_batches(tokenizers, tmp_path) -> None:
    encoded = encode_corpus(
        write(tmp_path, LINES[:1]), EncodingOptions(tokenizers, 99), tmp_path / "cache"
    )
    shares = [epoch(make_loader([encoded], rank=r, world_size=3)) for r in range(3)]
    assert [[len(batch) for batch in share] for share in shares] == [[1], [0], [0]]
    assert len(shares[1][0]) == 0


def test_corpora_are_mixed_in_batches(tokenizers, tmp_path) -> None:
    encoding = EncodingOptions(tokenizers, 99)
    first = encode_corpus(write(tmp_path, LINES[:30]), encoding, tmp_path / "cache")
    second = encode_corpus(write(tmp_path, LINES[30:], "b.tsv"), encoding, tmp_path / "cache")
    expected = sorted((tuple(s), tuple(t)) for s, t in ids_of(first) + ids_of(second))
    assert sorted(sentences(epoch(make_loader([first, second])))) == expected


def test_loader_resumes_exactly(corpus, tokenizers, tmp_path) -> None:
    encoded = encode_corpus(
        corpus, EncodingOptions(tokenizers, 99, store_text=True), tmp_path / "cache"
    )
    loader = make_loader([encoded], subword_dropout=0.3, seed=5)
    updates = list(islice(loader.updates(), 25))
    saved = json.loads(json.dumps(updates[9].next_position))
    resumed = islice(
        make_loader([encoded], subword_dropout=0.3, seed=5).updates(DataPosition(*saved)),
        15,
    )
    for ours, theirs in zip(updates[10:], resumed, strict=True):
        assert sentences(ours.batches) == sentences(theirs.batches)
        assert ours.next_position == theirs.next_position


def test_subword_sampling_changes_ids_but_not_text(corpus, tokenizers, tmp_path) -> None:
    tag = [tokenizers.source.pieces.index("<bt>")]
    encoding = EncodingOptions(tokenizers, 40, tag="<bt>", store_text=True)
    encoded = encode_corpus(corpus, encoding, tmp_path / "cache")
    usual = ids_of(encoded)
    passes = [
        [encoded.resample_subwords(n, 0.5, 1, pass_index) for n in range(len(LINES))]
        for pass_index in (0, 1)
    ]
    assert passes[0] != usual
    assert passes[0] != passes[1]
    for (source, target), (s, t) in zip(passes[0], LINES, strict=True):
        assert source[:1] == tag
        assert tokenizers.source.decode(source[1:]) == tokenizers.source.normalize(s)
        assert tokenizers.target.decode(target) == tokenizers.target.normalize(t)
        assert len(source) <= 40


def test_corpora_with_equal_sources_are_segmented_differently(corpus, tokenizers, tmp_path) -> None:
    """A corpus may have several translations of the same sources."""
    encoding = EncodingOptions(tokenizers, 99, store_text=True)
    encoded = encode_corpus(corpus, encoding, tmp_path / "cache")
    for copies in ([encoded], [encoded, encoded]):
        loader = make_loader(copies, subword_dropout=0.5, seed=5)
        sources = {source for source, _ in sentences(epoch(loader))}
        assert (len(sources) > len(LINES)) == (len(copies) > 1)


def test_too_long_sample_keeps_the_usual_ids(tokenizers, tmp_path) -> None:
    corpus = write(tmp_path, [("animal " * 8, "animal")])
    limit = len(tokenizers.source.encode("animal " * 8))
    assert limit == 8
    encoded = encode_corpus(
        corpus, EncodingOptions(tokenizers, limit, store_text=True), tmp_path / "cache"
    )
    source, target = encoded.resample_subwords(0, 1.0, 1, 0)
    assert source == encoded.source[0].tolist()
    assert len(target) == len("▁animal")


def test_large_vocabularies_use_32_bit_ids(corpus, tokenizers, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(type(tokenizers.source), "vocab_size", 2**16 + 1)
    encoded = encode_corpus(corpus, EncodingOptions(tokenizers, 99), tmp_path / "cache")
    assert encoded.source[0].dtype == np.uint32
