"""The objective, single updates, checkpoints and precision."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from seq2see.data.batch_loader import Batch
from seq2see.errors import ConfigError, InputError, TrainingError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PackedIds
from seq2see.training.checkpoints import (
    CheckpointDirectory,
    ExponentialMovingAverage,
    TrainingState,
    average_checkpoints,
)
from seq2see.training.config import CheckpointConfig
from seq2see.training.distributed import WorkerCommunicator, choose_dtype
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    OptimizerName,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.trainer import ModelUpdater

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9]), ([9, 8, 7, 6], [5]), ([6, 6], [7, 7])]
SMALL = ModelConfig(vocab_size=12, d_model=16, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1)
NO_DROPOUT = SMALL.replace(dropout={"embedding": 0.0, "residual": 0.0})


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    return Batch.from_packed_ids(PackedIds.from_lists(sources), PackedIds.from_lists(targets))


def build_objective(config: ModelConfig = NO_DROPOUT, loss: LossConfig | None = None) -> Objective:
    torch.manual_seed(1)
    return Objective(Transformer.from_config(config), loss or LossConfig(), 0)


def build_updater(
    objective: Objective, clip: float = 0.0, optimizer: str = "adam", **schedule
) -> ModelUpdater:
    settings = {"kind": "constant", "peak_lr": 0.01, "warmup_updates": 0, **schedule}
    return ModelUpdater(
        objective,
        build_optimizer(OptimizerConfig(kind=optimizer), objective),
        LearningRateSchedule(ScheduleConfig(**settings), 16, 100),
        clip,
        seed=1,
        workers=WorkerCommunicator(),
    )


def weights(objective: Objective) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in objective.parameters()]


# The objective


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_objective_equals_torch_cross_entropy(smoothing: float) -> None:
    objective = build_objective(loss=LossConfig(label_smoothing=smoothing)).train()
    batch = batch_of(PAIRS)
    ours = objective(batch)
    logits = objective.model(batch.source_BS, batch.target_BT[:, :-1]).flatten(0, 1)
    theirs = F.cross_entropy(
        logits,
        batch.labels_BT.flatten(),
        ignore_index=0,
        reduction="sum",
        label_smoothing=smoothing,
    )
    assert ours.num_tokens == batch.num_target_tokens == 13
    assert ours.total.item() == pytest.approx(theirs.item(), rel=1e-5)


def test_evaluation_mode_has_no_smoothing_and_no_dropout() -> None:
    objective = build_objective(SMALL).eval()
    batch = batch_of(PAIRS)
    first, second = objective(batch), objective(batch)
    assert first.total == second.total == first.nll


def test_loss_of_padded_batch_equals_sum_of_single_pairs() -> None:
    objective = build_objective().train()
    together = objective(batch_of(PAIRS)).total.item()
    assert together == pytest.approx(
        sum(objective(batch_of([p])).total.item() for p in PAIRS), rel=1e-5
    )


def test_empty_batch_has_zero_gradients() -> None:
    objective = build_objective().train()
    loss = objective(batch_of([]))
    loss.total.backward()
    assert loss.num_tokens == 0
    assert all(p.grad is not None and not p.grad.any() for p in objective.parameters())


def test_empty_batch_does_not_change_batch_norm() -> None:
    """The model is run on one token, which must not enter the statistics."""
    objective = build_objective(NO_DROPOUT.replace(norm={"kind": "batch"})).train()
    before = {name: buffer.clone() for name, buffer in objective.named_buffers()}
    objective(batch_of([])).total.backward()
    assert all(p.grad is not None and not p.grad.any() for p in objective.parameters())
    assert before
    assert all(buffer.equal(before[name]) for name, buffer in objective.named_buffers())
    assert all(module.training for module in objective.modules())


def test_empty_batch_runs_every_layer() -> None:
    """With FSDP, the layers of the other workers wait for it."""
    objective, executed = build_objective().train(), []
    layers = [*objective.model.encoder.layers, *objective.model.decoder.layers]
    for layer in layers:
        layer.register_forward_hook(lambda layer, *_: executed.append(layer))
    objective(batch_of([]))
    assert executed == layers


def test_r_drop_and_distillation_reduce_loss() -> None:
    for config, teacher in [
        (LossConfig(r_drop_weight=5.0), None),
        (LossConfig(distillation_weight=0.5), Transformer.from_config(NO_DROPOUT).eval()),
    ]:
        torch.manual_seed(1)
        objective = Objective(Transformer.from_config(SMALL), config, 0, teacher)
        assert sum(1 for _ in objective.parameters()) == sum(
            1 for _ in objective.model.parameters()
        )
        updater = build_updater(objective)
        reports = [updater(n, [batch_of(PAIRS)]) for n in range(1, 30)]
        assert reports[-1].loss < reports[0].loss
        # R-Drop computes each pair twice, but counts its tokens once.
        assert (reports[0].target_tokens, reports[0].source_tokens) == (13, 14)


# Updates


def test_gradient_accumulation_equals_one_large_batch() -> None:
    one, many = build_objective(), build_objective()
    full = build_updater(one, clip=0.5)(1, [batch_of(PAIRS)])
    parts = build_updater(many, clip=0.5)(
        1, [batch_of(PAIRS[:1]), batch_of([]), batch_of(PAIRS[1:])]
    )
    assert parts.loss == pytest.approx(full.loss, rel=1e-6)
    assert (
        (parts.target_tokens, parts.source_tokens)
        == (full.target_tokens, full.source_tokens)
        == (13, 14)
    )
    assert parts.gradient_norm == pytest.approx(full.gradient_norm, rel=1e-5)
    gradients = [[p.grad for p in objective.parameters()] for objective in (one, many)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)  # Adam amplifies small differences


def test_update_depends_only_on_its_number() -> None:
    """Random numbers drawn before do not change dropout."""
    first, second = build_objective(SMALL), build_objective(SMALL)
    build_updater(first)(7, [batch_of(PAIRS)])
    torch.rand(3)
    build_updater(second)(7, [batch_of(PAIRS)])
    assert all(a.equal(b) for a, b in zip(weights(first), weights(second), strict=True))
    third = build_objective(SMALL)
    build_updater(third)(8, [batch_of(PAIRS)])
    assert not all(a.equal(b) for a, b in zip(weights(first), weights(third), strict=True))


def test_clipping_limits_gradient_norm() -> None:
    objective = build_objective()
    report = build_updater(objective, clip=1e-3)(1, [batch_of(PAIRS)])
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in objective.parameters()))
    assert report.gradient_norm > 1e-2
    assert norm == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "advice"), [("constant", "Try a lower schedule.peak_lr, a"), ("noam", "Try a longer")]
)
def test_divergence_error_advises_settings_of_the_schedule(kind: str, advice: str) -> None:
    objective = build_objective()
    with torch.no_grad():
        objective.model.output.tokens.weight_VM[3] = torch.nan
    with pytest.raises(
        TrainingError, match=f"{advice}.*schedule.warmup_updates, or optimizer.max_grad_norm = 1"
    ):
        build_updater(objective, kind=kind, warmup_updates=9)(4, [batch_of(PAIRS)])


def test_divergence_leaves_weights_unchanged() -> None:
    objective = build_objective()
    with torch.no_grad():
        objective.model.output.tokens.weight_VM[3] = torch.nan
    before = weights(objective)
    with pytest.raises(
        TrainingError,
        match=r"diverged at update 4 \(loss nan, gradient norm nan, learning rate 0.01\)",
    ):
        build_updater(objective)(4, [batch_of(PAIRS)])
    for a, b in zip(before, weights(objective), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_adam_has_parameters_of_paper() -> None:
    groups = build_optimizer(
        OptimizerConfig(kind="adamw", weight_decay=0.1), build_objective()
    ).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(group["betas"] == (0.9, 0.98) and group["eps"] == 1e-9 for group in groups)
    for kind in ("adam", "muon"):
        with pytest.raises(
            ConfigError, match=f"must be 0 with {kind}, but is 0.1 instead: only adamw supports it"
        ):
            OptimizerConfig(kind=kind, weight_decay=0.1)


def test_weight_decay_excludes_norms_and_biases() -> None:
    model = build_objective(NO_DROPOUT.replace(attention={"kind": "additive"})).model
    groups = build_optimizer(OptimizerConfig(kind="adamw", weight_decay=0.1), model).param_groups
    decaying, others = ({id(p) for p in group["params"]} for group in groups)
    names = {name: id(p) for name, p in model.named_parameters()}
    spared = {name for name, number in names.items() if number in others}
    assert decaying | others == set(names.values())
    assert not decaying & others
    assert spared == {name for name in names if "bias" in name or "norm" in name}
    assert "encoder.layers.0.attention.attention.bias_HD" in spared


def test_losses_are_read_after_backward_of_all_batches(monkeypatch) -> None:
    """Reading a number waits for the GPU, which would be idle until the next batch is submitted."""
    calls = []
    backward, to_float = torch.Tensor.backward, torch.Tensor.__float__
    monkeypatch.setattr(
        torch.Tensor, "backward", lambda *args: calls.append("backward") or backward(*args)
    )
    monkeypatch.setattr(
        torch.Tensor, "__float__", lambda tensor: calls.append("read") or to_float(tensor)
    )
    build_updater(build_objective())(1, [batch_of(PAIRS[:2]), batch_of(PAIRS[2:])])
    assert calls[:2] == ["backward", "backward"]
    assert "read" in calls


# Checkpoints


def build_state(objective: Objective, updater: ModelUpdater | None = None) -> TrainingState:
    updater = updater or build_updater(objective)
    return TrainingState(objective.model, updater.optimizer, updater.schedule)


def checkpoints_in(directory: Path, keep_last: int = 2) -> CheckpointDirectory:
    return CheckpointDirectory(directory, CheckpointConfig(interval=1, keep_last=keep_last))


def save(checkpoints: CheckpointDirectory, state: TrainingState, update: int) -> Path:
    state.progress.update = update
    checkpoints.save(state, WorkerCommunicator())
    return checkpoints.path(update)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_resumed_training_is_bit_identical(tmp_path: Path, optimizer: str) -> None:
    checkpoints = checkpoints_in(tmp_path)
    uninterrupted = build_objective(SMALL)
    updater = build_updater(uninterrupted, optimizer=optimizer)
    for number in range(1, 7):
        updater(number, [batch_of(PAIRS)])
        if number == 3:
            save(checkpoints, build_state(uninterrupted, updater), 3)
    resumed = build_objective(SMALL.replace(d_ff=16))
    later = build_updater(resumed, optimizer=optimizer)
    state = build_state(resumed, later)
    checkpoints.restore_last(state)
    for number in range(state.progress.update + 1, 7):
        later(number, [batch_of(PAIRS)])
    assert all(a.equal(b) for a, b in zip(weights(uninterrupted), weights(resumed), strict=True))


def test_last_and_best_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints, state = checkpoints_in(tmp_path), build_state(build_objective())
    state.progress.best_update = 2
    for update in range(1, 6):
        save(checkpoints, state, update)
    assert checkpoints.saved_updates() == [2, 4, 5]


def test_incomplete_checkpoint_is_ignored(tmp_path: Path, monkeypatch) -> None:
    checkpoints, state = checkpoints_in(tmp_path), build_state(build_objective())
    save(checkpoints, state, 1)
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(
        TrainingError, match="000000002 cannot be written: disk full; earlier check"
    ):
        save(checkpoints, state, 2)
    assert checkpoints.saved_updates() == [1]
    monkeypatch.undo()
    save(checkpoints, state, 2)
    assert checkpoints.saved_updates() == [1, 2]


@pytest.mark.parametrize(
    ("old", "new"), [("}", ""), ('"tensors"', '"tensor"'), ('"update"', '"updates"')]
)
def test_damaged_checkpoint_is_named_in_error(tmp_path: Path, old: str, new: str) -> None:
    """A value may be cut off, missing or unknown."""
    checkpoints, state = checkpoints_in(tmp_path), build_state(build_objective())
    file = save(checkpoints, state, 1) / "state.json"
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(
        InputError, match="000000001 is damaged: .*; delete it to continue from the previous"
    ):
        checkpoints.restore_last(state)


@pytest.mark.parametrize("name", ["encoder.layers.0.norm.weight/exp_avg", "new/exp_avg"])
def test_optimizer_file_with_other_moments_is_damaged(tmp_path: Path, name: str) -> None:
    """Otherwise these moments would restart at zero without an error."""
    objective = build_objective()
    updater, checkpoints = build_updater(objective), checkpoints_in(tmp_path)
    updater(1, [batch_of(PAIRS)])
    state = build_state(objective, updater)
    file = save(checkpoints, state, 1) / "optimizer.safetensors"
    moments = load_file(file)
    name = name if name.startswith("new") else min(moments)
    if moments.pop(name, None) is None:
        moments[name] = torch.zeros(1)
    save_file(moments, file)
    with pytest.raises(
        InputError, match=f"000000001 is damaged: optimizer.safetensors .*{name}; delete it"
    ):
        checkpoints.restore_last(state)


def test_average_of_checkpoints(tmp_path: Path) -> None:
    checkpoints, objective = checkpoints_in(tmp_path, keep_last=3), build_objective()
    state = build_state(objective)
    directories = []
    for update in (1, 2, 3):
        with torch.no_grad():
            objective.model.output.tokens.weight_VM.fill_(float(update))
        directories.append(save(checkpoints, state, update))
    mean = average_checkpoints(directories)
    assert mean["encoder.embeddings.tokens.weight_VM"].eq(2.0).all()
    assert mean["encoder.embeddings.tokens.weight_VM"].dtype == torch.float32


def test_moving_average_equals_formula() -> None:
    objective = build_objective()
    average = ExponentialMovingAverage(objective.model, decay=0.5)
    name = "encoder.embeddings.tokens.weight_VM"
    expected = 0.0
    for update, value in enumerate((1.0, 2.0, 4.0, 8.0), 1):
        with torch.no_grad():
            objective.model.output.tokens.weight_VM.fill_(value)
        average.update(update)
        decay = min(0.5, (update - 1) / update)
        expected = decay * expected + (1 - decay) * value
        assert average.weights[name].eq(expected).all()


# Precision


def test_auto_precision_on_cpu_is_float32() -> None:
    cpu = torch.device("cpu")
    settings = ("auto", "float32", "bfloat16")
    expected = [torch.float32, torch.float32, torch.bfloat16]
    assert [choose_dtype(each, cpu) for each in settings] == expected


def test_bfloat16_loss_is_close_to_float32() -> None:
    losses = []
    for precision in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        objective = Objective(Transformer.from_config(NO_DROPOUT), LossConfig(), 0, None, precision)
        updater = build_updater(objective)
        losses.append([updater(n, [batch_of(PAIRS)]).loss for n in range(1, 20)])
        assert all(p.dtype == p.grad.dtype == torch.float32 for p in objective.parameters())
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.03)
