"""What a verdict says is judged: numbers that would make its words false are found out."""

from __future__ import annotations

import pytest
import torch

from seq2see.lab.old.attention import diagonal, kinds, pronoun
from seq2see.lab.old.bench import Learned, untrained
from seq2see.lab.old.decoding import long
from seq2see.lab.old.experiment import Measurement, Text
from seq2see.lab.old.heads import several
from seq2see.lab.old.normalisation import norms
from seq2see.lab.old.positions import lengths
from seq2see.lab.old.scaling import trained
from seq2see.lab.old.training import tables


def missed(measurements: list[Measurement]) -> list[str]:
    return [measured.what.en for measured in measurements if not measured.met]


FACTORS = {1 / 8: 0.37, 1 / 2: 0.17, 1.0: 0.18, 2.0: 0.23, 8.0: 1.3}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({0.5: 0.4}, ["factor 0.5 over 1"]),
        ({2.0: 0.4}, ["factor 2 over 1"]),
        ({8.0: 0.2}, ["factor 8 over 1"]),
    ],
)
def test_12_half_or_double_stays_near(change: dict[float, float], wrong: list[str]) -> None:
    assert missed(trained._own_and_others(FACTORS | change)) == wrong


@pytest.mark.parametrize(("share", "met"), [(0.3, True), (0.6, False)])
def test_15_most_tokens_look_at_another(share: float, met: bool) -> None:
    shares_LH = torch.full((2, 4), share)
    shares_LH[0, 0] = 0.1
    assert (missed(diagonal._trained_on_fables(shares_LH)) == []) == met


def test_17_one_matrix_learns_as_well_as_two() -> None:
    assert missed(diagonal._losses([0.030, 0.028], [0.026, 0.030])) == []
    assert missed(diagonal._losses([0.030, 0.028], [0.060, 0.060])) == ["loss, one matrix over two"]


def test_17_the_weight_of_a_token_on_itself_is_a_share() -> None:
    assert 0 < diagonal.own_weight(untrained()) < 1


def test_18_the_scale_closes_the_gap() -> None:
    losses = {("scaled_dot", 64): [0.03], ("dot", 64): [1.7], ("additive", 64): [0.01]}
    assert missed(kinds._gaps(losses, 64)) == []
    assert missed(kinds._gaps(losses | {("scaled_dot", 64): [0.4]}, 64)) == [
        "share of the gap to additive that the scale closes, d_k = 64"
    ]


def test_18_additive_attention_is_slower() -> None:
    memory = {"additive": [160], "product": [10]}
    assert missed(kinds._costs(memory, {"additive": 8.0, "product": 1.0})) == []
    assert len(missed(kinds._costs(memory, {"additive": 1.0, "product": 1.0}))) == 1


def test_19_the_predicate_is_what_pronouns_need() -> None:
    cuts = dict(
        zip((lines.what for lines in pronoun.CUTS), ([0.9], [0.9], [0.67], [0.65]), strict=True)
    )
    assert missed(pronoun._without([0.88], cuts)) == []
    idle = {what: [0.88] for what in cuts}
    assert missed(pronoun._without([0.88], idle)) == [
        "right pronouns if the predicate does not see the nouns",
        "right pronouns if the predicate sees no other word",
    ]


@pytest.mark.parametrize(
    ("it_matters", "best", "said"),
    [
        (False, 0.52, '"it" looks at its antecedent no more than at the rival, and when it may'),
        (False, 0.8, 'In some head "it" looks at its antecedent more than at the rival, yet'),
        (True, 0.8, "It holds of this model in part"),
    ],
)
def test_19_says_where_it_looks(it_matters: bool, best: float, said: str) -> None:
    assert said in pronoun._reason(it_matters, best).en


def test_28_one_head_does_as_well() -> None:
    assert missed(several._by_number({1: [0.02], 4: [0.03], 8: [0.04]})) == []
    assert len(missed(several._by_number({1: [0.06], 4: [0.03], 8: [0.04]}))) == 1


def test_28_no_head_is_idle() -> None:
    heads = {Text("1", "1"): 0.7, Text("2", "2"): 0.04}
    assert missed(several._removed([heads])) == []
    assert missed(several._removed([heads | {Text("2", "2"): 0.0}])) == [
        "share of heads that add less than 0.01 when removed"
    ]


def test_28_heads_differ_as_much_before_training() -> None:
    assert missed(several._between_heads([0.37], [0.38])) == []
    assert missed(several._between_heads([0.37], [0.74])) == ["… trained over at the start"]


def test_28_a_head_is_missed_on_the_pairs_that_the_whole_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(several, "_nll", lambda model: 0.5)
    found = several._added_without_each(Learned(untrained(), (), nll=0.3, exact=1.0))
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize(
    ("ahead", "updates", "said"),
    [(0.26, 300, "behind 300 updates the learned table lags"), (0.0, 800, "has caught up")],
)
def test_34_says_whether_the_learned_table_lags(ahead: float, updates: int, said: str) -> None:
    assert said in lengths._reason(ahead, updates).en
    assert f"{updates} 次更新" in lengths._reason(ahead, updates).zh


def test_52_says_of_training_what_full_has_measured() -> None:
    assert "--full" in tables._reason().en
    named = Text("with", "乘"), Text("without", "不乘")
    measured = [Measurement(*each) for each in zip(named, (0.18, 0.34), strict=True)]
    assert "0.18 with the factor and 0.34 without it" in tables._reason(*measured).en
    assert "--full" not in tables._reason(*measured).en + tables._reason(*measured).zh


def test_40_batch_norm_learns_no_worse() -> None:
    losses = {"layer": [0.18], "batch": [0.08], "none": [0.5]}
    assert missed(norms._learned(losses)) == []
    assert missed(norms._learned(losses | {"batch": [0.4]})) == ["held-out loss, BatchNorm"]


def test_59_time_grows_with_the_square() -> None:
    sizes = (256, 512, 1024, 2048)
    squares, lines = [float(n * n) for n in sizes], [float(n) for n in sizes]
    grown = {"plain": squares, "fused": squares, "linformer": lines}
    assert missed(long._time(sizes, grown)) == []
    assert len(missed(long._time(sizes, grown | {"fused": lines, "linformer": squares}))) == 3
