"""Tests of the components of the search against values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.errors import ConfigError, InputError
from seq2see.search import (
    Beam,
    Candidates,
    CandidateStatus,
    EnsembleDecoder,
    Hypothesis,
    LengthConfig,
    SearchConfig,
    SentenceSearchInput,
    StepOutput,
    StepProcessor,
    search,
)
from seq2see.search.beam_search import (
    compute_candidate_statuses_and_beams,
    find_active_rows,
    separate_finished_and_surviving,
    should_stop,
)
from seq2see.search.candidate_selection import (
    BLOCK_SIZE,
    sample_by_inverse_cdf,
    select_top_k,
    stable_topk,
    stable_topk_sums,
)
from seq2see.search.hypotheses import (
    FinishedHypotheses,
    compute_coverage_penalty,
    normalize_by_length,
    score_upper_bound,
)
from seq2see.search.lexical_constraints import (
    DynamicBeamAllocation,
    contains_phrase,
    mask_incomplete_at_last_step,
    measure_constraint_progress,
    order_banks_round_robin,
    rank_within_bank,
    select_feasible_phrases,
)
from seq2see.search.step_processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    pad_phrases,
)

BOS, EOS, PAD = 0, 1, 0
NO = -torch.inf
CPU = torch.device("cpu")


class TableDecoder:
    """A decoder whose probabilities depend only on the last token."""

    def __init__(self, rows: int, table: dict[int, list[float]]) -> None:
        size = len(next(iter(table.values())))
        self.log_probs = torch.full((size, size), 1 / size)
        for token, probs in table.items():
            self.log_probs[token] = torch.tensor(probs)
        self.log_probs = self.log_probs.log()
        self.calls: list[tuple[int, ...]] = []
        self.rows = rows

    def step(self, tokens_BK: Tensor) -> StepOutput:
        self.calls.append(tuple(tokens_BK.shape))
        return StepOutput(self.log_probs[tokens_BK])

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        self.rows = len(rows_B)


# The more likely first token, 2, leads to the less likely hypothesis.
TABLE = {BOS: [0, 0.0, 0.6, 0.4], 2: [0, 0.4, 0.3, 0.3], 3: [0, 0.9, 0.05, 0.05]}


def run(table: dict[int, list[float]], num_inputs: int = 1, **settings: Any) -> list[Any]:
    settings = {"length": {"max_ratio": 0.0, "max_extra": 5}, **settings}
    decoder = TableDecoder(num_inputs, table)
    results = search(
        decoder,
        [SentenceSearchInput([2] * 3)] * num_inputs,
        SearchConfig(**settings),
        bos=BOS,
        eos=EOS,
        pad=PAD,
    )
    return [*results, decoder]


def test_beam_search_finds_better_hypothesis_than_greedy_search() -> None:
    greedy, _ = run(TABLE, beam_size=1, length_penalty=0.0)
    beam, _ = run(TABLE, beam_size=2, n_best=2, length_penalty=0.0)
    assert greedy[0].tokens == (2, EOS)
    assert math.exp(greedy[0].log_prob) == pytest.approx(0.24)
    assert [h.tokens for h in beam] == [(3, EOS), (2, EOS)]
    assert [math.exp(h.log_prob) for h in beam] == pytest.approx([0.36, 0.24])
    assert [h.score for h in beam] == pytest.approx([h.log_prob for h in beam])
    assert beam[0].tokens_without_eos == (3,)


def test_score_is_normalized_by_length_with_end_symbol() -> None:
    beam, _ = run(TABLE, beam_size=2, length_penalty=0.5)
    assert beam[0].tokens == (3, EOS)
    assert beam[0].score == pytest.approx(math.log(0.36) / math.sqrt(2))
    assert beam[0].token_log_probs == pytest.approx([math.log(0.4), math.log(0.9)])


def test_decoder_runs_once_for_first_step_and_stops_when_finished() -> None:
    *_, decoder = run(TABLE, beam_size=2, length_penalty=0.0)
    assert decoder.calls == [(1, 1), (1, 2)]


def test_endless_hypothesis_is_cut_at_max_length() -> None:
    (result, _) = run({BOS: [0, 0, 1, 0], 2: [0, 0, 1, 0]}, beam_size=3)
    assert [(h.tokens, h.is_finished) for h in result] == [((2, 2, 2, 2, 2), False)]
    assert result[0].tokens_without_eos == (2, 2, 2, 2, 2)
    assert result[0].score == 0


def test_equal_candidates_are_ordered_by_id() -> None:
    probs = [0.0, 0.4, 0.15, 0.15, 0.15, 0.15]
    result, _ = run(dict.fromkeys((BOS, 2, 3, 4, 5), probs), beam_size=3, n_best=3)
    assert [h.tokens for h in result][:3] == [(1,), (2, 1), (3, 1)]


@pytest.mark.parametrize("size", [3, 50, 4 * BLOCK_SIZE, 20 * BLOCK_SIZE + 7, 90 * BLOCK_SIZE + 1])
@pytest.mark.parametrize("k", [1, 2, 11])
def test_stable_topk_equals_stable_sort(size: int, k: int) -> None:
    plain = torch.randn(2, 3, size)
    ties = torch.randint(0, 9, (2, 3, size)).float()
    few = plain.masked_fill(torch.rand(2, 3, size) < 0.9, NO)
    for values in (plain, ties, few, plain[:, :, ::2].repeat_interleave(2, 2)):
        top, indices = stable_topk(values, k)
        expected = values.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(top, expected.values[..., :k])
        real = top > NO
        assert torch.equal(indices[real], expected.indices[..., :k][real])
        assert torch.equal(values.gather(-1, indices), top)


@pytest.mark.parametrize("size", [3, 40, 20 * BLOCK_SIZE + 7, 90 * BLOCK_SIZE])
@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize("k", [2, 11])
def test_stable_topk_sums_equals_stable_sort(size: int, beams: int, k: int) -> None:
    starts = torch.tensor([[0.0, -0.5, -2.0, -2.0, NO][:beams], [-1e4 - n for n in range(beams)]])
    plain = torch.randn(2, beams, size)
    ties = torch.randint(0, 9, (2, beams, size)).float()
    few = plain.masked_fill(torch.rand(2, beams, size) < 0.99, NO)
    close = (
        plain[:, :, :1] + torch.rand(2, beams, size) * 1e-3
    )  # some sums are rounded to equal values
    for steps in (plain, ties, few, close):
        every = (starts[:, :, None] + steps).flatten(1)
        top, indices = stable_topk_sums(starts, steps, k)
        expected = every.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(top, expected.values[:, :k])
        real = top > NO
        assert torch.equal(indices[real], expected.indices[:, :k][real])


def test_stable_topk_sums_covers_last_partial_block_and_many_blocks() -> None:
    steps = torch.randn(1, 5, 90 * BLOCK_SIZE + 1) - 9
    steps[0, 3, -1] = 5.0
    assert (
        stable_topk_sums(torch.zeros(1, 5), steps, 10)[1][0, 0]
        == 3 * steps.size(2) + steps.size(2) - 1
    )
    steps[0, 2, torch.arange(40, 29, -1) * BLOCK_SIZE] = 7.0  # an equal maximum in eleven blocks
    expected = [2 * steps.size(2) + n * BLOCK_SIZE for n in range(30, 40)]
    assert stable_topk_sums(torch.zeros(1, 5), steps, 10)[1][0].tolist() == expected


def test_stable_topk_sums_returns_nan() -> None:
    steps = torch.randn(1, 5, 90 * BLOCK_SIZE)
    steps[0, 3, 7] = torch.nan
    assert stable_topk_sums(torch.zeros(1, 5), steps, 10)[0].isnan().any()


def make_beam(
    emitted: list[list[list[int]]], scores: list[list[float]], max_length: int = 9
) -> Beam:
    tokens = torch.tensor(emitted)
    tokens = torch.cat((torch.full((*tokens.shape[:2], 1), BOS), tokens), dim=2)
    rows = len(tokens)
    return Beam(
        input_index_B=torch.arange(rows),
        search_index_B=torch.zeros(rows, dtype=torch.long),
        max_lengths_B=torch.full((rows,), max_length),
        source_lengths_B=torch.full((rows,), 3),
        has_finished_B=torch.zeros(rows, dtype=torch.bool),
        tokens_BKT=tokens,
        log_probs_BK=torch.tensor(scores),
        beam_scores_BK=torch.tensor(scores),
        token_log_probs_BKE=torch.zeros(*tokens.shape[:2], tokens.size(2) - 1),
    )


def test_candidates_are_ranked_over_all_beams() -> None:
    beam = make_beam([[[2], [3]]], [[-1.0, -1.5]])
    step = torch.tensor([[[NO, -3.0, -1.0, -2.0], [NO, -0.1, -0.2, -4.0]]])
    selected = select_top_k(beam, step, step, beam_size=2)
    assert selected.parents_BC.tolist() == [[1, 1, 0, 0]]
    assert selected.tokens_BC.tolist() == [[1, 2, 2, 3]]
    assert selected.beam_scores_BC.tolist() == [pytest.approx([-1.6, -1.7, -2.0, -3.0])]
    assert selected.model_log_probs_BC.tolist() == [pytest.approx([-0.1, -0.2, -1.0, -2.0])]


def test_all_continuations_of_tiny_vocabulary_are_candidates() -> None:
    """With a beam size of 8, all 16 continuations of 4 beams and 4 tokens are selected."""
    beam = make_beam([[[0], [1], [2], [3]]], [[-1.0, -2.0, -3.0, -4.0]])
    step = torch.linspace(0, -9, 16).reshape(1, 4, 4)
    selected = select_top_k(beam, step, step, beam_size=8)
    sums = (beam.beam_scores_BK[:, :, None] + step).flatten(1)
    assert selected.beam_scores_BC.tolist() == sums.sort(dim=1, descending=True).values.tolist()


def make_candidates(tokens: list[list[int]], scores: list[list[float]]) -> Candidates:
    numbers = torch.tensor(scores, dtype=torch.float32)
    return Candidates(
        torch.zeros_like(torch.tensor(tokens)), torch.tensor(tokens), numbers, numbers, numbers
    )


def test_only_candidates_within_beam_size_may_finish() -> None:
    candidates = make_candidates(
        [[EOS, 4, 5, EOS], [4, 5, EOS, 6], [4, EOS, 5, EOS]],
        [[-1, -2, -3, -4], [-1, -2, -3, -4], [-1, -2, NO, NO]],
    )
    update = separate_finished_and_surviving(
        candidates, 2, EOS, torch.tensor([False, False, False])
    )
    assert update.finished_BC.tolist() == [
        [True, False, False, False],
        [False, False, False, False],  # the end symbol is third
        [False, True, False, False],
    ]
    assert update.survivor_indices_BK.tolist()[:2] == [[1, 2], [0, 1]]
    assert update.beam_scores_BK.tolist() == [[-2, -3], [-1, -2], [-1, NO]]


def test_last_step_finishes_all_candidates_within_beam_size() -> None:
    update = separate_finished_and_surviving(
        make_candidates([[4, EOS, 5]], [[-1, -2, -3]]), 2, EOS, torch.tensor([True])
    )
    assert update.finished_BC.tolist() == [[True, True, False]]
    assert update.beam_scores_BK.tolist() == [[NO, NO]]


def test_each_candidate_has_one_status() -> None:
    candidates = make_candidates([[EOS, 4, 5, 6, 7]], [[-1, -2, -3, -4, NO]])
    update = separate_finished_and_surviving(candidates, 2, EOS, torch.tensor([False]))
    statuses, next_beam = compute_candidate_statuses_and_beams(
        candidates, update, torch.tensor([[True, True]])
    )
    expected = [
        CandidateStatus.FINISHED,
        CandidateStatus.ALIVE,
        CandidateStatus.ALIVE,
        CandidateStatus.PRUNED,
        CandidateStatus.NONE,
    ]
    assert statuses.tolist() == [expected]
    assert next_beam.tolist() == [[-1, 0, 1, -1, -1]]
    statuses, next_beam = compute_candidate_statuses_and_beams(
        candidates, update, torch.tensor([[False, False]])
    )
    assert statuses.tolist() == [
        [
            CandidateStatus.FINISHED,
            CandidateStatus.STOPPED,
            CandidateStatus.STOPPED,
            CandidateStatus.PRUNED,
            CandidateStatus.NONE,
        ]
    ]
    assert next_beam.tolist() == [[-1, -1, -1, -1, -1]]


def make_hypothesis(score: float, *tokens: int) -> Hypothesis:
    return Hypothesis((*tokens, EOS), True, score, score, (score,))


def newly_finished(
    *entries: tuple[int, int, Hypothesis],
) -> tuple[Tensor, Tensor, tuple[Hypothesis, ...]]:
    rows, ranks, hypotheses = zip(*entries, strict=True)
    return torch.tensor(rows), torch.tensor(ranks), hypotheses


@pytest.mark.parametrize("per_step", [1, 2, 4])
def test_finished_hypotheses_are_ordered_by_score(per_step: int) -> None:
    finished = FinishedHypotheses(num_rows=2, n_best=2, device=CPU)
    scores = enumerate([-2.0, -3.0, -1.0, -2.0])
    entries = [(1, rank + 1, make_hypothesis(score, rank)) for rank, score in scores]
    for start in range(0, 4, per_step):
        finished.add(*newly_finished(*entries[start : start + per_step]))
    assert [h.tokens[0] for h in finished.best[1]] == [2, 0]  # among equal scores the earlier
    assert finished.counts_R.tolist() == [0, 4]
    assert finished.n_best_threshold_R.tolist() == [NO, -2]
    assert finished.best_finished_R.tolist() == [False, False]
    finished.add(*newly_finished((0, 0, make_hypothesis(-9.0)), (1, 0, make_hypothesis(-9.0))))
    assert finished.best_finished_R.tolist() == [True, True]
    assert finished.counts_R.tolist() == [1, 5]
    # The first row has fewer than n_best hypotheses.
    assert finished.n_best_threshold_R.tolist() == [NO, -2]


def test_stopping_criteria() -> None:
    finished = FinishedHypotheses(num_rows=3, n_best=1, device=CPU)
    finished.add(*newly_finished((0, 0, make_hypothesis(-0.5)), (1, 1, make_hypothesis(-0.4))))
    scores = torch.tensor([[-5.0, -5.1], [-4.1, -9.0], [-1.0, NO]])

    def stops(**settings: Any) -> list[bool]:
        lengths = torch.tensor([10, 10, 10])
        return should_stop(
            SearchConfig(**settings), scores, lengths, finished, torch.arange(3)
        ).tolist()

    # -5.0/10 can only equal -0.5; -4.1/10 is below -0.4; the last row has no finished hypothesis.
    assert stops(length_penalty=1.0) == [True, True, False]
    assert stops(length_penalty=1.2) == [False, False, False]
    assert stops(stop_rule="beam_full", beam_size=1) == [True, True, False]
    assert stops(stop_rule="beam_full", beam_size=2) == [False, False, False]
    assert stops(stop_rule="beam_full", length_penalty=0.0) == [True, False, False]


def test_length_normalization_and_upper_bound_by_hand() -> None:
    assert normalize_by_length(torch.tensor([-6.0]), 4, 0.5).tolist() == [-3]
    assert normalize_by_length(torch.tensor([-6.0]), 4, 0.0).tolist() == [-6]
    bound = score_upper_bound(torch.tensor([[-8.0, -6.0]]), torch.tensor([4]), 1.0)
    assert bound.tolist() == [-1.5]


def test_coverage_penalty_by_hand() -> None:
    """Two steps over three source tokens and padding: coverage 0.5, 1.2 and 0.3."""
    attention = torch.tensor([[[[0.3, 0.6, 0.1, 0.0], [0.2, 0.6, 0.2, 0.0]]]])
    penalty = compute_coverage_penalty(attention, torch.tensor([3]), beta=2.0)
    assert penalty.tolist() == [[pytest.approx(-2 * (math.log(0.5) + math.log(0.3)))]]
    assert (
        compute_coverage_penalty(torch.zeros(1, 1, 1, 1), torch.tensor([1]), 1.0).isfinite().all()
    )


def test_finished_rows_are_removed_once_they_are_an_eighth() -> None:
    scores = torch.zeros(16, 2)
    assert find_active_rows(scores) is None
    scores[3] = NO
    assert find_active_rows(scores) is None
    scores[5, 0] = NO
    assert find_active_rows(scores) is None  # row 5 still has a hypothesis
    scores[5, 1] = NO
    assert find_active_rows(scores).tolist() == [i for i in range(16) if i not in {3, 5}]
    assert find_active_rows(torch.full((1, 2), NO)).tolist() == []


def allowed_tokens(processor: StepProcessor, beam: Beam, size: int = 6) -> list[list[list[int]]]:
    """Return the tokens that the processor does not forbid."""
    log_probs = torch.full((*beam.beam_scores_BK.shape, size), -1.0)
    scores = log_probs.clone()
    processor.process(beam, scores, log_probs)
    assert (log_probs == -1).all()
    return [[row.isfinite().nonzero().flatten().tolist() for row in rows] for rows in scores]


def test_min_length_includes_end_symbol() -> None:
    processor = MinLength(torch.tensor([3, 4]), EOS)
    beam = make_beam([[[2, 3]], [[2, 3]]], [[0.0], [0.0]])
    assert allowed_tokens(processor, beam, 3) == [[[0, 1, 2]], [[0, 2]]]
    assert processor.is_active(2)
    assert not processor.is_active(3)


def test_repeated_ngrams_are_forbidden() -> None:
    beam = make_beam([[[2, 3, 4, 2, 3], [2, 2, 3, 4, 5]]], [[0.0, 0.0]])
    assert allowed_tokens(NoRepeatNgram(3), beam) == [[[0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]]]
    assert allowed_tokens(NoRepeatNgram(1), beam) == [[[0, 1, 5], [0, 1]]]
    assert not NoRepeatNgram(3).is_active(2)


def test_last_token_of_forbidden_phrase_is_forbidden() -> None:
    processor = ForbiddenPhrases(
        pad_phrases([[(5,), (2, 3, 4)], [], [(3, 3)]], CPU, align_right=True)
    )
    beam = make_beam([[[2, 3]], [[2, 3]], [[2, 3]]], [[0.0]] * 3)
    assert allowed_tokens(processor, beam) == [
        [[0, 1, 2, 3]],
        [[0, 1, 2, 3, 4, 5]],
        [[0, 1, 2, 4, 5]],
    ]
    early = make_beam([[[3]], [[3]], [[2]]], [[0.0]] * 3)
    assert allowed_tokens(processor, early)[0] == [[0, 1, 2, 3, 4]]  # part of a phrase is allowed


def test_prefix_forbids_all_other_tokens() -> None:
    processor = ForcedPrefix.from_prefixes([(4, 5), (), (3,)], CPU)
    beam = make_beam([[[4]], [[2]], [[3]]], [[0.0]] * 3)
    assert allowed_tokens(processor, beam) == [[[5]], [[0, 1, 2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5]]]
    assert not processor.is_active(2)


def test_prefix_keeps_log_probability_of_model() -> None:
    beam, scores = make_beam([[[4]]], [[0.0]]), torch.full((1, 1, 6), NO)
    ForcedPrefix.from_prefixes([(4, 5)], CPU).process(beam, scores, torch.full((1, 1, 6), -1.0))
    assert scores.tolist() == [[[NO] * 5 + [-1.0]]]


def test_repetition_penalty_applies_once() -> None:
    beam, scores = make_beam([[[3, 3, 2]]], [[0.0]]), torch.full((1, 1, 5), -1.0)
    RepetitionPenalty(1.5).process(beam, scores, scores.clone())
    assert scores.tolist() == [[[-1, -1, -1.5, -1.5, -1]]]


def test_progress_of_required_phrases() -> None:
    phrases = pad_phrases([[(2, 3, 4), (5,), (3, 4)]], CPU)
    emitted = torch.tensor([[[6, 2, 3], [2, 3, 4], [5, 2, 6], [6, 6, 3]]])
    progress = measure_constraint_progress(emitted, phrases)
    assert progress.met_BKP.tolist() == [
        [[False] * 3, [True, False, True], [False, True, False], [False] * 3]
    ]
    assert progress.matched_BKP.tolist() == [[[2, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]]
    assert progress.num_tokens_BK.tolist() == [[2, 5, 1, 1]]


def test_banks_take_turns_fullest_first() -> None:
    values = torch.tensor([[-1.0, -2.0, -3.0, -9.0, NO]])
    banks = torch.tensor([[0, 0, 1, 2, 3]])
    assert order_banks_round_robin(values, banks).tolist() == [[3, 2, 0, 1, 4]]


def test_rank_within_bank_equals_sorted_order() -> None:
    values = torch.randint(0, 9, (5, 40)).float()
    banks = torch.randint(0, 4, (5, 40))
    for row, ranks in enumerate(rank_within_bank(values, banks)):
        for bank in range(4):
            indices = (banks[row] == bank).nonzero().flatten()
            order = values[row, indices].argsort(descending=True, stable=True)
            assert ranks[indices[order]].tolist() == list(range(len(indices)))


def test_unlikely_hypothesis_with_required_phrase_survives() -> None:
    beam = make_beam([[[2], [3]]], [[-1.0, -20.0]])  # the second contains the phrase
    step = torch.tensor([[[NO, -2.0, -1.5, -1.0, -3.0]] * 2])
    step[0, 0, EOS] = NO
    selected = DynamicBeamAllocation(pad_phrases([[(3,)]], CPU), beam_size=2, eos=EOS).select(
        beam, step, step
    )
    assert selected.parents_BC.tolist() == [[0, 0, 1, 0]]
    assert selected.tokens_BC.tolist() == [[3, 2, 3, 4]]
    assert selected.beam_scores_BC.tolist() == [[-2.0, -2.5, -21.0, -4.0]]


@pytest.mark.parametrize(
    ("max_length", "has_finished", "all_met", "expected"),
    [
        (9, True, [False, False], [-1.0, -2.0]),  # this is not the last step
        (2, False, [False, False], [-1.0, -2.0]),  # no candidate has all phrases
        (2, True, [False, False], [NO, NO]),  # a finished hypothesis has all phrases
        (2, False, [False, True], [NO, -2.0]),
    ],
)
def test_incomplete_candidates_are_masked_in_last_step(
    max_length: int, has_finished: bool, all_met: list[bool], expected: list[float]
) -> None:
    beam = replace(
        make_beam([[[2]]], [[0.0]], max_length), has_finished_B=torch.tensor([has_finished])
    )
    scores = mask_incomplete_at_last_step(
        torch.tensor([[-1.0, -2.0]]), torch.tensor([all_met]), beam
    )
    assert scores.tolist() == [expected]


def test_feasible_required_phrases() -> None:
    search_input = SentenceSearchInput(
        [2] * 3, prefix=(9,), required=((2, 3), (4, 5, 6), (7,), (7,), (8,)), forbidden=((8,),)
    )
    assert select_feasible_phrases(search_input, max_length=5) == ((2, 3), (7,))
    contained = [contains_phrase((9, 2, 3, 8), phrase) for phrase in search_input.required]
    assert contained == [True, False, False, False, True]


def test_sampled_index_follows_cumulative_distribution() -> None:
    logits = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25]).log()[None]
    for number, index in [
        (0.0, 1),
        (0.249, 1),
        (0.251, 3),
        (0.749, 3),
        (0.751, 4),
        (1 - 2**-53, 4),
    ]:
        assert (
            sample_by_inverse_cdf(logits, torch.tensor([[number]], dtype=torch.float64)).item()
            == index
        )


def test_ensemble_averages_probabilities() -> None:
    decoders = [TableDecoder(1, {BOS: [0, 0.1, 0.9]}), TableDecoder(1, {BOS: [0, 0.7, 0.3]})]
    mean = EnsembleDecoder(decoders).step(torch.tensor([[BOS]])).log_probs_BKV.exp()
    assert mean.flatten().tolist() == pytest.approx([0, 0.4, 0.6])


def test_ensemble_of_identical_models_equals_one_model() -> None:
    settings = SearchConfig(beam_size=2, n_best=2)
    single = search(
        TableDecoder(2, TABLE),
        [SentenceSearchInput([2] * 3)] * 2,
        settings,
        bos=BOS,
        eos=EOS,
        pad=PAD,
    )
    ensemble = EnsembleDecoder([TableDecoder(2, TABLE), TableDecoder(2, TABLE)])
    averaged = search(
        ensemble, [SentenceSearchInput([2] * 3)] * 2, settings, bos=BOS, eos=EOS, pad=PAD
    )
    assert [[h.tokens for h in hs] for hs in averaged] == [[h.tokens for h in hs] for hs in single]
    assert all(decoder.rows == 2 for decoder in ensemble.decoders)


class ForbidToken(StepProcessor):
    """Forbids one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        step_scores_BKV[:, :, self.token] = NO


