"""A memory made of groups is that of the whole batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.engines.torch_decoder import encode_in_groups, find_group_ends
from seq2see.model import ModelConfig, Transformer
from seq2see.model.recorder import NullRecorder

LENGTHS = [9, 9, 9, 6, 5, 5, 5, 5, 3, 1]


def model(**settings: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 8, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 1, "heads": 2}
    return Transformer.from_config(ModelConfig(vocab_size=12, **sizes, **settings)).double().eval()


def sources(lengths: list[int]) -> Tensor:
    torch.manual_seed(2)
    places_S = torch.arange(max(lengths))
    return torch.randint(3, 12, (len(lengths), len(places_S))) * (
        places_S < torch.tensor(lengths)[:, None]
    )


@pytest.fixture
def calls(monkeypatch) -> list[tuple[int, ...]]:
    """Hear which batches the encoder gets."""
    heard: list[tuple[int, ...]] = []
    encode = Transformer.encode

    def hear(self: Transformer, source_BS: Tensor, *more: Any) -> Any:
        heard.append(tuple(source_BS.shape))
        return encode(self, source_BS, *more)

    monkeypatch.setattr(Transformer, "encode", hear)
    return heard


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
def test_groups_are_encoded_as_the_whole(
    settings: dict[str, Any], lengths: list[int], monkeypatch
) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    net, source_BS = model(**settings), sources(lengths)
    whole, groups = net.encode(source_BS), encode_in_groups(net, source_BS)
    assert torch.equal(groups.padding_BS, whole.padding_BS)
    seen = ~whole.padding_BS
    torch.testing.assert_close(groups.states_BSM[seen], whole.states_BSM[seen])
    assert groups.states_BSM[whole.padding_BS].eq(0).all()


def test_padding_may_be_anywhere(monkeypatch) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 4)
    net = model()
    source_BS = torch.tensor(
        [[3, 4, 5, 6, 7, 8], [0, 0, 3, 4, 5, 0], [6, 0, 7, 0, 8, 0], [3, 4, 0, 0, 0, 0], [0] * 6]
    )
    whole, groups = net.encode(source_BS), encode_in_groups(net, source_BS)
    seen = ~whole.padding_BS
    torch.testing.assert_close(groups.states_BSM[seen], whole.states_BSM[seen])


def test_each_length_is_a_group_unless_it_has_few_tokens(monkeypatch, calls) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    encode_in_groups(model(), sources(LENGTHS))
    assert calls == [(3, 9), (2, 6), (3, 5), (2, 3)]


def test_few_tokens_are_one_group(calls) -> None:
    encode_in_groups(model(), sources(LENGTHS))
    assert calls == [(10, 9)]


def test_whoever_listens_hears_the_whole_batch(monkeypatch, calls) -> None:
    monkeypatch.setattr("seq2see.engines.torch_decoder.MIN_GROUP_TOKENS", 10)
    encode_in_groups(model(), sources(LENGTHS), NullRecorder())
    assert calls == [(10, 9)]


def test_groups_end_where_the_sources_do() -> None:
    assert list(find_group_ends([7])) == [1]
    assert list(find_group_ends([600, 600, 599])) == [2, 3]
    assert list(find_group_ends([300, 299, 298])) == [2, 3]
