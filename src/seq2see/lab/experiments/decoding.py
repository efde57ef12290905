"""Experiments 57 and 58: greedy search, beam search, and decoding step by step."""

import math
from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from seq2see.draw import BLUE, GRAY, ORANGE
from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    near,
)
from seq2see.lab.figures import Drawing, FigureData
from seq2see.lab.models import max_abs_diff
from seq2see.lab.training import DIGIT_MODEL, greedy
from seq2see.model import Transformer
from seq2see.search import (
    CandidateStatus,
    SearchConfig,
    SentenceSearchInput,
    StepOutput,
    StepRecord,
    search,
)

# B rows, K beams, C candidates, T target tokens, V vocabulary

PAD, BOS, EOS, VOCABULARY, LENGTH = 0, 1, 2, 7, 4
Prefix = tuple[int, ...]
Hypothesis = tuple[float, Prefix]
"""Log-probability and tokens."""
GREEDY = SearchConfig(beam_size=1, length_penalty=0.0)
BEAM = SearchConfig(beam_size=2, n_best=2, length_penalty=0.0)
WORDS = {EOS: "</s>", 3: "I", 4: "a", 5: "am", 6: "student"}
EXAMPLE: dict[Prefix, dict[int, float]] = {
    (): {3: 0.5, 4: 0.4, 5: 0.1},
    (3,): {5: 0.4, 4: 0.35, EOS: 0.25},
    (4,): {6: 0.9, EOS: 0.1},
    (3, 5): {EOS: 0.6, 4: 0.4},
    (4, 6): {EOS: 0.8, 5: 0.2},
}
"""Probabilities of the next word: greedy search finds “I am” (0.12), not “a student” (0.288)."""


class PrefixTable:
    """A model that returns random probabilities for each prefix, or those of a table."""

    def __init__(self, seed: int, table: dict[Prefix, dict[int, float]] | None = None) -> None:
        self.rng = torch.Generator().manual_seed(seed)
        self.table = table
        self.known: dict[Prefix, Tensor] = {}
        self.prefixes: list[Prefix] | None = None

    def log_probs(self, prefix: Prefix) -> Tensor:
        """Return the log-probabilities of the next token, [V]."""
        if prefix not in self.known:
            scores_V = torch.full((VOCABULARY,), -torch.inf)
            if self.table:
                for token, probability in self.table.get(prefix, {EOS: 1.0}).items():
                    scores_V[token] = math.log(probability)
            elif len(prefix) == LENGTH:
                scores_V[EOS] = 0.0
            else:
                scores_V[EOS:] = torch.randn(VOCABULARY - EOS, generator=self.rng)
            self.known[prefix] = scores_V.log_softmax(dim=0)
        return self.known[prefix]

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Add the last token of each hypothesis and return what may follow."""
        last: list[int] = tokens_BK[0].tolist()
        previous = self.prefixes
        self.prefixes = [
            (*previous[k], token) if previous is not None else () for k, token in enumerate(last)
        ]
        return StepOutput(torch.stack([self.log_probs(each) for each in self.prefixes])[None])

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep the prefixes that continue; there is one sentence."""
        if len(rows_B) and self.prefixes is not None:
            self.prefixes = [self.prefixes[parent] for parent in parents_BK[0].tolist()]


class StepRecords:
    """An observer that keeps the records of all steps."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []

    def step(self, record: StepRecord) -> None:
        """Keep a record."""
        self.records.append(record)


def search_table(
    table: PrefixTable, config: SearchConfig, observer: StepRecords | None = None
) -> list[Prefix]:
    """Return the translations that the project's search finds, without the end symbol."""
    table.prefixes, inputs = None, [SentenceSearchInput([PAD] * 3)]
    (found,) = search(table, inputs, config, bos=BOS, eos=EOS, pad=PAD, observer=observer)
    return [each.tokens_without_eos for each in found]


def search_by_hand(table: PrefixTable, beam_size: int, one_prefix: bool = False) -> list[Prefix]:
    """Return the best translations; `one_prefix` keeps only continuations of the best prefix."""
    beam: list[Hypothesis] = [(0.0, ())]
    finished: list[Hypothesis] = []
    while beam:
        candidates = sorted(
            (
                (log_prob + float(table.log_probs(prefix)[token]), (*prefix, token))
                for log_prob, prefix in beam
                for token in range(EOS, VOCABULARY)
            ),
            reverse=True,
        )
        candidates = [each for each in candidates if each[0] > -math.inf]
        if one_prefix:
            candidates = [each for each in candidates if each[1][:-1] == candidates[0][1][:-1]]
        finished += [each for each in candidates[:beam_size] if each[1][-1] == EOS]
        beam = [each for each in candidates if each[1][-1] != EOS][:beam_size]
        if beam_size == 1 and finished:
            break
    return [prefix[:-1] for _, prefix in sorted(finished, reverse=True)[:beam_size]]


def _draw_tree(figure: Figure, data: FigureData) -> None:
    axes = figure.subplots()
    axes.axis("off")
    for start, (x, y), label, status in data.array("tree"):
        color = {CandidateStatus.ALIVE: BLUE, CandidateStatus.FINISHED: ORANGE}.get(status, GRAY)
        axes.plot(*zip(start, (x, y), strict=True), color=color, linewidth=1.2, zorder=0)
        box = {"boxstyle": "round,pad=0.35", "facecolor": color, "edgecolor": "none"}
        axes.text(x, y, label, ha="center", va="center", fontsize=8, color="white", bbox=box)
    axes.margins(0.1, 0.15)