def find(**more: Any) -> list[Hypothesis]:
    settings = {
        "config": SearchConfig(beam_size=2),
        "inputs": [SentenceSearchInput([2] * 3)],
        **more,
    }
    return search(TableDecoder(1, TABLE), bos=BOS, eos=EOS, pad=PAD, **settings)[0]


def test_custom_processor_forbids_token() -> None:
    assert find()[0].tokens == (3, EOS)
    assert find(processors=[ForbidToken(3)])[0].tokens == (2, EOS)


def test_no_allowed_token_gives_no_hypothesis() -> None:
    assert find(processors=[ForbidToken(2), ForbidToken(3)]) == []


def test_no_inputs_give_no_results() -> None:
    assert search(TableDecoder(0, TABLE), [], SearchConfig(), bos=BOS, eos=EOS, pad=PAD) == []


def test_nan_raises_input_error() -> None:
    with pytest.raises(InputError, match="returned NaN"):
        run({BOS: [math.nan] * 4}, beam_size=2)
    with pytest.raises(InputError, match="returned NaN"):
        run({BOS: [math.nan] * 4}, beam_size=1)


def test_required_phrases_need_beam_search() -> None:
    with pytest.raises(InputError, match="only beam search guarantees it"):
        find(
            inputs=[SentenceSearchInput([2] * 3, required=((2,),))],
            config=SearchConfig(sampling={}),
        )


