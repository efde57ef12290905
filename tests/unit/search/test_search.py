"""The pieces of the search, each against numbers worked out by hand."""

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
    SearchInput,
    StepOutput,
    StepProcessor,
    missing_phrases,
    search,
)
from seq2see.search.beam_search import (
    BeamFullStopping,
    BestFinishedStopping,
    ExactStopping,
    StoppingState,
    compute_candidate_statuses,
    prune_candidates,
    select_active_rows,
)
from seq2see.search.hypotheses import (
    FinishedHypotheses,
    NewlyFinished,
    compute_coverage_penalty,
    normalize_by_length,
    score_upper_bound,
)
from seq2see.search.lexical_constraints import (
    DynamicBeamAllocation,
    mask_incomplete,
    measure_progress,
    order_round_robin,
    rank_within_bank,
    select_feasible_phrases,
)
from seq2see.search.processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    pad_phrases,
)
from seq2see.search.selectors import (
    BLOCK_SIZE,
    TopKSelector,
    keyed_uniform,
    sample_indices,
    stable_topk,
    stable_topk_sums,
)

BOS, EOS, PAD = 0, 1, 0
NO = -torch.inf
CPU = torch.device("cpu")


class Scripted:
    """A decoder that reads probabilities from a table: last token → what follows."""

    def __init__(self, rows: int, follows: dict[int, list[float]]) -> None:
        size = len(next(iter(follows.values())))
        self.log_probs = torch.full((size, size), 1 / size)
        for token, probs in follows.items():
            self.log_probs[token] = torch.tensor(probs)
        self.log_probs = self.log_probs.log()
        self.calls: list[tuple[int, ...]] = []
        self.rows = rows

    def step(self, tokens_BK: Tensor) -> StepOutput:
        self.calls.append(tuple(tokens_BK.shape))
        return StepOutput(self.log_probs[tokens_BK])

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        self.rows = len(rows_B)


# "I" and "a" compete: the likelier start has the unlikelier end.
NOTES = {BOS: [0, 0.0, 0.6, 0.4], 2: [0, 0.4, 0.3, 0.3], 3: [0, 0.9, 0.05, 0.05]}


def run(follows: dict[int, list[float]], sources: int = 1, **settings: Any) -> list[Any]:
    settings = {"length": {"max_ratio": 0.0, "max_extra": 5}, **settings}
    decoder = Scripted(sources, follows)
    found = search(
        decoder,
        [SearchInput(3)] * sources,
        SearchConfig(**settings),
        bos=BOS,
        eos=EOS,
        pad=PAD,
    )
    return [*found, decoder]


def test_greedy_takes_the_likelier_start_and_a_beam_the_likelier_whole() -> None:
    greedy, _ = run(NOTES, beam_size=1, length_penalty=0.0)
    beam, _ = run(NOTES, beam_size=2, n_best=2, length_penalty=0.0)
    assert greedy[0].tokens == (2, EOS)
    assert math.exp(greedy[0].log_prob) == pytest.approx(0.24)
    assert [h.tokens for h in beam] == [(3, EOS), (2, EOS)]
    assert [math.exp(h.log_prob) for h in beam] == pytest.approx([0.36, 0.24])
    assert [h.score for h in beam] == pytest.approx([h.log_prob for h in beam])
    assert beam[0].tokens_without_eos == (3,)


def test_the_score_divides_by_length_with_the_stop_symbol() -> None:
    beam, _ = run(NOTES, beam_size=2, length_penalty=0.5)
    assert beam[0].tokens == (3, EOS)
    assert beam[0].score == pytest.approx(math.log(0.36) / math.sqrt(2))
    assert beam[0].penalty == 0
    assert beam[0].token_log_probs == pytest.approx([math.log(0.4), math.log(0.9)])


def test_the_first_step_is_computed_once_and_a_finished_beam_asks_no_more() -> None:
    *_, decoder = run(NOTES, beam_size=2, length_penalty=0.0)
    assert decoder.calls == [(1, 1), (1, 2)]