def build_tree(steps: StepRecords) -> list[tuple[object, ...]]:
    """Return start, end, label and status of each candidate of a search."""
    tree: list[tuple[object, ...]] = [((0, 0), (0, 0), "<s>", CandidateStatus.ALIVE)]
    parents: dict[int, tuple[int, float]] = {0: (0, 0)}
    for depth, record in enumerate(steps.records, 1):
        statuses = record.statuses_BC[0].tolist()
        shown = [i for i, status in enumerate(statuses) if status != CandidateStatus.NONE]
        positions: dict[int, tuple[int, float]] = {}
        for rank, i in enumerate(shown):
            candidates = record.candidates
            place = (depth, (len(shown) - 1) / 2 - rank)
            probability = math.exp(float(candidates.beam_scores_BC[0, i]))
            label = f"{WORDS[int(candidates.tokens_BC[0, i])]}  {probability:.3f}"
            tree.append((parents[int(candidates.parents_BC[0, i])], place, label, statuses[i]))
            positions[int(record.next_beam_BC[0, i])] = place
        parents = positions
    return tree


# 200 random tables per seed: the standard error of a share is below 0.036. A rule that gives
# another list of translations in a fifth of all cases is another rule.
@experiment(
    57,
    Part("greedy", holds(near("greedy_same", 1, 0)), false(at_most("greedy_same", 0.9))),
    Part(
        "beam",
        holds(near("beam_same", 1, 0), near("alive", 2, 0), near("returned", 2, 0)),
        false(at_most("beam_same", 0.9)),
    ),
    Part(
        "first_word",
        false(at_most("rule_same", 0.8), at_least("both_alive", 0.2)),
        holds(at_least("rule_same", 1)),
        controls=[near("beam_same", 1, 0)],
    ),
    figures=[Drawing("beam", _draw_tree, height=3.4)],
)
def greedy_and_beam_search(context: Context) -> Numbers:
    """Search random tables by the project's code, by hand, and by the rule of the notes."""
    same: dict[str, list[bool]] = {name: [] for name in ("greedy", "beam", "rule", "better")}
    alive, returned, both = [], [], []
    for i in range(200):
        table, steps = PrefixTable(context.mix_seed(f"table {i}")), StepRecords()
        found, best = search_table(table, BEAM, steps), search_table(table, GREEDY)
        same["greedy"].append(best == search_by_hand(table, 1))
        same["beam"].append(found == search_by_hand(table, 2))
        same["rule"].append(found == search_by_hand(table, 2, one_prefix=True))
        same["better"].append(found[0] != best[0])
        alive.append(max(record.beam.beam_scores_BK.isfinite().sum() for record in steps.records))
        returned.append(len(found))
        second = steps.records[1]
        kept_C = second.statuses_BC[0] == CandidateStatus.ALIVE
        both.append(len(set(second.candidates.parents_BC[0][kept_C].tolist())) == 2)
    steps = StepRecords()
    search_table(PrefixTable(0, EXAMPLE), BEAM, steps)
    return {
        **{f"{name}_same": sum(values) / len(values) for name, values in same.items()},
        "alive": float(max(alive)),
        "returned": float(min(returned)),
        "both_alive": sum(both) / len(both),
        "tree": build_tree(steps),
    }


def count_calls(module: torch.nn.Module, call: Callable[[], object]) -> int:
    """Return how often a module is called."""
    calls: list[int] = []
    hook = module.register_forward_hook(lambda *_: calls.append(1))
    call()
    hook.remove()
    return len(calls)


# Rounding in float64 is below 1e-13 per operation; the loss of the future would change digits.
@experiment(
    58,
    Part(
        "training",
        holds(
            at_most("difference", 1e-10),
            near("encoder_calls_training", 1, 0),
            near("decoder_calls_training", 1, 0),
        ),
        false(at_least("difference", 1e-3)),
    ),
    Part(
        "decoding",
        holds(near("encoder_calls", 1, 0), near("calls_per_token", 1, 0)),
        false(at_most("calls_per_token", 0.5)),
    ),
)
@torch.no_grad()
def parallel_and_serial(context: Context) -> Numbers:
    """Compare one pass over a target with one pass per token, and count the passes of a search."""
    torch.manual_seed(context.mix_seed("weights"))
    model = Transformer.from_config(DIGIT_MODEL).eval()
    source_BS, target_BT = torch.randint(4, 14, (2, 8, 64), generator=context.rng("ids"))
    source = source_BS[0].tolist()
    translations: list[list[list[int]]] = []
    decoder_calls = count_calls(model.decoder, lambda: translations.append(greedy(model, [source])))
    ((translation,),) = translations
    encoder_calls = count_calls(model.encoder, lambda: greedy(model, [source]))
    model.double()
    cache = model.init_cache(model.encode(source_BS))
    steps = [model.step(token_B1, cache) for token_B1 in target_BT.split(1, dim=1)]
    logits_BTV = model(source_BS, target_BT)
    limit = SearchConfig().length.max_target_length(len(source) + 1)
    return {
        "difference": max_abs_diff(model.output(torch.cat(steps, dim=1)), logits_BTV),
        "encoder_calls_training": count_calls(model.encoder, lambda: model(source_BS, target_BT)),
        "decoder_calls_training": count_calls(model.decoder, lambda: model(source_BS, target_BT)),
        "encoder_calls": encoder_calls,
        "tokens": min(len(translation) + 1, limit),
        "calls_per_token": decoder_calls / min(len(translation) + 1, limit),
    }
