"""Compare encoding in groups of similar length with encoding of the full batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.engines.torch_decoder import encode_in_groups, find_length_group_ends
from seq2see.model import ModelConfig, Transformer
from seq2see.model.recorder import NullRecorder

LENGTHS = [9, 9, 9, 6, 5, 5, 5, 5, 3, 1]


def model(**settings: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 8, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 1, "heads": 2}
    return Transformer.from_config(ModelConfig(vocab_size=12, **sizes, **settings)).double().eval()


def sources(lengths: list[int]) -> Tensor:
    torch.manual_seed(2)
    positions_S = torch.arange(max(lengths))
    return torch.randint(3, 12, (len(lengths), len(positions_S))) * (
        positions_S < torch.tensor(lengths)[:, None]
    )


@pytest.fixture
def calls(monkeypatch) -> list[tuple[int, ...]]:
    """Return the list of the shapes that the encoder gets."""
    shapes: list[tuple[int, ...]] = []
    encode = Transformer.encode

    def recording_encode(self: Transformer, source_BS: Tensor, *more: Any) -> Any:
        shapes.append(tuple(source_BS.shape))
        return encode(self, source_BS, *more)

    monkeypatch.setattr(Transformer, "encode", recording_encode)
    return shapes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": {"placement": "pre"}},
        {"norm": {"kind": "batch"}},
        {"positions": {"kind": "relative"}},
        {"encoder_attention": {"kind": "linformer", "rank": 3, "max_length": 16}},
    ],
    ids=["paper", "pre-norm", "batch norm", "relative", "linformer"],
)
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[::-1], LENGTHS[::3] + LENGTHS[::2]])
def test_encoding_in_groups_equals_encoding_of_batch(
    settings: dict[str, Any], lengths: list[int], monkeypatch
) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    net, source_BS = model(**settings), sources(lengths)
    batch, groups = net.encode(source_BS), encode_in_groups(net, source_BS)
    assert torch.equal(groups.padding_BS, batch.padding_BS)
    is_token = ~batch.padding_BS
    torch.testing.assert_close(groups.states_BSM[is_token], batch.states_BSM[is_token])
    assert groups.states_BSM[batch.padding_BS].eq(0).all()


def test_padding_inside_sentences_is_supported(monkeypatch) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 4)
    net = model()
    source_BS = torch.tensor(
        [[3, 4, 5, 6, 7, 8], [0, 0, 3, 4, 5, 0], [6, 0, 7, 0, 8, 0], [3, 4, 0, 0, 0, 0], [0] * 6]
    )
    batch, groups = net.encode(source_BS), encode_in_groups(net, source_BS)
    is_token = ~batch.padding_BS
    torch.testing.assert_close(groups.states_BSM[is_token], batch.states_BSM[is_token])


def test_each_length_is_a_group_unless_it_is_small(monkeypatch, calls) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    encode_in_groups(model(), sources(LENGTHS))
    assert calls == [(3, 9), (2, 6), (3, 5), (2, 3)]


def test_small_batch_is_one_group(calls) -> None:
    encode_in_groups(model(), sources(LENGTHS))
    assert calls == [(10, 9)]


def test_recorder_disables_grouping(monkeypatch, calls) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    encode_in_groups(model(), sources(LENGTHS), NullRecorder())
    assert calls == [(10, 9)]


def test_find_group_ends() -> None:
    assert list(find_length_group_ends([7])) == [1]
    assert list(find_length_group_ends([600, 600, 599])) == [2, 3]
    assert list(find_length_group_ends([300, 299, 298])) == [2, 3]
