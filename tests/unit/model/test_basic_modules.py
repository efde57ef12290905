"""Tests of dropout, positions, norms, embeddings and output projection."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.errors import InputError
from seq2see.model import (
    BatchLayout,
    LinformerAttention,
    ModelBuilder,
    ModelConfig,
    Transformer,
    compute_sinusoids,
    count_parameters,
    format_model_summary,
)
from seq2see.model.basic_modules import Dropout, XavierLinear, sample_dropout_mask
from seq2see.model.positional_encodings import LearnedPositions, SinusoidalPositions


def tiny(**settings: object) -> Transformer:
    sizes = {"d_model": 8, "heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    return Transformer.from_config(ModelConfig(**{"vocab_size": 10, **sizes, **settings}))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_dropout_has_its_rate_and_preserves_the_mean(rate: float) -> None:
    count = 1_000_001  # not a multiple of 4, the number of elements per random word
    mask = sample_dropout_mask(torch.Size([count]), rate, torch.float64)
    deviation = (rate * (1 - rate) / count) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(rate, abs=5 * deviation)
    assert mask.mean().item() == pytest.approx(1, abs=5 * deviation / (1 - rate))
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])


def test_dropout_mask_is_finite_at_rates_close_to_one() -> None:
    assert sample_dropout_mask(torch.Size([100]), 0.9999999, torch.float32).isfinite().all()


def test_dropout_depends_on_seed_and_is_off_in_evaluation() -> None:
    dropout, x = Dropout(0.5), torch.ones(64)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    third = dropout(x)
    torch.manual_seed(3)
    assert not torch.equal(first, second)
    assert torch.equal(third, dropout(x))
    assert dropout.eval()(x) is x


def test_dropout_of_neighboring_elements_is_independent() -> None:
    dropped = sample_dropout_mask(torch.Size([400_000]), 0.5, torch.float64).eq(0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (dropped[:-distance] * dropped[distance:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.005)


def test_gradient_of_dropout_equals_its_mask() -> None:
    x = torch.randn(100, requires_grad=True)
    dropped = Dropout(0.4)(x)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    torch.testing.assert_close(dropped, x * gradient)


@pytest.mark.parametrize("setting", ["embedding", "residual", "attention", "activation"])
def test_each_dropout_setting_takes_effect(setting: str) -> None:
    rates = dict.fromkeys(("embedding", "residual", "attention", "activation"), 0.0)
    src, tgt = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])
    without = tiny(dropout=rates).train()
    assert torch.equal(without(src, tgt), without(src, tgt))
    with_dropout = tiny(dropout={**rates, setting: 0.5}).train()
    assert not torch.equal(with_dropout(src, tgt), with_dropout(src, tgt))


def test_stacked_matrices_are_initialized_separately() -> None:
    stacked = XavierLinear(256, 256, num_stacked=3).weight
    single = XavierLinear(256, 256).weight
    assert stacked.std().item() == pytest.approx(single.std().item(), rel=0.02)
    assert stacked.shape == (768, 256)


def test_scaled_token_embeddings_have_unit_variance() -> None:
    config = ModelConfig(vocab_size=4000, d_model=256)
    embedding = ModelBuilder(config).build_token_embedding(config.vocab_size)
    assert embedding.weight_VM.var().item() == pytest.approx(1 / 256, rel=0.02)
    builder = ModelBuilder(config.replace(positions={"kind": "none"}))
    embeddings = builder.build_embeddings(embedding).eval()
    assert embeddings(torch.arange(4000)[None]).var().item() == pytest.approx(1, rel=0.02)


def test_sinusoids_are_defined_beyond_cached_positions() -> None:
    positions = SinusoidalPositions("interleaved", "paper")
    far = positions(torch.zeros(1, 3, 8), offset=100_000)
    expected = compute_sinusoids(torch.arange(100_000, 100_003), 8).float()
    torch.testing.assert_close(far[0], expected)
    across = positions(torch.zeros(1, 600, 8))
    torch.testing.assert_close(across[0], compute_sinusoids(torch.arange(600), 8).float())


def test_sinusoid_layouts_and_frequencies_are_independent() -> None:
    """Tensor2Tensor's frequencies differ from the paper's, not only its layout."""
    position = torch.arange(512)
    paper = compute_sinusoids(position, 512, "halves", "paper")
    other = compute_sinusoids(position, 512, "halves", "tensor2tensor")
    assert (paper - other).abs().max().item() > 0.2
    interleaved = compute_sinusoids(position, 512, "interleaved", "paper")
    torch.testing.assert_close(torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), 1), paper)


def test_sentence_longer_than_learned_positions_raises_input_error() -> None:
    positions = LearnedPositions(8, max_length=5)
    assert positions(torch.zeros(1, 5, 8)).shape == (1, 5, 8)
    with pytest.raises(InputError, match="at most 5 tokens .* but has 6 instead"):
        positions(torch.zeros(1, 6, 8))
    with pytest.raises(InputError, match="but has 7 instead"):
        positions(torch.zeros(1, 1, 8), offset=6)


def test_sentence_longer_than_linformer_limit_raises_input_error() -> None:
    attention = LinformerAttention(4, 2, 1.0, Dropout(0.0))
    x = torch.zeros(1, 1, 5, 8)
    with pytest.raises(InputError, match="at most 4 tokens .* but has 5 instead"):
        attention(x, x, x)


def test_layout_removes_padding_and_restores_it_as_zeros() -> None:
    padding = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1]]).bool()
    x = torch.arange(1.0, 19.0).view(3, 3, 2)
    layout = BatchLayout.from_padding(padding)
    flat = layout.flatten(x)
    assert flat[:, 0].tolist() == [1, 3, 5, 7, 15]
    assert torch.equal(layout.unflatten(flat), x.masked_fill(padding[:, :, None], 0))
    without_padding = BatchLayout.from_padding(torch.zeros(3, 3).bool())
    assert without_padding.flatten(x).data_ptr() == x.data_ptr()
    assert torch.equal(without_padding.unflatten(without_padding.flatten(x)), x)


@pytest.mark.parametrize("side", ["source", "target"])
def test_batch_norm_ignores_padding(side: str) -> None:
    """The running statistics do not depend on the amount of padding."""
    ids = {"source": torch.tensor([[1, 2, 3], [4, 5, 0]]), "target": torch.tensor([[1, 2], [3, 0]])}
    longer = {**ids, side: nn.functional.pad(ids[side], (0, 7))}
    means = []
    for batch in (ids, longer):
        torch.manual_seed(5)
        model = tiny(norm={"kind": "batch"}, dropout={"embedding": 0, "residual": 0}).train()
        model(batch["source"], batch["target"])
        means.append([b for name, b in model.named_buffers() if "running" in name])
    assert len(means[0]) == 10
    for a, b in zip(*means, strict=True):
        torch.testing.assert_close(a, b)


def test_pad_id_as_start_symbol_is_not_removed() -> None:
    decoder = tiny().train().decoder
    layout = decoder._layout(torch.tensor([[0, 4, 0], [0, 0, 0]]))
    assert layout.flatten(torch.arange(6).view(2, 3, 1)).flatten().tolist() == [0, 1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_log_probabilities_are_equal_in_inference_mode(dtype: torch.dtype) -> None:
    model, states = tiny().to(dtype), torch.randn(2, 3, 8).to(dtype)
    expected = model.output.log_probabilities(states)
    with torch.inference_mode():
        actual = model.output.log_probabilities(states)
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected.detach())


def test_log_probabilities_of_bfloat16_are_float32() -> None:
    model = tiny().bfloat16()
    assert model.output.log_probabilities(torch.randn(1, 2, 8).bfloat16()).dtype == torch.float32


INVALID_IDS = {
    "id beyond the vocabulary": (torch.tensor([[1, 10]]), "from 0 to 9.* but is 10 instead"),
    "negative id": (torch.tensor([[1, -3]]), "from 0 to 9.* but is -3 instead"),
    "empty batch": (torch.empty(0, 3, dtype=torch.long), "at least one sentence.* but is 0 × 3"),
    "empty sentence": (torch.empty(2, 0, dtype=torch.long), "one token, but is 2 × 0"),
    "list": ([[1, 2]], "a tensor, but are list instead"),
    "one axis": (torch.tensor([1, 2]), "two axes .* but have 1 instead"),
    "floats": (torch.ones(1, 2), "int64 or int32, but are torch.float32 instead"),
}


@pytest.mark.parametrize(("ids", "message"), INVALID_IDS.values(), ids=INVALID_IDS)
def test_invalid_ids_raise_input_error_with_value(ids: torch.Tensor, message: str) -> None:
    model, valid = tiny(), torch.tensor([[1, 2]])
    with pytest.raises(InputError, match=message):
        model(ids, valid)
    with pytest.raises(InputError, match=message):
        model.decode(ids, model.encode(valid))


def test_target_without_source_raises_input_error() -> None:
    ids = torch.tensor([[1, 2], [3, 4]])
    with pytest.raises(InputError, match="each of the 2 sources, but there are 1 instead"):
        tiny()(ids, ids[:1])


def test_token_types_without_embedding_raise_input_error() -> None:
    ids = torch.tensor([[1, 2]])
    with pytest.raises(InputError, match="this model has none"):
        tiny().encoder(ids, types_BS=ids)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (torch.tensor([[0, 2]]), "from 0 to 1, the last row of the embedding, but is 2 instead"),
    ],
)
def test_invalid_token_types_raise_input_error(types: torch.Tensor, message: str) -> None:
    encoder = tiny(embeddings={"token_types": 2}).encoder
    with pytest.raises(InputError, match=message):
        encoder(torch.tensor([[1, 2]]), types)


def test_token_types_change_states_and_default_to_zero() -> None:
    encoder, ids = tiny(embeddings={"token_types": 2}).eval().encoder, torch.tensor([[1, 2]])
    states = [encoder(ids, types).states_BSM for types in (None, ids * 0, ids * 0 + 1)]
    assert torch.equal(states[0], states[1])
    assert not torch.allclose(states[0], states[2])


def test_batch_norm_of_one_token_raises_input_error() -> None:
    model = tiny(norm={"kind": "batch"})
    one = torch.tensor([[1]])
    with pytest.raises(InputError, match="at least 2 tokens"):
        model.train()(one, one)
    assert model.eval()(one, one).isfinite().all()


def test_summary_counts_each_parameter_once() -> None:
    model = Transformer.from_config(ModelConfig.from_preset("tiny", vocab_size=100))
    lines = format_model_summary(model).splitlines()
    assert lines[0].split() == ["Transformer", f"{count_parameters(model):,}"]
    assert any("layers 0–3" in line and "4 × EncoderLayer" in line for line in lines)
    assert any(line.endswith("shared") and "100×128" in line for line in lines)
    tops = [line for line in lines if line.startswith(("├─ ", "└─ "))]
    numbers = [
        int(n.replace(",", "")) for n in (line.split()[-1] for line in tops) if n[0].isdigit()
    ]
    assert sum(numbers) == count_parameters(model)


def test_builder_subclass_replaces_a_module() -> None:
    class Doubling(nn.Module):
        def forward(self, x_BTM: torch.Tensor) -> torch.Tensor:
            return 2 * x_BTM

    class MyBuilder(ModelBuilder):
        def build_feed_forward(self) -> nn.Module:  # type: ignore[override]
            return Doubling()

    config = ModelConfig(vocab_size=10, d_model=8, heads=2, encoder_layers=2, decoder_layers=1)
    model = MyBuilder(config).build_transformer()
    assert sum(isinstance(m, Doubling) for m in model.modules()) == 3
    assert model(torch.tensor([[1, 2]]), torch.tensor([[3]])).shape == (1, 1, 10)