def test_what_never_ends_is_cut_and_says_so() -> None:
    (found, _) = run({BOS: [0, 0, 1, 0], 2: [0, 0, 1, 0]}, beam_size=3)
    assert [(h.tokens, h.is_finished) for h in found] == [((2, 2, 2, 2, 2), False)]
    assert found[0].tokens_without_eos == (2, 2, 2, 2, 2)
    assert found[0].score == 0


def test_equal_candidates_come_in_the_order_of_their_ids() -> None:
    alike = [0.0, 0.4, 0.15, 0.15, 0.15, 0.15]
    found, _ = run(dict.fromkeys((BOS, 2, 3, 4, 5), alike), beam_size=3, n_best=3)
    assert [h.tokens for h in found][:3] == [(1,), (2, 1), (3, 1)]


@pytest.mark.parametrize("size", [3, 50, 4 * BLOCK_SIZE, 20 * BLOCK_SIZE + 7, 90 * BLOCK_SIZE + 1])
@pytest.mark.parametrize("count", [1, 2, 11])
def test_best_is_a_stable_sort(size: int, count: int) -> None:
    plain = torch.randn(2, 3, size)
    ties = torch.randint(0, 9, (2, 3, size)).float()
    few = plain.masked_fill(torch.rand(2, 3, size) < 0.9, NO)
    for values in (plain, ties, few, plain[:, :, ::2].repeat_interleave(2, 2)):
        top, places = stable_topk(values, count)
        expected = values.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(top, expected.values[..., :count])
        real = top > NO
        assert torch.equal(places[real], expected.indices[..., :count][real])
        assert torch.equal(values.gather(-1, places), top)


@pytest.mark.parametrize("size", [3, 40, 20 * BLOCK_SIZE + 7, 90 * BLOCK_SIZE])
@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize("count", [2, 11])
def test_the_best_sums_are_a_stable_sort_of_all(size: int, beams: int, count: int) -> None:
    starts = torch.tensor([[0.0, -0.5, -2.0, -2.0, NO][:beams], [-1e4 - n for n in range(beams)]])
    plain = torch.randn(2, beams, size)
    ties = torch.randint(0, 9, (2, beams, size)).float()
    few = plain.masked_fill(torch.rand(2, beams, size) < 0.99, NO)
    close = plain[:, :, :1] + torch.rand(2, beams, size) * 1e-3  # sums round to the same
    for steps in (plain, ties, few, close):
        every = (starts[:, :, None] + steps).flatten(1)
        top, places = stable_topk_sums(starts, steps, count)
        expected = every.sort(dim=-1, descending=True, stable=True)
        assert torch.equal(top, expected.values[:, :count])
        real = top > NO
        assert torch.equal(places[real], expected.indices[:, :count][real])


def test_the_best_sums_may_be_behind_the_last_block_or_in_many() -> None:
    steps = torch.randn(1, 5, 90 * BLOCK_SIZE + 1) - 9
    steps[0, 3, -1] = 5.0
    assert (
        stable_topk_sums(torch.zeros(1, 5), steps, 10)[1][0, 0]
        == 3 * steps.size(2) + steps.size(2) - 1
    )
    steps[0, 2, torch.arange(40, 29, -1) * BLOCK_SIZE] = 7.0  # eleven blocks with an equal each
    expected = [2 * steps.size(2) + n * BLOCK_SIZE for n in range(30, 40)]
    assert stable_topk_sums(torch.zeros(1, 5), steps, 10)[1][0].tolist() == expected


def test_what_is_no_number_is_among_the_best_sums() -> None:
    steps = torch.randn(1, 5, 90 * BLOCK_SIZE)
    steps[0, 3, 7] = torch.nan
    assert stable_topk_sums(torch.zeros(1, 5), steps, 10)[0].isnan().any()


