"""Compare the fast matrix products with torch, for all memory layouts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seq2see import cpu
from seq2see.cpu import PackedLinear, matmul

# N rows, I inputs, O outputs

SHAPES = [(1, 1, 1), (3, 5, 7), (64, 32, 1000), (300, 128, 517)]


def random_tensor(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def random_transposed(*shape: int) -> Tensor:
    return random_tensor(*reversed(shape)).t()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Return the list of shapes that oneDNN multiplies."""
    shapes, linear = [], cpu._linear

    def recording_linear(x_NI: Tensor, *others: Tensor | None) -> Tensor:
        shapes.append(x_NI.shape)
        return linear(x_NI, *others)

    monkeypatch.setattr(cpu, "_linear", recording_linear)
    return shapes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("left", [random_tensor, random_transposed])
@pytest.mark.parametrize("right", [random_tensor, random_transposed])
@pytest.mark.parametrize("has_bias", [True, False])
def test_matmul_equals_torch(calls, shape, left, right, has_bias: bool) -> None:
    rows, inputs, outputs = shape
    x_NI, weight_IO = left(rows, inputs), right(inputs, outputs)
    bias_O = random_tensor(outputs) if has_bias else None
    ours = matmul(x_NI, weight_IO, bias_O)
    theirs = x_NI.double() @ weight_IO.double() + (0 if bias_O is None else bias_O)
    assert ours.is_contiguous()
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)
    assert calls == [x_NI.shape]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_packed_linear_equals_matmul(shape, has_bias: bool) -> None:
    rows, inputs, outputs = shape
    weight_OI, bias_O = random_tensor(outputs, inputs), random_tensor(outputs) if has_bias else None
    linear = PackedLinear(weight_OI, bias_O)
    for count in (rows, 2 * rows):
        x_NI = random_tensor(count, inputs)
        torch.testing.assert_close(
            linear(x_NI), matmul(x_NI, weight_OI.t(), bias_O), rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_use_torch(calls, dtype: torch.dtype) -> None:
    x_NI, weight_IO, bias_O = (random_tensor(*s).to(dtype) for s in ((3, 5), (5, 7), (7,)))
    assert matmul(x_NI, weight_IO, bias_O).equal(torch.addmm(bias_O, x_NI, weight_IO))
    assert matmul(x_NI, weight_IO).equal(x_NI @ weight_IO)
    assert not calls


@pytest.mark.parametrize("bias_O", [None, torch.ones(7)], ids=["no bias", "bias"])
def test_matmul_without_rows(bias_O: Tensor | None) -> None:
    assert matmul(random_tensor(0, 5), random_tensor(5, 7), bias_O).shape == (0, 7)


def test_matmul_without_onednn_uses_torch(calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_has_onednn_operators", lambda: False)
    assert matmul(random_tensor(3, 5), random_tensor(5, 7)).equal(
        random_tensor(3, 5) @ random_tensor(5, 7)
    )
    assert not calls
