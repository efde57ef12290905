"""Tokenizers: training, files, encoding, sampling and errors."""

from __future__ import annotations

import io
import os
import pickle
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from seq2see.errors import ConfigError, InputError
from seq2see.text import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    SpecialIds,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    normalize_unicode_and_spaces,
    subword_sampling,
)

KINDS = ["bpe", "unigram"]
DATA = Path(os.environ.get("SEQ2SEE_DATA", Path(__file__).parents[4] / "shared" / "data"))
MARIAN = DATA.parent / "models" / "multi30k-en-de-marian" / "spm.model"


def corpus() -> list[str]:
    """Return enough sentences for a few hundred pieces."""
    stems = ["anim", "street", "tir", "cross", "hous", "größ", "lauf", "voilà", "jump", "aaaaa"]
    ends = ["", "s", "ed", "ing", "er", "en", "ation", "'t", "ly", "aaa"]
    words = [start + stem + end for start, stem, end in product(["", "un", "re"], stems, ends)]
    return [" ".join(words[i * k % len(words)] for k in range(1, 9)) + "." for i in range(299)]


def train(**settings: Any) -> Tokenizer:
    return Tokenizer.train(corpus(), TokenizerConfig(**{"vocab_size": 320, **settings}))


def plain(**settings: Any) -> bytes:
    """Train a plain SentencePiece model, with its own ids and normalization."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, minloglevel=3, **settings
    )
    return model.getvalue()


@pytest.fixture(scope="session", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train(model_type=request.param, user_defined_symbols=("⟦0⟧", "a,b"))


@pytest.fixture(scope="session")
def bpe() -> Tokenizer:
    return train()


def test_special_ids(tokenizer: Tokenizer) -> None:
    places = dict(enumerate(tokenizer.pieces[:4]))
    assert places == {PAD_ID: "<pad>", UNK_ID: "<unk>", BOS_ID: "<s>", EOS_ID: "</s>"}
    assert tokenizer.special_ids == SpecialIds()
    assert tokenizer.decode([BOS_ID, *tokenizer.encode("streets"), EOS_ID, PAD_ID]) == "streets"


def test_vocabulary_contains_bytes_and_symbols(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == len(tokenizer.pieces) == len(set(tokenizer.pieces)) == 320
    assert tokenizer.config is not None
    assert tokenizer.model_type == tokenizer.config.model_type


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind: str) -> None:
    assert train(model_type=kind).serialized_model == train(model_type=kind).serialized_model
    assert train(model_type=kind).fingerprint == train(model_type=kind).fingerprint


def test_fingerprint_depends_on_the_settings() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"model_type": "unigram"},
        {"vocab_size": 321},
        {"normalization": "none"},
        {"user_defined_symbols": ("⟦0⟧",)},
    ]
    assert len({train(**settings).fingerprint for settings in options}) == len(options)


def test_loaded_tokenizer_equals_saved_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "a.model")
    again = Tokenizer.load(tmp_path / "a.model")
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]
    assert (again.serialized_model, again.config) == (tokenizer.serialized_model, tokenizer.config)
    assert (again.fingerprint, again.user_defined_symbols) == (
        tokenizer.fingerprint,
        ("⟦0⟧", "a,b"),
    )


def test_sentencepiece_loads_the_saved_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "a.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    for line in corpus()[:50]:
        assert theirs.encode(line) == tokenizer.encode(line)
        assert theirs.decode(tokenizer.encode(line)) == line


@pytest.mark.parametrize("kind", KINDS)
def test_plain_sentencepiece_model_can_be_used(kind: str) -> None:
    model = plain(model_type=kind, vocab_size=100, user_defined_symbols=["⟦0⟧"])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours = Tokenizer(model)
    assert ours.config is None
    assert (ours.model_type, ours.user_defined_symbols) == (kind, ("⟦0⟧",))
    assert ours.special_ids == SpecialIds(pad=None, unk=0, bos=1, eos=2)
    for line in [*corpus()[:50], "  ½ ▁x  ⟦0⟧漢字 漢\x1b_字 "]:
        assert ours.encode(line) == theirs.encode(line)
        assert ours.encode_batch([line]) == [theirs.encode(line)]
        assert ours.decode(ours.encode(line)) == theirs.decode(theirs.encode(line))
        assert ours.sample(line, 1e-15, 0, 0, 0) == theirs.encode(line)


def test_pieces_across_words_can_be_sampled() -> None:
    ours = Tokenizer(plain(model_type="bpe", vocab_size=200, split_by_whitespace=False))
    assert any("▁" in piece[1:] for piece in ours.pieces)
    for line in corpus()[:50]:
        assert ours.sample(line, 1e-15, 0, 0, 0) == ours.encode(line)


@pytest.mark.skipif(not MARIAN.exists(), reason=f"there is no {MARIAN}")
def test_tokenizer_of_a_marian_model() -> None:
    ours = Tokenizer.load(MARIAN)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(MARIAN))
    line = "Zwei junge Männer stehen im Freien – “hallo” ½"
    assert ours.encode(line) == theirs.encode(line)
    assert ours.vocab_size == 8000
    assert ours.sample(line, 1e-15, 0, 0, 0) == theirs.encode(line)


def test_tokenizers_can_be_pickled(tokenizer: Tokenizer) -> None:
    again = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301
    assert again.encode("streets ⟦0⟧") == tokenizer.encode("streets ⟦0⟧")


def test_user_defined_symbols_have_one_id(tokenizer: Tokenizer) -> None:
    symbol = tokenizer.pieces.index("⟦0⟧")
    for text in ["⟦0⟧", "a ⟦0⟧ b", "street⟦0⟧s", "(⟦0⟧),", "⟦0⟧⟦0⟧"]:
        assert tokenizer.encode(text).count(symbol) == text.count("⟦0⟧")
    assert tokenizer.pieces.index("a,b") in tokenizer.encode("xa,by")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batch_decoding_equals_single_decoding(tokenizer: Tokenizer, threads: int) -> None:
    rows = [tokenizer.encode("streets ⟦0⟧"), [], np.array(tokenizer.encode("café")), (EOS_ID,)]
    texts = tokenizer.decode_batch(rows, threads)
    assert texts == ["streets ⟦0⟧", "", "café", ""] == [*map(tokenizer.decode, rows)]
    assert tokenizer.decode_batch([], threads) == []
    with pytest.raises(InputError, match="ids must be from 0 to"):
        tokenizer.decode_batch([[5], [-1]], threads)


def test_arrays_can_be_decoded(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("streets ⟦0⟧")
    assert tokenizer.decode(np.array(ids)) == tokenizer.decode(tuple(ids)) == "streets ⟦0⟧"


def test_byte_fallback_encodes_every_character(tokenizer: Tokenizer) -> None:
    text = "漢字 😀 \x00 ਪੰਜਾਬੀ"
    assert UNK_ID not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_without_byte_fallback_characters_are_unknown() -> None:
    tokenizer = train(byte_fallback=False, vocab_size=100)
    ids = tokenizer.encode("street 漢字 street")
    assert ids.count(UNK_ID) == 1
    assert tokenizer.sample("street 漢字 street", 1e-15, 0, 0, 0) == ids


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("nfc", "  cafe\u0301 \t\n x  ", "café x"),
        ("nfc", "½ ﬁ Ａ Bonjour\u202f!\u00a0", "½ ﬁ Ａ Bonjour\u202f!\u00a0"),
        ("nfc", "全角\u3000空白\u2028\x85.", "全角 空白 ."),
        ("nfkc", "½ ﬁ Ａ Bonjour\u202f!\u00a0", "1⁄2 fi A Bonjour !"),
        ("none", "  cafe\u0301 \t\n ▁ ", "  cafe\u0301 \t\n ▁ "),
    ],
)
def test_normalization_forms(how: Any, text: str, expected: str) -> None:
    assert normalize_unicode_and_spaces(text, how) == expected
    tokenizer = train(normalization=how)
    assert tokenizer.normalize(text) == tokenizer.decode(tokenizer.encode(text)) == expected


def test_training_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    Tokenizer.train(corpus(), TokenizerConfig(vocab_size=300))
    with pytest.raises(ConfigError):
        train(vocab_size=100_000)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_too_large_vocabulary_error_names_the_maximum(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"^`vocab_size` must be at most \d+ for this") as caught:
        train(model_type=kind, vocab_size=50_000)
    largest = int(str(caught.value).split("at most ")[1].split()[0])
    assert train(model_type=kind, vocab_size=largest).vocab_size == largest


def test_too_small_vocabulary_error_names_the_minimum() -> None:
    with pytest.raises(ConfigError, match=r"^`vocab_size` must be at least \d+ for this") as caught:
        train(vocab_size=262)
    smallest = int(str(caught.value).split("at least ")[1].split()[0])
    assert train(vocab_size=smallest).vocab_size == smallest


@pytest.mark.parametrize("lines", [[], [""], ["", " \t", "\u2028"]])
def test_blank_text_raises_input_error(lines: list[str]) -> None:
    with pytest.raises(InputError, match="must have a line that is not blank"):
        Tokenizer.train(lines, TokenizerConfig())


def test_lines_that_sentencepiece_skips_are_used() -> None:
    odd = [f"{line}\0▅" for line in corpus()]
    assert "▁street" in Tokenizer.train(odd, TokenizerConfig(vocab_size=400)).pieces
    long = [" ".join(corpus())]
    assert "▁street" in Tokenizer.train(long, TokenizerConfig(vocab_size=400)).pieces


def test_training_lines_are_a_uniform_sample() -> None:
    first_character = 0x4E00
    lines = [f"ab{chr(first_character + index)}" for index in range(2000)]
    config = TokenizerConfig(vocab_size=366, max_lines=100, character_coverage=1)
    first = Tokenizer.train(lines, config)
    sampled = {ord(character) for piece in first.pieces for character in piece}
    indices = [code - first_character for code in sampled if code >= first_character]
    assert len(indices) == 100
    assert 800 < statistics.mean(indices) < 1200
    assert first.serialized_model == Tokenizer.train(iter(lines), config).serialized_model


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"model_type": "word"},
            "`model_type` must be one of bpe or unigram, but is 'word' instead",
        ),
        ({"vocab_size": 260}, "`vocab_size` must be above 260, the special pieces, bytes and"),
        ({"vocab_size": 261, "user_defined_symbols": ("x",)}, "`vocab_size` must be above 261"),
        ({"character_coverage": 0.5}, "`character_coverage` must be at least 0.98, but is 0.5"),
        ({"normalization": "nfd"}, "`normalization` must be one of nfc, nfkc or none"),
        (
            {"user_defined_symbols": ("a b",)},
            "`user_defined_symbols` must have visible characters and no spaces",
        ),
        ({"user_defined_symbols": ("",)}, "`user_defined_symbols` must have visible characters"),
        (
            {"user_defined_symbols": ("<s>",)},
            "`user_defined_symbols` must not be names of special pieces, but has '<s>'",
        ),
        (
            {"user_defined_symbols": ("<0x41>",)},
            "`user_defined_symbols` must not be names of special pieces",
        ),
        (
            {"user_defined_symbols": ("e\u0301",)},
            "`user_defined_symbols` must not be changed by normalization nfc",
        ),
        ({"user_defined_symbols": ("▁",)}, "`user_defined_symbols` must not be changed"),
        ({"user_defined_symbols": ("x", "x")}, "`user_defined_symbols` must all be different"),
        ({"max_lines": 0}, "`max_lines` must be at least 1"),
        ({"vocab": 9}, "`vocab` is not a setting"),
    ],
)
def test_invalid_settings_raise_config_error(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TokenizerConfig(**settings)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


def test_unpaired_surrogate_raises_input_error(bpe: Tokenizer) -> None:
    problem = "half of a surrogate pair, '.ud83d', as character 3"
    with pytest.raises(InputError, match=problem):
        bpe.encode("ab\ud83dc")
    with pytest.raises(InputError, match=f"{problem} of line 2$"):
        bpe.encode_batch(["fine", "ab\ud83dc"])
    with pytest.raises(InputError, match=problem):
        bpe.sample("ab\ud83dc", 0.5, 0, 0, 0)
    with pytest.raises(InputError, match=f"{problem} of line 300$"):
        Tokenizer.train([*corpus(), "ab\ud83dc"], TokenizerConfig(vocab_size=300))


@pytest.mark.parametrize("ids", [[320], [-1], [5, 2**40]])
def test_ids_outside_the_vocabulary_raise_input_error(bpe: Tokenizer, ids: list[int]) -> None:
    with pytest.raises(InputError, match="ids must be from 0 to 319"):
        bpe.decode(ids)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\0" * 100])
def test_invalid_model_raises_input_error(
    tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.model").write_bytes(content)
    with pytest.raises(InputError, match="a.model`: this must be a SentencePiece model"):
        Tokenizer.load(tmp_path / "a.model")
    assert capfd.readouterr() == ("", "")


def test_missing_or_truncated_file_raises_input_error(bpe: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a.model` cannot be read: No such file"):
        Tokenizer.load(tmp_path / "a.model")
    for length in (10, len(bpe.serialized_model) // 2, len(bpe.serialized_model) - 1):
        with pytest.raises(InputError, match="must be a SentencePiece model"):
            Tokenizer(bpe.serialized_model[:length])


def test_samples_depend_on_seed_epoch_and_line(tokenizer: Tokenizer) -> None:
    text = corpus()[7]
    keys = list(product([0, 1], [0, 1], [0, 1]))
    first = {key: tokenizer.sample(text, 0.5, *key) for key in keys}
    assert len({tuple(ids) for ids in first.values()}) > 4
    fresh = Tokenizer(tokenizer.serialized_model)
    assert {key: fresh.sample(text, 0.5, *key) for key in reversed(keys)} == first


def test_dropout_1_gives_single_characters(tokenizer: Tokenizer) -> None:
    ids = tokenizer.sample("streets and housing", 1.0, 0, 0, 0)
    assert {len(tokenizer.pieces[i]) for i in ids} <= {1, 6}  # 6: a byte, <0x..>


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_invalid_dropout_raises_input_error(bpe: Tokenizer, rate: float) -> None:
    with pytest.raises(InputError, match="`dropout` must be from 0 to 1"):
        bpe.sample("street", rate, 0, 0, 0)


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_bpe_dropout_matches_sentencepiece(bpe: Tokenizer, rate: float) -> None:
    """Both draw different random numbers, so only the mean lengths are compared."""
    theirs = sentencepiece.SentencePieceProcessor(model_proto=bpe.serialized_model)
    lines = corpus() * 10
    sampled = {"enable_sampling": True, "alpha": rate, "nbest_size": -1}
    their_mean = sum(len(theirs.encode(line, **sampled)) for line in lines) / len(lines)
    ours = [len(bpe.sample(line, rate, 0, 0, i)) for i, line in enumerate(lines)]
    assert sum(ours) / len(lines) == pytest.approx(their_mean, rel=0.01)


def test_uncached_words_have_the_same_distribution(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that are too long for the cache are segmented by other code."""

    def total() -> int:
        lines = enumerate(corpus() * 5)
        return sum(len(tokenizer.sample(line, 0.3, 0, 0, i)) for i, line in lines)

    remembered = total()
    assert remembered > 1.1 * 5 * sum(map(len, tokenizer.encode_batch(corpus())))
    monkeypatch.setattr(subword_sampling, "_MAX_CACHED_LENGTH", 0)
    assert total() == pytest.approx(remembered, rel=0.01)
    text = "".join(corpus())
    assert tokenizer.decode(tokenizer.sample(text, 0.3, 0, 0, 0)) == text


