"""Compare the search with that of `transformers` on the same model: tokens and scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import MarianMTModel

from seq2see.search import Hypothesis, SearchConfig, SentenceSearchInput, StepOutput, search

VOCABULARY, EOS, PAD = 23, 0, 22  # the start symbol of Marian is its pad id
SENTENCES, MAX_LENGTH = 16, 14


@pytest.fixture
def model(marian: Callable[..., MarianMTModel]) -> MarianMTModel:
    """A random Marian model whose translations have different lengths; some never end."""
    sizes = {"d_model": 16, "d_ff": 16, "layers": 1, "max_position_embeddings": 32}
    return marian(VOCABULARY, PAD, init_std=1.0, **sizes)


def sources() -> Tensor:
    src = torch.randint(1, PAD, (SENTENCES, 9))
    lengths = torch.randint(3, 10, (SENTENCES, 1))
    return src.masked_fill(torch.arange(9) >= lengths, PAD)


class UncachedDecoder:
    """Decodes with a Marian model, which processes the full target in each step."""

    def __init__(self, model: MarianMTModel, src_BS: Tensor) -> None:
        self.model = model
        self.src_BS = src_BS
        self.tokens_BKT = torch.empty(len(src_BS), 1, 0, dtype=torch.long)

    def step(self, tokens_BK: Tensor) -> StepOutput:
        self.tokens_BKT = torch.cat((self.tokens_BKT, tokens_BK[:, :, None]), dim=2)
        rows, beams, _ = self.tokens_BKT.shape
        src = self.src_BS.repeat_interleave(beams, 0)
        logits = self.model(
            input_ids=src,
            attention_mask=(src != PAD).long(),
            decoder_input_ids=self.tokens_BKT.flatten(0, 1),
            use_cache=False,
        ).logits
        return StepOutput(logits[:, -1].log_softmax(-1).unflatten(0, (rows, beams)))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        self.src_BS = self.src_BS[rows_B]
        self.tokens_BKT = self.tokens_BKT[rows_B[:, None], parents_BK]


def run_search(model: MarianMTModel, src: Tensor, config: SearchConfig) -> list[list[Hypothesis]]:
    inputs = [SentenceSearchInput(row[row != PAD].tolist()) for row in src]
    return search(UncachedDecoder(model, src), inputs, config, bos=PAD, eos=EOS, pad=PAD)


def output_tokens(tokens: Tensor) -> tuple[int, ...]:
    """Return the tokens after the start symbol, up to and including the end symbol."""
    output = tokens[1:].tolist()
    return tuple(output[: output.index(EOS) + 1] if EOS in output else output)


def config(beam: int, alpha: float, n_best: int) -> SearchConfig:
    return SearchConfig(
        beam_size=beam,
        n_best=n_best,
        length_penalty=alpha,
        length={"max_ratio": 0.0, "max_extra": MAX_LENGTH},
        stop_rule="exact",
    )


def test_greedy_search_equals_transformers(model: MarianMTModel) -> None:
    src = sources()
    expected = model.generate(
        src, attention_mask=(src != PAD).long(), max_new_tokens=MAX_LENGTH, bad_words_ids=[[PAD]]
    )
    results = run_search(model, src, config(beam=1, alpha=1.0, n_best=1))
    assert [h[0].tokens for h in results] == [output_tokens(row) for row in expected]
    assert len({len(h[0].tokens) for h in results}) > 2


@pytest.mark.parametrize("n_best", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_beam_search_equals_transformers(model: MarianMTModel, alpha: float, n_best: int) -> None:
    src = sources()
    expected = model.generate(
        src,
        attention_mask=(src != PAD).long(),
        max_new_tokens=MAX_LENGTH,
        bad_words_ids=[[PAD]],
        num_beams=4,
        num_return_sequences=n_best,
        length_penalty=alpha,
        early_stopping="never",
        return_dict_in_generate=True,
        output_scores=True,
    )
    results = run_search(model, src, config(4, alpha, n_best))
    flat = [h for hypotheses in results for h in hypotheses]
    assert [h.tokens for h in flat] == [output_tokens(row) for row in expected.sequences]
    scores = torch.tensor([h.score for h in flat])
    torch.testing.assert_close(scores, expected.sequences_scores, rtol=0, atol=1e-5)
    assert {h.is_finished for h in flat} == ({True, False} if alpha else {True})
