"""Tests of ensembles: the mean of the probabilities, in search and in scoring."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import seq2see
from seq2see.bundle import Bundle
from seq2see.data import fables
from seq2see.errors import InputError
from seq2see.explain import explain
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair

LINES = [fable.source for fable in fables.load_fables_split("test")[:6]]
SHORT = {"length": {"max_ratio": 0.5, "max_extra": 6}}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    texts = fables.load_fables_split("valid")[:500]
    config = TokenizerConfig(vocab_size=400)
    return TokenizerPair.train((f.source for f in texts), (f.target for f in texts), config)


def save_model(
    directory: Path, tokenizers: TokenizerPair, seed: int, languages=("en", "fr"), layers=1
) -> Path:
    torch.manual_seed(seed)
    size = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 1, "decoder_layers": layers}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **size)
    model = Transformer.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    Bundle(config, tokenizers, languages, model.state_dict(), max_length=60).save(directory)
    return directory


@pytest.fixture
def directories(tokenizers: TokenizerPair, tmp_path: Path) -> list[Path]:
    return [save_model(tmp_path / str(seed), tokenizers, seed, layers=seed) for seed in (1, 2)]


def test_log_probability_is_that_of_mean_probability(directories: list[Path]) -> None:
    ensemble, *members = (
        seq2see.load(directory, "torch") for directory in (directories, *directories)
    )
    results = ensemble.translate(
        LINES, token_scores=True, check_retokenization=True, coverage_penalty=0.1, **SHORT
    )
    pairs = [(line, translation.text) for line, translation in zip(LINES, results, strict=True)]
    mean_scores, *member_scores = (t.score(pairs) for t in (ensemble, *members))
    for mean_score, *scores in zip(mean_scores, *member_scores, strict=True):
        member_tokens = (score.tokens for score in scores)
        for token, *tokens in zip(mean_score.tokens, *member_tokens, strict=True):
            mean = torch.tensor([each.log_prob for each in tokens]).exp().mean().log()
            assert token.log_prob == pytest.approx(float(mean), abs=1e-4)
    for translation, score in zip(results, mean_scores, strict=True):
        if not translation.flags:  # cut or retokenized
            assert translation.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    single = members[0].translate(LINES, **SHORT)
    assert [each.text for each in results] != [each.text for each in single]


def test_ensemble_does_not_apply_dropout(directories: list[Path]) -> None:
    translator = seq2see.load(directories, "torch")
    first = translator.translate(LINES[0], **SHORT)
    other = translator.engine.models[1].train()
    assert translator.translate(LINES[0], **SHORT).log_prob == first.log_prob
    assert other.training


def test_incompatible_models_raise_input_error(
    directories, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    german = save_model(tmp_path / "de", tokenizers, 1, ("en", "de"))
    with pytest.raises(InputError, match="must translate en→fr, but one translates en→de"):
        seq2see.load([directories[0], german])
    few = fables.load_fables_split("valid")[:200]
    others = TokenizerPair.train(
        (f.source for f in few), (f.target for f in few), TokenizerConfig(vocab_size=380)
    )
    with pytest.raises(InputError, match="must have the same vocabulary"):
        seq2see.load([directories[0], save_model(tmp_path / "other", others, 1)])
    with pytest.raises(InputError, match="at least one model directory"):
        seq2see.load([])
    with pytest.raises(InputError, match="an ensemble cannot be explained"):
        explain(seq2see.load(directories), LINES[0])
