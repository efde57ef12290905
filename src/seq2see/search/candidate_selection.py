"""Selection of candidates: stable top-k, sampling, diverse beam search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from seq2see.keyed_random import keyed_uniform
from seq2see.search.config import SamplingConfig, SearchConfig
from seq2see.search.hypotheses import Beam, Candidates

# B rows, G rows of one beam group, K beams, C candidates, V vocabulary, N any number, S inputs


BLOCK_SIZE = 64
"""Top-k searches the vocabulary in blocks of this size: the maxima of all blocks take a third of
the time of a full top-k, and only the blocks with the highest maxima can contain the result."""


CandidateSelector = Callable[[Beam, Tensor, Tensor], Candidates]
"""Returns the candidates of a step in order of preference. It is called with the beam, the
log-probabilities of the model, and the same after the processors."""


def select_top_k(
    beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor, beam_size: int
) -> Candidates:
    """Return the 2 · beam_size candidates with the highest beam scores of each row.

    At most one candidate of each beam ends, so at least beam_size remain. With beam_size 1 (greedy
    search) only the best is selected, and the search ends if it is the end symbol.
    """
    if beam_size == 1:
        steps_BKC, tokens_BKC = stable_topk(step_scores_BKV, 1)
        scores_BC, tokens_BC = beam.beam_scores_BK + steps_BKC[:, :, 0], tokens_BKC[:, :, 0]
        parents_BC = torch.zeros_like(tokens_BC)
    else:
        scores_BC, indices_BC = stable_topk_sums(
            beam.beam_scores_BK, step_scores_BKV, 2 * beam_size
        )
        vocab_size = step_scores_BKV.size(2)
        parents_BC, tokens_BC = indices_BC // vocab_size, indices_BC % vocab_size
    return Candidates.from_tokens(beam, model_log_probs_BKV, parents_BC, tokens_BC, scores_BC)


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` highest values of the last axis in descending order, and their indices.

    Among equal values the lower index comes first. `topk` does not specify the order of equal
    values, so a translation could depend on the shape of its batch.
    """
    if k == 1:
        return _blockwise_topk(values, 1)  # the first of equal values
    if k >= values.size(-1):
        return values.sort(dim=-1, descending=True, stable=True)
    # One more than needed, to detect whether the last one has an equal value outside the top k.
    return _sort_ties(*_blockwise_topk(values, k + 1), lambda rows: values[rows])