def test_tokenizer_is_thread_safe(tokenizer: Tokenizer) -> None:
    lines = corpus() * 3
    shared = Tokenizer(tokenizer.serialized_model)
    expected = [tokenizer.sample(line, 0.2, 1, 1, i) for i, line in enumerate(lines)]
    with ThreadPoolExecutor(4) as pool:
        sampled = list(pool.map(lambda i: shared.sample(lines[i], 0.2, 1, 1, i), range(len(lines))))
        encoded = list(pool.map(shared.encode, lines))
    assert sampled == expected
    assert encoded == tokenizer.encode_batch(lines, threads=2)


def test_joint_tokenizer_is_one_object(tmp_path: Path) -> None:
    source = ["abc abd abe"] * 300
    both = TokenizerPair.train(source, corpus(), TokenizerConfig(vocab_size=400))
    assert both.is_joint
    assert both.source is both.target
    assert {"▁abc", "street"} <= set(both.source.pieces)
    both.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.model"]
    again = TokenizerPair.load(tmp_path)
    assert again.is_joint
    assert again.fingerprint == both.fingerprint


def test_separate_tokenizers(tmp_path: Path, bpe: Tokenizer) -> None:
    TokenizerPair(bpe, bpe).save(tmp_path)  # something older in the same place
    config = TokenizerConfig(vocab_size=300, joint=False)
    each = TokenizerPair.train(corpus(), [line.upper() for line in corpus()], config)
    assert not each.is_joint
    assert each.source.pieces != each.target.pieces
    each.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.model", "target.model"]
    again = TokenizerPair.load(tmp_path)
    assert not again.is_joint
    assert again.fingerprint == each.fingerprint
    assert again.fingerprint != TokenizerPair(each.target, each.source).fingerprint


def test_text_does_not_import_torch() -> None:
    code = "import sys, seq2see.text; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_batch_encoding_equals_single_encoding() -> None:
    """Also with repeated words, in other lines and calls, and with a full cache."""
    lines = ["a dog", "", "a", "dog dog  cat", "\u2581 x", "the cat's dog", "a dog"] * 3
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=290))
    alone = [tokenizer.encode(line) for line in lines]
    for _ in range(2):
        assert tokenizer.encode_batch(lines) == alone
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_packed(lines).ids.tolist() == [i for ids in alone for i in ids]


def test_word_cache_is_cleared_when_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.text.packed_ids.MAX_CACHED_WORDS", 3)
    lines = [f"word{n} word" for n in range(20)]
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=280))
    for line in lines:
        assert tokenizer.encode_batch([line]) == [tokenizer.encode(line)]
