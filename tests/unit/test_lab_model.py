"""The lab's items 30 to 60: what needs no training must come out, number by number."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import torch

from seq2see.lab.old.bench import Bench, Lesson
from seq2see.lab.old.decoding.beams import worked_beam
from seq2see.lab.old.decoding.long import LINFORMER, Way
from seq2see.lab.old.experiment import EXPERIMENTS, Figure, Finding
from seq2see.lab.old.gallery import blocks, catalogue, matrices
from seq2see.lab.old.masks.future import keep_mask_softmax
from seq2see.lab.old.normalisation.residual import NoResidual, without_residual
from seq2see.lab.old.positions.notes_code import in_place_table
from seq2see.lab.old.positions.rotation import rotation_by
from seq2see.lab.old.registry import experiments
from seq2see.lab.old.training import six_words
from seq2see.lab.old.training.tables import base_parameters
from seq2see.model import NULL_RECORDER, Transformer, compute_sinusoids

QUICK = (30, 31, 32, 33, 35, 37, 41, 42, 43, 44, 45, 48, 49, 53, 55, 57)
"""Items that train nothing and time nothing."""
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("lab"))


@cache
def run(number: int, bench: Bench) -> Finding:
    experiments()
    return EXPERIMENTS[number].run(bench)


def value(finding: Finding, words: str) -> float:
    """Return the one measurement whose name has these words."""
    (found,) = [m.value for m in finding.measurements if words in m.what.en]
    return found


@pytest.mark.parametrize("number", QUICK)
def test_every_number_is_as_expected(number: int, bench: Bench) -> None:
    finding = run(number, bench)
    wrong = [(m.what.en, str(m), str(m.expected)) for m in finding.measurements if not m.met]
    assert not wrong
    assert CHINESE.search(finding.reason.zh)
    for figure in finding.figures:
        assert_is_a_picture(figure)


def assert_is_a_picture(figure: Figure) -> None:
    for language in ("en", "zh"):
        svg = figure.drawn(language)
        assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 - our own
    translated = [word for word in figure.words if word.en != word.zh]
    assert all(f">{word.zh}<" in figure.drawn("zh") for word in translated)


def test_items_30_to_60_are_there_in_both_languages() -> None:
    experiments()
    assert set(range(30, 61)) <= set(EXPERIMENTS)
    for number in range(30, 61):
        each = EXPERIMENTS[number]
        assert each.notes
        for text in (each.claim, each.prediction):
            assert CHINESE.search(text.zh)
            assert not CHINESE.search(text.en)


def test_numbers_that_were_measured_while_reading_the_notes(bench: Bench) -> None:
    gelu = run(44, bench)
    assert value(gelu, "tanh form") == pytest.approx(4.7e-4, rel=0.02)
    assert value(gelu, "its minimum") == pytest.approx(-0.170, abs=1e-3)
    assert value(gelu, "where it is") == pytest.approx(-0.75, abs=5e-3)
    assert value(run(32, bench), "frequencies") == pytest.approx(0.284, abs=5e-4)
    assert value(run(33, bench), "R(37)") <= 1e-12


def test_tying_saves_two_tables() -> None:
    assert base_parameters("all") == pytest.approx(63e6, rel=0.005)
    assert base_parameters("none") == pytest.approx(101e6, rel=0.005)
    assert base_parameters("none") - base_parameters("all") == 2 * 37_000 * 512


def test_a_shift_there_and_back_is_none() -> None:
    there, back = rotation_by(5), rotation_by(-5)
    assert torch.allclose(there @ back, torch.eye(512, dtype=torch.float64), atol=1e-12)


def test_the_corrected_code_of_the_notes_is_ours() -> None:
    ours = compute_sinusoids(torch.arange(7), 6)
    assert torch.allclose(torch.from_numpy(in_place_table(7, 6)), ours, atol=1e-14)


def test_the_keep_mask_shows_the_future_alone() -> None:
    weights_TS = keep_mask_softmax(torch.randn(5, 5))
    assert weights_TS.tril()[:-1].sum() == 0
    assert torch.allclose(weights_TS[-1], torch.full((5,), 0.2))  # hidden whole: uniform
    step_1S = keep_mask_softmax(torch.randn(1, 5))  # a step of decoding has no future
    assert torch.allclose(step_1S, torch.full((1, 5), 0.2))


def test_models_without_residuals_differ_in_nothing_else() -> None:
    config = Lesson().model
    torch.manual_seed(1)
    whole = Transformer.from_config(config)
    torch.manual_seed(1)
    cut = without_residual(config)
    assert isinstance(cut.encoder.layers[0].attention_residual, NoResidual)
    pairs = zip(whole.parameters(), cut.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_memory_of_attention_and_of_linformer() -> None:
    attention = Lesson().model.attention
    fused, linformer = Way(attention, NULL_RECORDER), Way(LINFORMER, NULL_RECORDER)
    assert fused.kept(512) == pytest.approx(2 * fused.kept(256), rel=0.02)
    assert linformer.kept(1024) == pytest.approx(2 * linformer.kept(512), rel=0.1)


def test_subtraction_is_the_gradient_and_not_the_loss(bench: Bench) -> None:
    assert all(measurement.met for measurement in six_words.subtraction(bench))


def test_every_dead_link_has_one_picture() -> None:
    links = [
        link
        for names in (*catalogue.REDRAWN.values(), *catalogue.ELSEWHERE.values())
        for link in names.split()
    ]
    assert len(links) == len(set(links)) == 54


@pytest.mark.parametrize(
    "draw",
    [
        blocks.stacks,
        blocks.layers,
        blocks.tied_tables,
        matrices.masks,
        matrices.softmax_curve,
        matrices.softmax_jacobian,
        matrices.worked_head,
        worked_beam,
    ],
    ids=lambda draw: draw.__name__,
)
def test_pictures_that_need_no_training(draw: Callable[[], Figure]) -> None:
    assert_is_a_picture(draw())


@pytest.mark.slow
def test_the_wrong_mask_learns_and_cannot_decode(tmp_path: Path) -> None:
    class OneSeed(Bench):
        seeds = (1,)

    finding = EXPERIMENTS[47].run(OneSeed(tmp_path))
    assert value(finding, "wrong: last training loss") < value(finding, "right: last training loss")
    assert value(finding, "wrong: sentences") < 0.1 < value(finding, "right: sentences")
