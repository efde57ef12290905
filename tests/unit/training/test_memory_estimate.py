"""The estimated memory is a lower bound, and settings that exceed the machine are rejected."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seq2see import cpu
from seq2see.data.batch_loader import Batch
from seq2see.errors import ConfigError
from seq2see.loss import LossConfig
from seq2see.model import Transformer, count_parameters
from seq2see.text import PAD_ID
from seq2see.training import memory_estimate
from seq2see.training.config import RunConfig, build_demo_config
from seq2see.training.memory_estimate import check_memory, estimate_training_memory
from seq2see.training.objective import Objective


def run_config(**sections: dict[str, Any]) -> RunConfig:
    return build_demo_config(1, 1).replace(**sections)


def check(config: RunConfig, processes: int = 1) -> None:
    check_memory(config, config.build_model_config(config.tokenizer.vocab_size), processes)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_estimated_activations_are_a_lower_bound(dropout: float) -> None:
    """Compared with the tensors that autograd stores for one batch."""
    model = {"dropout": {"embedding": dropout, "residual": dropout}}
    config = run_config(model=model, batches={"max_tokens": 2 * 32 * 20, "max_length": 100})
    model_config = config.build_model_config(1200)
    objective = Objective(Transformer.from_config(model_config), LossConfig(), PAD_ID)
    ids = torch.randint(4, 1200, (32, 20))
    stored: dict[int, int] = {}

    def store(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        stored[storage.data_ptr()] = storage.nbytes()
        return tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in objective.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        loss = objective(Batch(ids, ids))
    measured = sum(size for pointer, size in stored.items() if pointer not in parameters)
    estimate = estimate_training_memory(config, model_config, 1, 1)
    assert loss.total.requires_grad
    assert 0.3 * measured < estimate.activations < measured
    assert estimate.weights == 4 * count_parameters(objective.model)


@pytest.mark.parametrize(
    ("sections", "processes", "problem"),
    [
        (
            {"model": {"d_model": 65536}},
            1,
            "`model.d_model` must be lower, but is 65536: training ",
        ),
        ({"model": {"encoder_layers": 1000, "d_model": 512}}, 1, "`model.encoder_layers` must be"),
        ({"tokenizer": {"vocab_size": 10**9}}, 1, "`tokenizer.vocab_size` must be lower, but is 1"),
        ({"batches": {"max_tokens": 999_999_999_999}}, 1, "`batches.max_tokens` must be lower"),
        ({"train": {"processes": 1000}}, 1000, "`train.processes` must be lower, but is 1000"),
    ],
)
def test_settings_that_exceed_the_memory_are_rejected(
    sections, processes: int, problem: str, monkeypatch
) -> None:
    monkeypatch.setattr(memory_estimate, "find_memory_size", lambda: 24e9)
    with pytest.raises(ConfigError, match=problem) as caught:
        check(run_config(**sections), processes)
    assert "but this machine has 24 GB" in str(caught.value)
    monkeypatch.setattr(memory_estimate, "find_memory_size", lambda: 1e18)
    check(run_config(**sections), processes)


def test_processes_of_other_machines_are_not_counted(monkeypatch) -> None:
    config = run_config(model={"preset": "big"}, batches={"max_tokens": 100_000})
    model = config.build_model_config(1200)
    single = estimate_training_memory(config, model, 1, 1)
    one_of_four = estimate_training_memory(config, model, 1, 4)
    assert one_of_four.weights == single.weights
    assert one_of_four.activations == single.activations / 4
    sharded = config.replace(train={"fsdp": True})
    assert estimate_training_memory(sharded, model, 2, 4).weights == single.weights / 2


def test_memory_size_is_that_of_the_container_if_lower(monkeypatch, tmp_path) -> None:
    for content, is_limit in (("1000", True), ("max", False)):
        path = tmp_path / content
        path.write_text(content)
        monkeypatch.setattr(cpu, "_CGROUP_LIMITS", (str(path), str(tmp_path / "none")))
        assert (cpu.find_memory_size() == 1000) == is_limit
        assert cpu.find_memory_size() > 0