def test_coverage_penalty_needs_attention() -> None:
    with pytest.raises(InputError, match="must return attention weights"):
        find(config=SearchConfig(coverage_penalty=0.2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_size": 2, "n_best": 3}, "`n_best` must be at most beam_size = 2, but is 3 instead"),
        (
            {"beam_size": 4, "num_beam_groups": 3},
            "`num_beam_groups` must divide beam_size = 4, but is 3 instead",
        ),
        (
            {"diversity_penalty": 0.1},
            "`diversity_penalty` must be 0 if num_beam_groups is 1, but is 0.1 instead",
        ),
        (
            {"beam_size": 4, "num_beam_groups": 2},
            "`diversity_penalty` must be above 0 if num_beam_groups is above 1",
        ),
        ({"length_penalty": 400.0}, "`length_penalty` must be at most 10.0, but is 400.0 instead"),
        ({"sampling": {"temperature": 1e-40}}, "`sampling.temperature` must be at least 1e-06"),
        ({"sampling": {}, "beam_size": 3}, "`beam_size` must be left out with sampling"),
        (
            {"sampling": {}, "num_beam_groups": 5},
            "`num_beam_groups` must be 1 with sampling, but is 5 instead",
        ),
        ({"sampling": {"top_p": 0.0}}, "`sampling.top_p` must be above 0.0, but is 0.0 instead"),
        ({"length_penalty": -1.0}, "`length_penalty` must be at least 0.0, but is -1.0 instead"),
        (
            {"stop_rule": "never"},
            "`stop_rule` must be one of exact or beam_full, but is 'never' instead",
        ),
    ],
)
def test_invalid_settings_raise_config_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SearchConfig(**settings)
    assert any(str(problem).startswith(message) for problem in raised.value.problems)


def test_length_limits_depend_on_source_length() -> None:
    length = LengthConfig(min_ratio=0.5, max_ratio=1.5, max_extra=2, max_length=20)
    assert [length.min_target_length(n) for n in (0, 1, 9, 99)] == [0, 0, 4, 20]
    assert [length.max_target_length(n) for n in (0, 1, 9, 99)] == [2, 3, 15, 20]
    assert SentenceSearchInput([2], prefix=(2,) * 7).max_target_length(length) == 8