def beam_of(emitted: list[list[list[int]]], values: list[list[float]], limit: int = 9) -> Beam:
    tokens = torch.tensor(emitted)
    tokens = torch.cat((torch.full((*tokens.shape[:2], 1), BOS), tokens), dim=2)
    rows = len(tokens)
    return Beam(
        input_index_B=torch.arange(rows),
        search_index_B=torch.zeros(rows, dtype=torch.long),
        max_lengths_B=torch.full((rows,), limit),
        source_lengths_B=torch.full((rows,), 3),
        has_finished_B=torch.zeros(rows, dtype=torch.bool),
        tokens_BKT=tokens,
        log_probs_BK=torch.tensor(values),
        beam_scores_BK=torch.tensor(values),
        token_log_probs_BKE=torch.zeros(*tokens.shape[:2], tokens.size(2) - 1),
    )


def test_candidates_are_ranked_over_all_beams() -> None:
    beam = beam_of([[[2], [3]]], [[-1.0, -1.5]])
    step = torch.tensor([[[NO, -3.0, -1.0, -2.0], [NO, -0.1, -0.2, -4.0]]])
    found = TopKSelector(beam_size=2).select(beam, step, step)
    assert found.parents_BC.tolist() == [[1, 1, 0, 0]]
    assert found.tokens_BC.tolist() == [[1, 2, 2, 3]]
    assert found.beam_scores_BC.tolist() == [pytest.approx([-1.6, -1.7, -2.0, -3.0])]
    assert found.model_log_probs_BC.tolist() == [pytest.approx([-0.1, -0.2, -1.0, -2.0])]


def test_all_pairs_of_a_tiny_vocabulary_are_candidates() -> None:
    """Four beams of four pieces, of which sixteen are wanted, are not one beam in order."""
    beam = beam_of([[[0], [1], [2], [3]]], [[-1.0, -2.0, -3.0, -4.0]])
    step = torch.linspace(0, -9, 16).reshape(1, 4, 4)
    found = TopKSelector(beam_size=8).select(beam, step, step)
    sums = (beam.beam_scores_BK[:, :, None] + step).flatten(1)
    assert found.beam_scores_BC.tolist() == sums.sort(dim=1, descending=True).values.tolist()


def candidates(tokens: list[list[int]], values: list[list[float]]) -> Candidates:
    numbers = torch.tensor(values, dtype=torch.float32)
    return Candidates(
        torch.zeros_like(torch.tensor(tokens)), torch.tensor(tokens), numbers, numbers, numbers
    )


def test_only_what_the_beam_would_keep_may_end() -> None:
    of = candidates(
        [[EOS, 4, 5, EOS], [4, 5, EOS, 6], [4, EOS, 5, EOS]],
        [[-1, -2, -3, -4], [-1, -2, -3, -4], [-1, -2, NO, NO]],
    )
    verdict = prune_candidates(of, 2, EOS, torch.tensor([False, False, False]))
    assert verdict.finished_BC.tolist() == [
        [True, False, False, False],
        [False, False, False, False],  # the stop symbol came third
        [False, True, False, False],
    ]
    assert verdict.survivor_indices_BK.tolist()[:2] == [[1, 2], [0, 1]]
    assert verdict.beam_scores_BK.tolist() == [[-2, -3], [-1, -2], [-1, NO]]


def test_the_last_step_ends_all_that_the_beam_would_keep() -> None:
    verdict = prune_candidates(
        candidates([[4, EOS, 5]], [[-1, -2, -3]]), 2, EOS, torch.tensor([True])
    )
    assert verdict.finished_BC.tolist() == [[True, True, False]]
    assert verdict.beam_scores_BK.tolist() == [[NO, NO]]


def test_each_candidate_has_one_fate() -> None:
    of = candidates([[EOS, 4, 5, 6, 7]], [[-1, -2, -3, -4, NO]])
    verdict = prune_candidates(of, 2, EOS, torch.tensor([False]))
    found, beams = compute_candidate_statuses(of, verdict, torch.tensor([[True, True]]))
    expected = [
        CandidateStatus.FINISHED,
        CandidateStatus.ALIVE,
        CandidateStatus.ALIVE,
        CandidateStatus.PRUNED,
        CandidateStatus.NONE,
    ]
    assert found.tolist() == [expected]
    assert beams.tolist() == [[-1, 0, 1, -1, -1]]
    found, beams = compute_candidate_statuses(of, verdict, torch.tensor([[False, False]]))
    assert found.tolist() == [
        [
            CandidateStatus.FINISHED,
            CandidateStatus.STOPPED,
            CandidateStatus.STOPPED,
            CandidateStatus.PRUNED,
            CandidateStatus.NONE,
        ]
    ]
    assert beams.tolist() == [[-1, -1, -1, -1, -1]]


