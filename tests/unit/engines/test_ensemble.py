"""Several models as one: the mean of their probabilities, in search and in forcing."""

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

LINES = [fable.source for fable in fables.load_fables("test")[:6]]
SHORT = {"length": {"max_ratio": 0.5, "max_extra": 6}}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    texts = fables.load_fables("valid")[:500]
    config = TokenizerConfig(vocab_size=400)
    return TokenizerPair.train((f.source for f in texts), (f.target for f in texts), config)


def saved(
    home: Path, tokenizers: TokenizerPair, seed: int, languages=("en", "fr"), layers=1
) -> Path:
    torch.manual_seed(seed)
    size = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 1, "decoder_layers": layers}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **size)
    model = Transformer.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    Bundle(config, tokenizers, languages, model.state_dict(), max_length=60).save(home)
    return home


@pytest.fixture
def homes(tokenizers: TokenizerPair, tmp_path: Path) -> list[Path]:
    return [saved(tmp_path / str(seed), tokenizers, seed, layers=seed) for seed in (1, 2)]


def test_the_log_probability_is_that_of_the_mean(homes: list[Path]) -> None:
    both, *each = (seq2see.load(home, "torch") for home in (homes, *homes))
    found = both.translate(LINES, token_scores=True, coverage_penalty=0.1, **SHORT)
    pairs = [(line, translation.text) for line, translation in zip(LINES, found, strict=True)]
    together, *apart = (translator.score(pairs) for translator in (both, *each))
    for whole, *parts in zip(together, *apart, strict=True):
        for token, *theirs in zip(whole.tokens, *(part.tokens for part in parts), strict=True):
            mean = torch.tensor([one.log_prob for one in theirs]).exp().mean().log()
            assert token.log_prob == pytest.approx(float(mean), abs=1e-4)
    for translation, scored in zip(found, together, strict=True):
        if not translation.flags:  # cut, or read otherwise again
            assert translation.log_prob == pytest.approx(scored.log_prob, abs=1e-4)
    alone = each[0].translate(LINES, **SHORT)
    assert [translation.text for translation in found] != [one.text for one in alone]


def test_none_of_them_drops_anything_out(homes: list[Path]) -> None:
    translator = seq2see.load(homes, "torch")
    first = translator.translate(LINES[0], **SHORT)
    other = translator.engine.models[1].train()
    assert translator.translate(LINES[0], **SHORT).log_prob == first.log_prob
    assert other.training


def test_what_cannot_be_together(homes, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    german = saved(tmp_path / "de", tokenizers, 1, ("en", "de"))
    with pytest.raises(InputError, match="must translate en→fr, but one does en→de"):
        seq2see.load([homes[0], german])
    few = fables.load_fables("valid")[:200]
    others = TokenizerPair.train(
        (f.source for f in few), (f.target for f in few), TokenizerConfig(vocab_size=380)
    )
    with pytest.raises(InputError, match="must share their pieces"):
        seq2see.load([homes[0], saved(tmp_path / "other", others, 1)])
    with pytest.raises(InputError, match="there is none"):
        seq2see.load([])
    with pytest.raises(InputError, match="one model can be seen through at a time"):
        explain(seq2see.load(homes), LINES[0])