def stable_topk_sums(starts_BK: Tensor, steps_BKV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `stable_topk` of the sums of each start and its steps, flattened to [B, K·V].

    Only few sums are computed: all of them would be a tensor as large as the model's output.
    """

    def sums(rows: Tensor | slice) -> Tensor:
        return (starts_BK[rows, :, None] + steps_BKV[rows]).flatten(1)

    _, beams, size = steps_BKV.shape
    if min(size, beams * size // k) < 4 * BLOCK_SIZE:
        return stable_topk(sums(slice(None)), k)
    maxima_BN = (starts_BK[:, :, None] + _block_maxima(steps_BKV)).flatten(1)
    indices_BN = _block_indices(maxima_BN.topk(k + 1).indices, beams, size)
    steps_BN = steps_BKV.flatten(1).gather(1, indices_BN)
    top, positions = (starts_BK.gather(1, indices_BN // size) + steps_BN).topk(k + 1)
    return _sort_ties(top, indices_BN.gather(1, positions), sums)


def _sort_ties(
    top: Tensor, indices: Tensor, values: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return all but the last of the top values, with equal values in the order of their indices.

    `values` returns all values of the rows in its argument.
    """
    equal = (top[..., 1:] == top[..., :-1]) & (top[..., 1:] > -torch.inf)
    rows = equal.any(-1)
    if rows.any():  # note: this is a sync point
        ordered = values(rows).sort(dim=-1, descending=True, stable=True)
        top[rows], indices[rows] = (each[..., : top.size(-1)] for each in ordered)
    return top[..., :-1], indices[..., :-1]


def _blockwise_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the same as `_topk`, except for the order of equal values if k is above 1."""
    if values.size(-1) < 4 * BLOCK_SIZE * k:
        return _topk(values, k)
    indices = _block_indices(_topk(_block_maxima(values), k)[1], 1, values.size(-1))
    top, positions = _topk(values.gather(-1, indices), k)
    return top, indices.gather(-1, positions)


def _topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return values.max(-1, keepdim=True) if k == 1 else values.topk(k)


def _block_maxima(values: Tensor) -> Tensor:
    """Return the maximum of each full block."""
    num_blocks = values.size(-1) // BLOCK_SIZE
    blocks: Tensor = values[..., : num_blocks * BLOCK_SIZE].unflatten(-1, (num_blocks, BLOCK_SIZE))
    return blocks.amax(-1)


def _block_indices(blocks: Tensor, beams: int, size: int) -> Tensor:
    """Return all indices in these blocks, and those of each beam after its last full block.

    Blocks and indices are numbered through all beams, each with a vocabulary of `size`.
    """
    blocks_per_beam, device = size // BLOCK_SIZE, blocks.device
    first = blocks // blocks_per_beam * size + blocks % blocks_per_beam * BLOCK_SIZE
    inside = first[..., None] + torch.arange(BLOCK_SIZE, device=device)
    starts_K1 = torch.arange(0, beams * size, size, device=device)[:, None]
    rest = torch.arange(blocks_per_beam * BLOCK_SIZE, size, device=device)
    after = (starts_K1 + rest).flatten()
    return torch.cat((inside.flatten(-2), after.expand(*blocks.shape[:-1], -1)), dim=-1)


def sample_candidates(
    beam: Beam,
    model_log_probs_BKV: Tensor,
    step_scores_BKV: Tensor,
    config: SamplingConfig,
    source_keys: Sequence[int],
) -> Candidates:
    """Return one sampled token per row. Each sample of a sentence is a row.

    The random numbers depend only on the key of the source, the sample and the step: equal
    sentences have equal samples, in any line and batch.
    """
    step_scores_BV = step_scores_BKV[:, 0]
    logits_BN, ids_BN = select_top_k_top_p(step_scores_BV / config.temperature, config)
    indices_B1 = sample_by_inverse_cdf(logits_BN, draw_uniform(beam, source_keys))
    tokens_B1 = indices_B1 if ids_BN is None else ids_BN.gather(1, indices_B1)
    scores_B1 = beam.beam_scores_BK + step_scores_BV.gather(1, tokens_B1)
    parents_B1 = torch.zeros_like(tokens_B1)
    return Candidates.from_tokens(beam, model_log_probs_BKV, parents_B1, tokens_B1, scores_B1)


def draw_uniform(beam: Beam, source_keys: Sequence[int]) -> Tensor:
    """Return a number from [0, 1) for each row in this step, [B, 1]."""
    samples = zip(beam.input_index_B.tolist(), beam.search_index_B.tolist(), strict=True)
    numbers = [keyed_uniform(source_keys[index], sample, beam.length) for index, sample in samples]
    device = beam.beam_scores_BK.device
    # For sums of probabilities; float32 would lose rare tokens.
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.tensor(numbers, dtype=dtype, device=device)[:, None]


def select_top_k_top_p(logits_BV: Tensor, config: SamplingConfig) -> tuple[Tensor, Tensor | None]:
    """Return the logits to sample from and their token ids; None if the ids are 0 … V − 1.

    Logits outside top-p are −∞.
    """
    if config.top_k is None and config.top_p == 1:
        return logits_BV, None
    logits_BN, ids_BN = stable_topk(logits_BV, config.top_k or logits_BV.size(1))
    probs_BN = logits_BN.softmax(1)
    before_BN = probs_BN.cumsum(1) - probs_BN
    is_removed_BN = before_BN >= config.top_p
    is_removed_BN[:, 0] = False  # the most likely token stays despite rounding
    return logits_BN.masked_fill(is_removed_BN, -torch.inf), ids_BN


def sample_by_inverse_cdf(logits_BN: Tensor, uniform_B1: Tensor) -> Tensor:
    """Return the index that each row's number selects in the cumulative distribution, [B, 1]."""
    probs_BN = logits_BN.to(uniform_B1.dtype).softmax(1).nan_to_num(0)  # NaN if all are −∞
    sums_BN = probs_BN.cumsum(1)
    indices_B1 = torch.searchsorted(sums_BN, uniform_B1 * sums_BN[:, -1:], right=True)
    return indices_B1.clamp(max=logits_BN.size(1) - 1)


def select_diverse(
    beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor, config: SearchConfig
) -> Candidates:
    """Diverse beam search (Vijayakumar et al. 2016): groups avoid the tokens of earlier groups.

    Each group is a row of the beam and an independent beam search. The penalties change the order
    of the candidates, but not their beam scores.
    """
    num_inputs, beam_size = int(beam.input_index_B[-1]) + 1, config.beams_per_search
    counts_SV = step_scores_BKV.new_zeros(num_inputs, step_scores_BKV.size(2))
    groups = range(config.num_beam_groups)
    rows = [(beam.search_index_B == group).nonzero().flatten() for group in groups]
    parents_and_tokens = []
    for rows_G in rows:
        inputs_G = beam.input_index_B[rows_G]
        penalties_GV = config.diversity_penalty * counts_SV[inputs_G]
        penalized_GKV = step_scores_BKV[rows_G] - penalties_GV[:, None]
        chosen = select_top_k(
            beam.select_rows(rows_G), model_log_probs_BKV[rows_G], penalized_GKV, beam_size
        )
        parents_and_tokens.append(torch.stack((chosen.parents_BC, chosen.tokens_BC)))
        is_candidate_GK = (chosen.beam_scores_BC[:, :beam_size] > -torch.inf).to(counts_SV.dtype)
        where = (inputs_G[:, None], chosen.tokens_BC[:, :beam_size])
        counts_SV.index_put_(where, is_candidate_GK, accumulate=True)
    parents_BC, tokens_BC = torch.cat(parents_and_tokens, 1)[:, torch.cat(rows).argsort()]
    rows_B1 = torch.arange(len(beam), device=parents_BC.device)[:, None]
    steps_BC = step_scores_BKV[rows_B1, parents_BC, tokens_BC]
    scores_BC = beam.beam_scores_BK.gather(1, parents_BC) + steps_BC
    return Candidates.from_tokens(beam, model_log_probs_BKV, parents_BC, tokens_BC, scores_BC)