def hypothesis(score: float, *tokens: int) -> Hypothesis:
    return Hypothesis((*tokens, EOS), True, score, score, 0.0, (score,))


def ended(*each: tuple[int, int, Hypothesis]) -> NewlyFinished:
    rows, ranks, hypotheses = zip(*each, strict=True)
    return NewlyFinished(torch.tensor(rows), torch.tensor(ranks), hypotheses)


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_the_finished_are_kept_in_order(at_once: int) -> None:
    finished = FinishedHypotheses(num_rows=2, n_best=2, device=CPU)
    scores = enumerate([-2.0, -3.0, -1.0, -2.0])
    each = [(1, rank + 1, hypothesis(score, rank)) for rank, score in scores]
    for start in range(0, 4, at_once):
        finished.add(ended(*each[start : start + at_once]))
    assert [h.tokens[0] for h in finished.best[1]] == [2, 0]  # of equals, the earlier
    assert finished.counts_R.tolist() == [0, 4]
    assert finished.n_best_threshold_R.tolist() == [NO, -2]
    assert finished.best_finished_R.tolist() == [False, False]
    finished.add(ended((0, 0, hypothesis(-9.0)), (1, 0, hypothesis(-9.0))))
    assert finished.best_finished_R.tolist() == [True, True]
    assert finished.counts_R.tolist() == [1, 5]
    assert finished.n_best_threshold_R.tolist() == [
        NO,
        -2,
    ]  # there is room for another in the first


def test_stop_rules() -> None:
    finished = FinishedHypotheses(num_rows=3, n_best=1, device=CPU)
    finished.add(ended((0, 0, hypothesis(-0.5)), (1, 1, hypothesis(-0.4))))
    values = torch.tensor([[-5.0, -5.1], [-4.1, -9.0], [-1.0, NO]])
    standing = StoppingState(values, torch.tensor([10, 10, 10]), finished, torch.arange(3))
    # -5.0/10 can only tie with -0.5; -4.1/10 cannot reach -0.4; the last has nothing yet.
    assert ExactStopping(alpha=1.0).should_stop(standing).tolist() == [True, True, False]
    assert ExactStopping(alpha=1.2).should_stop(standing).tolist() == [False, False, False]
    assert BeamFullStopping(beam_size=1).should_stop(standing).tolist() == [True, True, False]
    assert BeamFullStopping(beam_size=2).should_stop(standing).tolist() == [False, False, False]
    assert BestFinishedStopping(n_best=1).should_stop(standing).tolist() == [True, False, False]


def test_scores_by_hand() -> None:
    assert normalize_by_length(torch.tensor([-6.0]), 4, 0.5).tolist() == [-3]
    assert normalize_by_length(torch.tensor([-6.0]), 4, 0.0).tolist() == [-6]
    reach = score_upper_bound(torch.tensor([[-8.0, -6.0]]), torch.tensor([4]), 1.0)
    assert reach.tolist() == [-1.5]


def test_coverage_by_hand() -> None:
    """Two steps over three source tokens and padding: seen 0.5, 1.2 and 0.3 times."""
    attention = torch.tensor([[[[0.3, 0.6, 0.1, 0.0], [0.2, 0.6, 0.2, 0.0]]]])
    cost = compute_coverage_penalty(attention, torch.tensor([3]), beta=2.0)
    assert cost.tolist() == [[pytest.approx(-2 * (math.log(0.5) + math.log(0.3)))]]
    assert (
        compute_coverage_penalty(torch.zeros(1, 1, 1, 1), torch.tensor([1]), 1.0).isfinite().all()
    )


