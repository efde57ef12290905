"""The small parts of training, each by itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from seq2see.data.batch_loader import Batch
from seq2see.errors import ConfigError, InputError, TrainingError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PackedIds
from seq2see.training.checkpoints import (
    CheckpointableJson,
    CheckpointableModel,
    CheckpointableOptimizer,
    CheckpointDirectory,
    ExponentialMovingAverage,
    average_checkpoints,
)
from seq2see.training.config import TrainingConfig, ValidationConfig
from seq2see.training.objective import Objective
from seq2see.training.optimizer import OptimizerConfig, build_optimizer
from seq2see.training.planning import _updates
from seq2see.training.schedule import ScheduleConfig, build_schedule
from seq2see.training.trainer import ModelUpdater, TrainingProgress, UpdateReport, mix_seeds
from seq2see.training.workers import WorkerGroup, choose_dtype

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9]), ([9, 8, 7, 6], [5]), ([6, 6], [7, 7])]
SMALL = ModelConfig(vocab_size=12, d_model=16, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1)
NO_DROPOUT = SMALL.replace(dropout={"embedding": 0.0, "residual": 0.0})


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    return Batch.from_packed_ids(PackedIds.from_lists(sources), PackedIds.from_lists(targets))


def make(config: ModelConfig = NO_DROPOUT, loss: LossConfig | None = None) -> Objective:
    torch.manual_seed(1)
    return Objective(Transformer.from_config(config), loss or LossConfig(), 0)


def make_stepper(
    objective: Objective, clip: float = 0.0, optimizer: str = "adam", **schedule
) -> ModelUpdater:
    settings = {"kind": "constant", "peak_lr": 0.01, "warmup_updates": 0, **schedule}
    return ModelUpdater(
        objective,
        build_optimizer(OptimizerConfig(kind=optimizer), objective),
        build_schedule(ScheduleConfig(**settings), 16, 100),
        clip,
        seed=1,
        workers=WorkerGroup(),
    )


def weights(objective: Objective) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in objective.parameters()]


# The schedule


def test_the_papers_schedule_is_its_formula() -> None:
    schedule = build_schedule(ScheduleConfig(kind="noam", warmup_updates=4000), 512, 10**5)
    for step in (1, 100, 3999, 4000, 4001, 10**5):
        formula = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert schedule.learning_rate(step) == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("inverse_sqrt", {50: 0.5, 100: 1.0, 400: 0.5, 900: 1 / 3}),
        ("linear", {50: 0.5, 100: 1.0, 550: 0.6, 1000: 0.2, 2000: 0.2}),
        (
            "cosine",
            {50: 0.5, 100: 1.0, 550: 0.6, 1000: 0.2, 325: 0.2 + 0.4 * (1 + math.cos(math.pi / 4))},
        ),
        ("constant", {50: 0.5, 100: 1.0, 1000: 1.0}),
        ("plateau", {50: 0.5, 100: 1.0, 1000: 1.0}),
    ],
)
def test_schedules(kind: str, rates: dict[int, float]) -> None:
    config = ScheduleConfig(kind=kind, peak_lr=1.0, warmup_updates=100, final_lr=0.2)
    schedule = build_schedule(config, 16, 1000)
    for step, rate in rates.items():
        assert schedule.learning_rate(step) == pytest.approx(rate, rel=1e-12)


def test_a_plateau_falls_and_remembers() -> None:
    config = ScheduleConfig(kind="plateau", peak_lr=1.0, warmup_updates=0, factor=0.1, patience=2)
    schedule, later = build_schedule(config, 16, 9), build_schedule(config, 16, 9)
    for improved in (True, False, True, False):
        schedule.after_validation(improved)
    assert schedule.learning_rate(5) == 1.0
    later.restore(json.loads(json.dumps(schedule.state())))
    for each in (schedule, later):
        each.after_validation(False)
        assert each.learning_rate(5) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"kind": "noam", "warmup_updates": 0}, "`warmup_updates` must be at least 1"),
        ({"peak_lr": 0.1, "final_lr": 0.2}, "`final_lr` must be at most peak_lr"),
    ],
)
def test_schedules_refused(settings: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ScheduleConfig(**settings)


# The objective


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_objective_is_the_plain_loss(smoothing: float) -> None:
    objective = make(loss=LossConfig(label_smoothing=smoothing)).train()
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


def test_validation_has_neither_smoothing_nor_dropout() -> None:
    objective = make(SMALL).eval()
    batch = batch_of(PAIRS)
    first, second = objective(batch), objective(batch)
    assert first.total == second.total == first.nll


def test_a_pair_counts_the_same_alone_and_padded() -> None:
    objective = make().train()
    together = objective(batch_of(PAIRS)).total.item()
    assert together == pytest.approx(
        sum(objective(batch_of([p])).total.item() for p in PAIRS), rel=1e-5
    )


def test_nothing_gives_a_gradient_of_zero() -> None:
    objective = make().train()
    loss = objective(batch_of([]))
    loss.total.backward()
    assert loss.num_tokens == 0
    assert all(p.grad is not None and not p.grad.any() for p in objective.parameters())


def test_nothing_is_no_token_to_batch_norm() -> None:
    """A worker without a pair has one token, which stands for none."""
    objective = make(NO_DROPOUT.replace(norm={"kind": "batch"})).train()
    before = {name: buffer.clone() for name, buffer in objective.named_buffers()}
    objective(batch_of([])).total.backward()
    assert all(p.grad is not None and not p.grad.any() for p in objective.parameters())
    assert before
    assert all(buffer.equal(before[name]) for name, buffer in objective.named_buffers())
    assert all(module.training for module in objective.modules())


def test_nothing_runs_every_layer() -> None:
    """Where weights are shared out, the layers of the other workers wait for it."""
    objective, ran = make().train(), []
    layers = [*objective.model.encoder.layers, *objective.model.decoder.layers]
    for layer in layers:
        layer.register_forward_hook(lambda layer, *_: ran.append(layer))
    objective(batch_of([]))
    assert ran == layers


def test_r_drop_and_distillation_learn() -> None:
    for config, teacher in [
        (LossConfig(r_drop_weight=5.0), None),
        (LossConfig(distillation_weight=0.5), Transformer.from_config(NO_DROPOUT).eval()),
    ]:
        torch.manual_seed(1)
        objective = Objective(Transformer.from_config(SMALL), config, 0, teacher)
        assert sum(1 for _ in objective.parameters()) == sum(
            1 for _ in objective.model.parameters()
        )
        stepper = make_stepper(objective)
        reports = [stepper(n, [batch_of(PAIRS)]) for n in range(1, 30)]
        assert reports[-1].loss < reports[0].loss
        # R-Drop goes through them twice; they are as many as they are.
        assert (reports[0].target_tokens, reports[0].source_tokens) == (13, 14)


# The step


def test_accumulating_is_one_large_batch() -> None:
    one, many = make(), make()
    whole = make_stepper(one, clip=0.5)(1, [batch_of(PAIRS)])
    parts = make_stepper(many, clip=0.5)(
        1, [batch_of(PAIRS[:1]), batch_of([]), batch_of(PAIRS[1:])]
    )
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6)
    assert (
        (parts.target_tokens, parts.source_tokens)
        == (whole.target_tokens, whole.source_tokens)
        == (13, 14)
    )
    assert parts.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-5)
    gradients = [[p.grad for p in objective.parameters()] for objective in (one, many)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)  # Adam makes much of little


def test_an_update_follows_from_its_number_alone() -> None:
    """What was drawn before does not change dropout."""
    first, second = make(SMALL), make(SMALL)
    make_stepper(first)(7, [batch_of(PAIRS)])
    torch.rand(3)
    make_stepper(second)(7, [batch_of(PAIRS)])
    assert all(a.equal(b) for a, b in zip(weights(first), weights(second), strict=True))
    third = make(SMALL)
    make_stepper(third)(8, [batch_of(PAIRS)])
    assert not all(a.equal(b) for a, b in zip(weights(first), weights(third), strict=True))


def test_clipping_shortens_the_gradient() -> None:
    objective = make()
    report = make_stepper(objective, clip=1e-3)(1, [batch_of(PAIRS)])
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in objective.parameters()))
    assert report.gradient_norm > 1e-2
    assert norm == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "advice"), [("constant", "Try a lower schedule.peak_lr, a"), ("noam", "Try a longer")]
)
def test_the_advice_is_of_use(kind: str, advice: str) -> None:
    objective = make()
    with torch.no_grad():
        objective.model.output.tokens.weight_VM[3] = torch.nan
    with pytest.raises(
        TrainingError, match=f"{advice}.*schedule.warmup_updates, or optimizer.max_grad_norm = 1"
    ):
        make_stepper(objective, kind=kind, warmup_updates=9)(4, [batch_of(PAIRS)])


def test_nonsense_stops_before_it_does_harm() -> None:
    objective = make()
    with torch.no_grad():
        objective.model.output.tokens.weight_VM[3] = torch.nan
    before = weights(objective)
    with pytest.raises(TrainingError, match="the loss is nan and the gradient nan in update 4"):
        make_stepper(objective)(4, [batch_of(PAIRS)])
    for a, b in zip(before, weights(objective), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_the_optimizer_is_the_papers() -> None:
    groups = build_optimizer(OptimizerConfig(kind="adamw", weight_decay=0.1), make()).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(group["betas"] == (0.9, 0.98) and group["eps"] == 1e-9 for group in groups)
    for kind in ("adam", "muon"):
        with pytest.raises(ConfigError, match=f"must be 0 with {kind}: only adamw has it"):
            OptimizerConfig(kind=kind, weight_decay=0.1)


def test_weights_decay_but_no_norm_and_no_bias() -> None:
    model = make(NO_DROPOUT.replace(attention={"kind": "additive"})).model
    groups = build_optimizer(OptimizerConfig(kind="adamw", weight_decay=0.1), model).param_groups
    decaying, others = ({id(p) for p in group["params"]} for group in groups)
    names = {name: id(p) for name, p in model.named_parameters()}
    spared = {name for name, number in names.items() if number in others}
    assert decaying | others == set(names.values())
    assert not decaying & others
    assert spared == {name for name in names if "bias" in name or "norm" in name}
    assert "encoder.layers.0.attention.attention.bias_HD" in spared


def test_seeds_are_spread() -> None:
    seeds = {mix_seeds(1, update, place) for update in range(100) for place in range(100)}
    assert len(seeds) == 10_000
    assert all(0 <= seed < 2**64 for seed in seeds)


# Checkpoints


def parts_of(objective: Objective, stepper: ModelUpdater, progress: TrainingProgress) -> dict:
    return {
        "model": CheckpointableModel(objective.model),
        "optimizer": CheckpointableOptimizer(stepper.optimizer, objective.model),
        "progress": CheckpointableJson(progress),
    }


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_going_on_is_the_same_to_the_bit(tmp_path: Path, optimizer: str) -> None:
    checkpoints = CheckpointDirectory(tmp_path, keep_last=2)
    undisturbed = make(SMALL)
    stepper = make_stepper(undisturbed, optimizer=optimizer)
    for number in range(1, 7):
        stepper(number, [batch_of(PAIRS)])
        if number == 3:
            checkpoints.save(3, parts_of(undisturbed, stepper, TrainingProgress(update=3)))
    resumed, progress = make(SMALL.replace(d_ff=16)), TrainingProgress()
    later = make_stepper(resumed, optimizer=optimizer)
    checkpoints.restore(3, parts_of(resumed, later, progress))
    for number in range(progress.update + 1, 7):
        later(number, [batch_of(PAIRS)])
    assert all(a.equal(b) for a, b in zip(weights(undisturbed), weights(resumed), strict=True))


def test_the_last_and_the_precious_are_kept(tmp_path: Path) -> None:
    checkpoints, objective = CheckpointDirectory(tmp_path, keep_last=2), make()
    for update in range(1, 6):
        checkpoints.save(
            update, {"model": CheckpointableModel(objective.model)}, protected_updates={2}
        )
    assert checkpoints.saved_updates() == [2, 4, 5]


def test_a_half_written_checkpoint_is_no_checkpoint(tmp_path: Path, monkeypatch) -> None:
    checkpoints, objective = CheckpointDirectory(tmp_path, keep_last=2), make()
    checkpoints.save(1, {"model": CheckpointableModel(objective.model)})
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(TrainingError, match="000000002 cannot be written: disk full; the check"):
        checkpoints.save(2, {"model": CheckpointableModel(objective.model)})
    assert checkpoints.saved_updates() == [1]
    monkeypatch.undo()
    checkpoints.save(2, {"model": CheckpointableModel(objective.model)})
    assert checkpoints.saved_updates() == [1, 2]


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoints, objective = CheckpointDirectory(tmp_path, keep_last=2), make()
    home = checkpoints.save(1, {"model": CheckpointableModel(objective.model)})
    (home / "state.json").write_text("{")
    with pytest.raises(
        InputError, match="000000001 is damaged: .*; delete it to go on from the one"
    ):
        checkpoints.restore(1, {"model": CheckpointableModel(objective.model)})


def test_the_mean_of_checkpoints(tmp_path: Path) -> None:
    checkpoints, objective = CheckpointDirectory(tmp_path, keep_last=3), make()
    files = []
    for update in (1, 2, 3):
        with torch.no_grad():
            objective.model.output.tokens.weight_VM.fill_(float(update))
        files.append(
            checkpoints.save(update, {"model": CheckpointableModel(objective.model)})
            / "model.safetensors"
        )
    mean = average_checkpoints(files)
    assert mean["encoder.embeddings.tokens.weight_VM"].eq(2.0).all()
    assert mean["encoder.embeddings.tokens.weight_VM"].dtype == torch.float32


def test_a_moving_average_follows() -> None:
    objective = make()
    average = ExponentialMovingAverage(objective.model, decay=0.5)
    name = "encoder.embeddings.tokens.weight_VM"
    expected = 0.0
    for update, value in enumerate((1.0, 2.0, 4.0, 8.0), 1):
        with torch.no_grad():
            objective.model.output.tokens.weight_VM.fill_(value)
        average.after_update(TrainingProgress(update=update), UpdateReport(0, 0, 1, 1, 0, 0))
        decay = min(0.5, (update - 1) / update)
        expected = decay * expected + (1 - decay) * value
        assert average.tensors()[name].eq(expected).all()


# The plan


def test_minutes_are_planned_with_validations_and_the_end() -> None:
    settings = SimpleNamespace(
        training=TrainingConfig(max_minutes=10.0), validation=ValidationConfig(interval=100)
    )
    builder = SimpleNamespace(run_config=settings)
    assert _updates(builder, seconds=1.0, look=50.0, end=60.0) == 540 / 1.5
    assert _updates(builder, seconds=1.0, look=0.0, end=1e4) == 300  # half of the time is kept
    assert _updates(builder, seconds=1.0, look=0.0, end=60.0, measured=40.0) == 500
    assert _updates(builder, seconds=1.0, look=0.0, end=60.0, measured=700.0) == 1


# The precision


def test_bfloat16_only_where_a_device_has_it() -> None:
    cpu = torch.device("cpu")
    wanted = ("auto", "float32", "bfloat16")
    expected = [torch.float32, torch.float32, torch.bfloat16]
    assert [choose_dtype(each, cpu) for each in wanted] == expected


def test_bfloat16_learns_what_float32_learns() -> None:
    losses = []
    for precision in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        objective = Objective(Transformer.from_config(NO_DROPOUT), LossConfig(), 0, None, precision)
        stepper = make_stepper(objective)
        losses.append([stepper(n, [batch_of(PAIRS)]).loss for n in range(1, 20)])
        assert all(p.dtype == p.grad.dtype == torch.float32 for p in objective.parameters())
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.03)
