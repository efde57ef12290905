"""The fast products are those of torch, whatever lies where."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seq2see import cpu
from seq2see.cpu import PackedLinear, matmul

# N rows, I inputs, O outputs

SHAPES = [(1, 1, 1), (3, 5, 7), (64, 32, 1000), (300, 128, 517)]


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def transposed(*shape: int) -> Tensor:
    return drawn(*reversed(shape)).t()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Give the shapes that oneDNN has multiplied."""
    seen, linear = [], cpu._linear

    def counted(x_NI: Tensor, *others: Tensor | None) -> Tensor:
        seen.append(x_NI.shape)
        return linear(x_NI, *others)

    monkeypatch.setattr(cpu, "_linear", counted)
    return seen


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("left", [drawn, transposed])
@pytest.mark.parametrize("right", [drawn, transposed])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_product_is_that_of_torch(calls, shape, left, right, has_bias: bool) -> None:
    rows, inputs, outputs = shape
    x_NI, weight_IO = left(rows, inputs), right(inputs, outputs)
    bias_O = drawn(outputs) if has_bias else None
    ours = matmul(x_NI, weight_IO, bias_O)
    theirs = x_NI.double() @ weight_IO.double() + (0 if bias_O is None else bias_O)
    assert ours.is_contiguous()
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)
    assert calls == [x_NI.shape]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_packed_weights_give_the_same(shape, has_bias: bool) -> None:
    rows, inputs, outputs = shape
    weight_OI, bias_O = drawn(outputs, inputs), drawn(outputs) if has_bias else None
    linear = PackedLinear(weight_OI, bias_O)
    for count in (rows, 2 * rows):
        x_NI = drawn(count, inputs)
        torch.testing.assert_close(
            linear(x_NI), matmul(x_NI, weight_OI.t(), bias_O), rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_take_the_usual_way(calls, dtype: torch.dtype) -> None:
    x_NI, weight_IO, bias_O = (drawn(*s).to(dtype) for s in ((3, 5), (5, 7), (7,)))
    assert matmul(x_NI, weight_IO, bias_O).equal(torch.addmm(bias_O, x_NI, weight_IO))
    assert matmul(x_NI, weight_IO).equal(x_NI @ weight_IO)
    assert not calls


@pytest.mark.parametrize("bias_O", [None, torch.ones(7)], ids=["no bias", "bias"])
def test_no_rows_at_all(bias_O: Tensor | None) -> None:
    assert matmul(drawn(0, 5), drawn(5, 7), bias_O).shape == (0, 7)


def test_without_onednn_it_is_torch(calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert matmul(drawn(3, 5), drawn(5, 7)).equal(drawn(3, 5) @ drawn(5, 7))
    assert not calls