def test_rows_wait_until_their_leaving_pays() -> None:
    values = torch.zeros(16, 2)
    assert select_active_rows(values) is None
    values[3] = NO
    assert select_active_rows(values) is None
    values[5, 0] = NO
    assert select_active_rows(values) is None  # it still has a hypothesis
    values[5, 1] = NO
    assert select_active_rows(values).tolist() == [i for i in range(16) if i not in {3, 5}]
    assert select_active_rows(torch.full((1, 2), NO)).tolist() == []


def processed(processor: StepProcessor, beam: Beam, size: int = 6) -> list[list[list[int]]]:
    """Return the tokens that are still allowed."""
    own = torch.full((*beam.beam_scores_BK.shape, size), -1.0)
    values = own.clone()
    processor.process(beam, values, own)
    assert (own == -1).all()
    return [[row.isfinite().nonzero().flatten().tolist() for row in rows] for rows in values]


def test_min_length_counts_the_stop_symbol() -> None:
    processor = MinLength(torch.tensor([3, 4]), EOS)
    beam = beam_of([[[2, 3]], [[2, 3]]], [[0.0], [0.0]])
    assert processed(processor, beam, 3) == [[[0, 1, 2]], [[0, 2]]]
    assert processor.is_active(2)
    assert not processor.is_active(3)


def test_ngrams_do_not_come_twice() -> None:
    beam = beam_of([[[2, 3, 4, 2, 3], [2, 2, 3, 4, 5]]], [[0.0, 0.0]])
    assert processed(NoRepeatNgram(3), beam) == [[[0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]]]
    assert processed(NoRepeatNgram(1), beam) == [[[0, 1, 5], [0, 1]]]
    assert not NoRepeatNgram(3).is_active(2)


def test_forbidden_phrases_lose_their_last_token() -> None:
    processor = ForbiddenPhrases.from_phrases([[(5,), (2, 3, 4)], [], [(3, 3)]], CPU)
    beam = beam_of([[[2, 3]], [[2, 3]], [[2, 3]]], [[0.0]] * 3)
    assert processed(processor, beam) == [[[0, 1, 2, 3]], [[0, 1, 2, 3, 4, 5]], [[0, 1, 2, 4, 5]]]
    early = beam_of([[[3]], [[3]], [[2]]], [[0.0]] * 3)
    assert processed(processor, early)[0] == [[0, 1, 2, 3, 4]]  # half a phrase is no phrase


def test_a_prefix_leaves_nothing_else() -> None:
    processor = ForcedPrefix.from_prefixes([(4, 5), (), (3,)], CPU)
    beam = beam_of([[[4]], [[2]], [[3]]], [[0.0]] * 3)
    assert processed(processor, beam) == [[[5]], [[0, 1, 2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5]]]
    assert not processor.is_active(2)


def test_a_prefix_is_worth_what_the_model_thinks() -> None:
    beam, values = beam_of([[[4]]], [[0.0]]), torch.full((1, 1, 6), NO)
    ForcedPrefix.from_prefixes([(4, 5)], CPU).process(beam, values, torch.full((1, 1, 6), -1.0))
    assert values.tolist() == [[[NO] * 5 + [-1.0]]]


def test_repetition_costs_once() -> None:
    beam, values = beam_of([[[3, 3, 2]]], [[0.0]]), torch.full((1, 1, 5), -1.0)
    RepetitionPenalty(1.5).process(beam, values, values.clone())
    assert values.tolist() == [[[-1, -1, -1.5, -1.5, -1]]]


def test_progress_of_terms() -> None:
    terms = pad_phrases([[(2, 3, 4), (5,), (3, 4)]], CPU)
    emitted = torch.tensor([[[6, 2, 3], [2, 3, 4], [5, 2, 6], [6, 6, 3]]])
    progress = measure_progress(emitted, terms)
    assert progress.met_BKP.tolist() == [
        [[False] * 3, [True, False, True], [False, True, False], [False] * 3]
    ]
    assert progress.matched_BKP.tolist() == [[[2, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]]
    assert progress.num_tokens_BK.tolist() == [[2, 5, 1, 1]]


def test_banks_take_turns_the_fullest_first() -> None:
    values = torch.tensor([[-1.0, -2.0, -3.0, -9.0, NO]])
    banks = torch.tensor([[0, 0, 1, 2, 3]])
    assert order_round_robin(values, banks).tolist() == [[3, 2, 0, 1, 4]]


def test_a_turn_is_the_rank_within_a_bank() -> None:
    values = torch.randint(0, 9, (5, 40)).float()
    banks = torch.randint(0, 4, (5, 40))
    for row, turn in enumerate(rank_within_bank(values, banks)):
        for bank in range(4):
            places = (banks[row] == bank).nonzero().flatten()
            order = values[row, places].argsort(descending=True, stable=True)
            assert turn[places[order]].tolist() == list(range(len(places)))


def test_a_hypothesis_with_its_terms_goes_on_however_unlikely() -> None:
    beam = beam_of([[[2], [3]]], [[-1.0, -20.0]])  # the second has the term, and the others' odds
    step = torch.tensor([[[NO, -2.0, -1.5, -1.0, -3.0]] * 2])
    step[0, 0, EOS] = NO
    found = DynamicBeamAllocation(pad_phrases([[(3,)]], CPU), beam_size=2, eos=EOS).select(
        beam, step, step
    )
    assert found.parents_BC.tolist() == [[0, 0, 1, 0]]
    assert found.tokens_BC.tolist() == [[3, 2, 3, 4]]
    assert found.beam_scores_BC.tolist() == [[-2.0, -2.5, -21.0, -4.0]]


@pytest.mark.parametrize(
    ("limit", "ended", "whole", "left"),
    [
        (9, True, [False, False], [-1.0, -2.0]),  # there is time
        (2, False, [False, False], [-1.0, -2.0]),  # better than nothing
        (2, True, [False, False], [NO, NO]),  # not better than what ended with all its terms
        (2, False, [False, True], [NO, -2.0]),
    ],
)
def test_what_lacks_a_term_at_the_end_is_left_out_if_something_does_not(
    limit: int, ended: bool, whole: list[bool], left: list[float]
) -> None:
    beam = replace(beam_of([[[2]]], [[0.0]], limit), has_finished_B=torch.tensor([ended]))
    values = mask_incomplete(torch.tensor([[-1.0, -2.0]]), torch.tensor([whole]), beam)
    assert values.tolist() == [left]


def test_terms_that_fit() -> None:
    source = SearchInput(
        3, prefix=(9,), required=((2, 3), (4, 5, 6), (7,), (7,), (8,)), forbidden=((8,),)
    )
    assert select_feasible_phrases(source, max_length=5) == ((2, 3), (7,))
    assert missing_phrases(source.required, (9, 2, 3, 8)) == ((4, 5, 6), (7,), (7,))


def test_numbers_to_draw_by() -> None:
    many = torch.tensor(
        [keyed_uniform(0, line, 0, step) for line in range(40) for step in range(40)]
    )
    assert ((many >= 0) & (many < 1)).all()
    assert many.unique().numel() == 1600
    counts = torch.histc(many, 8, 0, 1)
    assert ((counts - 200) ** 2 / 200).sum() < 24  # χ² with 7 degrees of freedom: p > 0.001
    assert keyed_uniform(1, 2) != keyed_uniform(12)
    assert keyed_uniform(20170612, 0, 0, 0) == 0.730217095628377  # no other day, no other machine


def test_a_number_falls_on_a_share() -> None:
    weights = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25]).log()[None]
    for number, place in [
        (0.0, 1),
        (0.249, 1),
        (0.251, 3),
        (0.749, 3),
        (0.751, 4),
        (1 - 2**-53, 4),
    ]:
        assert (
            sample_indices(weights, torch.tensor([[number]], dtype=torch.float64)).item() == place
        )


def test_an_ensemble_expects_the_mean_of_probabilities() -> None:
    parts = [Scripted(1, {BOS: [0, 0.1, 0.9]}), Scripted(1, {BOS: [0, 0.7, 0.3]})]
    mean = EnsembleDecoder(parts).step(torch.tensor([[BOS]])).log_probs_BKV.exp()
    assert mean.flatten().tolist() == pytest.approx([0, 0.4, 0.6])
    with pytest.raises(InputError, match="share a vocabulary, but have \\[3, 4\\] pieces"):
        EnsembleDecoder([parts[0], Scripted(1, NOTES)]).step(torch.tensor([[BOS]]))
    with pytest.raises(InputError, match="at least one"):
        EnsembleDecoder([])


def test_an_ensemble_of_one_model_twice_is_that_model() -> None:
    settings = SearchConfig(beam_size=2, n_best=2)
    alone = search(Scripted(2, NOTES), [SearchInput(3)] * 2, settings, bos=BOS, eos=EOS, pad=PAD)
    both = EnsembleDecoder([Scripted(2, NOTES), Scripted(2, NOTES)])
    found = search(both, [SearchInput(3)] * 2, settings, bos=BOS, eos=EOS, pad=PAD)
    assert [[h.tokens for h in hs] for hs in found] == [[h.tokens for h in hs] for hs in alone]
    assert all(decoder.rows == 2 for decoder in both.decoders)


class OnlyOnce(StepProcessor):
    """Forbids one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        step_scores_BKV[:, :, self.token] = NO


def find(**more: Any) -> list[Hypothesis]:
    settings = {"config": SearchConfig(beam_size=2), "inputs": [SearchInput(3)], **more}
    return search(Scripted(1, NOTES), bos=BOS, eos=EOS, pad=PAD, **settings)[0]


def test_processors_of_ones_own() -> None:
    assert find()[0].tokens == (3, EOS)
    assert find(processors=[OnlyOnce(3)])[0].tokens == (2, EOS)


def test_where_nothing_may_follow_there_is_no_hypothesis() -> None:
    assert find(processors=[OnlyOnce(2), OnlyOnce(3)]) == []


def test_no_sources() -> None:
    assert search(Scripted(0, NOTES), [], SearchConfig(), bos=BOS, eos=EOS, pad=PAD) == []


def test_nan_is_refused() -> None:
    with pytest.raises(InputError, match="gave NaN"):
        run({BOS: [math.nan] * 4}, beam_size=2)
    with pytest.raises(InputError, match="gave NaN"):
        run({BOS: [math.nan] * 4}, beam_size=1)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SearchInput(3, required=((),)), "source 0 has one without"),
        (SearchInput(3, prefix=(2, EOS)), "special id 1"),
        (SearchInput(3, required=((PAD,),)), "special id 0"),
    ],
)
def test_sources_that_cannot_be(source: SearchInput, line: str) -> None:
    with pytest.raises(InputError, match=line):
        find(inputs=[source])


def test_terms_need_a_beam() -> None:
    with pytest.raises(InputError, match="only a beam"):
        find(inputs=[SearchInput(3, required=((2,),))], config=SearchConfig(sampling={}))


def test_coverage_needs_attention() -> None:
    with pytest.raises(InputError, match="tell its attention"):
        find(config=SearchConfig(coverage_penalty=0.2))


@pytest.mark.parametrize(
    ("settings", "line"),
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
def test_settings_that_cannot_be(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SearchConfig(**settings)
    assert any(problem.startswith(line) for problem in raised.value.problems)


def test_lengths_follow_the_source() -> None:
    lengths = LengthConfig(min_ratio=0.5, max_ratio=1.5, max_extra=2, max_length=20)
    assert [lengths.min_target_length(n) for n in (0, 1, 9, 99)] == [0, 0, 4, 20]
    assert [lengths.max_target_length(n) for n in (0, 1, 9, 99)] == [2, 3, 15, 20]
    assert SearchInput(1, prefix=(2,) * 7).max_target_length(lengths) == 8


def test_alignment_is_where_attention_is_highest() -> None:
    attention = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    assert Hypothesis((2, EOS), True, 0.0, 0.0, 0.0, (0.0, 0.0), attention).alignment == (1, 0)
    assert hypothesis(0.0, 2).alignment is None
