"""Experiment 19: what "it" attends to, and whether that decides its translation."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from seq2see.data import fables
from seq2see.data.fables import FableSentencePair
from seq2see.engines.loading import load_torch_engine
from seq2see.explain.activation_patching import (
    ActivationPatcher,
    NextTokenPreference,
    isolate_source_tokens,
)
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.interventions import MaskKeys, copy_model_with_interventions
from seq2see.explain.pronoun_test import (
    ProportionWithConfidenceInterval,
    bonferroni_z,
    run_pronoun_test,
)
from seq2see.explain.words import build_source_sentence
from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    undecided,
)
from seq2see.lab.figures import Bars
from seq2see.model import Transformer
from seq2see.translator import Translator

# S source tokens

NUM_SENTENCES, NUM_PAIRS = 120, 40


class PronounCase(NamedTuple):
    """A sentence in which the predicate decides what "it" refers to."""

    fable: FableSentencePair
    ids_1S: Tensor
    it: slice
    predicate: slice
    preference: NextTokenPreference
    """The correct and the wrong pronoun after the same beginning of the translation."""

    def measure(self, model: Transformer) -> float:
        """Return log p(correct pronoun) − log p(wrong pronoun)."""
        return float(self.preference.compute(model, model.encode(self.ids_1S)))


def build_case(explained: ExplainedModel, fable: FableSentencePair) -> PronounCase:
    """Return a sentence with the indices of its words."""
    assert fable.pronoun
    assert fable.pronoun.contrastive_pair
    ids, pair = explained.encode_source(fable.source), fable.pronoun.contrastive_pair
    sentence, words = (
        build_source_sentence(explained, fable.source, ids),
        fables.split_words(fable.source),
    )
    it, predicate = (
        next(
            slice(word.first_token, word.end_token)
            for word in sentence.words
            if word.text.lower() == words[index].lower()
        )
        for index in (fable.pronoun.source_index, fable.pronoun.predicate_index)
    )
    correct, wrong = explained.encode_targets([pair.correct, pair.wrong])
    step = next(i for i, (a, b) in enumerate(zip(correct, wrong, strict=False)) if a != b)
    prefix = (explained.special_tokens.decoder_start_id, *correct[:step])
    preference = NextTokenPreference(prefix, correct[step], wrong[step])
    return PronounCase(fable, explained.build_source_BS(ids), it, predicate, preference)


def mask_in_decoder(model: Transformer, tokens: slice) -> Transformer:
    """Return a copy whose decoder does not attend to these source tokens."""
    keys = tuple(range(tokens.start, tokens.stop))
    masked = MaskKeys(stack="decoder", attention="cross", keys=keys)
    return copy_model_with_interventions(model, [masked])


CHANGES: dict[str, Callable[[Transformer, PronounCase], Transformer]] = {
    "unchanged": lambda model, _: model,
    "it_isolated": lambda model, case: isolate_source_tokens(model, case.it),
    "predicate_isolated": lambda model, case: isolate_source_tokens(model, case.predicate),
    "it_hidden": lambda model, case: mask_in_decoder(model, case.it),
    "predicate_hidden": lambda model, case: mask_in_decoder(model, case.predicate),
}
RIGHT = [f"right_{name}" for name in CHANGES]
SHARES = ["it_share", "predicate_share"]


# "Attends": the whole interval is above one half. "Needed": a tenth of the pronouns is wrong
# without it; 5 % is one standard error of one seed. The shares of "it" and the predicate add up to
# about 1: half of it is the larger part. Isolation has an effect at all if it changes
# log-probabilities by more than rounding does.
@experiment(
    19,
    Part(
        "attends",
        false(at_most("best_head", 0.6), at_most("best_head_low", 0.49)),
        holds(at_least("best_head_low", 0.5)),
    ),
    Part(
        "needed",
        false(at_most("drop", 0.05), at_least("isolated_change", 0.01)),
        holds(at_least("drop", 0.1)),
        controls=[at_least("right_unchanged", 0.75)],
    ),
    Part(
        "encoded",
        false(at_most("it_share", 0.2), at_least("predicate_share", 0.5)),
        holds(at_least("it_share", 0.5)),
        controls=[at_least("right_unchanged", 0.75)],
    ),
    Part("notes_model", undecided()),
    needs_translator=True,
    figures=[Bars("by_change", RIGHT, "right"), Bars("patched", SHARES, "share")],
)
def pronoun_and_antecedent(context: Context) -> Numbers:
    """Measure attention from "it", cut it off from other words, and patch its activations."""
    bundle = context.translator
    engine = load_torch_engine(bundle)
    explained = ExplainedModel(
        Translator(engine, bundle.tokenizers, bundle.languages, bundle=bundle)
    )
    report = run_pronoun_test(explained, use_short_corpus=True, max_cases=200)
    best = report.best_head.proportion
    corrected = ProportionWithConfidenceInterval.from_counts(
        best.count, best.total, bonferroni_z(len(report.heads))
    )
    all_cases = fables.select_pronoun_fables("test", short=True)
    order = torch.randperm(len(all_cases), generator=context.rng("sentences"))
    cases = [build_case(explained, all_cases[index]) for index in order[:NUM_SENTENCES]]
    preferences = measure_changes(explained.model, cases)
    right = {f"right_{name}": fmean(v > 0 for v in p) for name, p in preferences.items()}
    changes = zip(preferences["unchanged"], preferences["it_isolated"], strict=True)
    return {
        "best_head": best.value,
        "best_head_low": corrected.low,
        **right,
        "drop": right["right_unchanged"] - right["right_it_isolated"],
        "isolated_change": fmean(abs(before - after) for before, after in changes),
        **measure_patched_shares(explained, all_cases),
    }


@torch.inference_mode()
def measure_changes(model: Transformer, cases: Sequence[PronounCase]) -> dict[str, list[float]]:
    """Return the preference for the correct pronoun in each case, by the change of the model."""
    return {
        name: [case.measure(change(model, case)) for case in cases]
        for name, change in CHANGES.items()
    }


def measure_patched_shares(
    explained: ExplainedModel, sentences: Sequence[FableSentencePair]
) -> dict[str, float]:
    """Return how much of the preference moves if the encoder output of one word is patched.

    Two sentences that differ in the predicate prefer different pronouns. The encoder's activations
    at one word are taken from the other sentence.
    """
    shifts: dict[str, list[float]] = {"it": [], "predicate": [], "all": []}
    for first, second in pairwise(sentences):
        if len(shifts["all"]) == NUM_PAIRS or not _are_minimal_pair(first, second):
            continue
        one, other = build_case(explained, first), build_case(explained, second)
        if one.ids_1S.shape != other.ids_1S.shape or one.predicate != other.predicate:
            continue  # patching pairs the sentences token by token
        patcher = ActivationPatcher(explained.model, [one.ids_1S, other.ids_1S], one.preference)
        encoder = [each for each in patcher.activations if each.module.startswith("encoder")]
        for name, tokens in (("it", one.it), ("predicate", one.predicate), ("all", slice(None))):
            patched = [each._replace(tokens=tokens) for each in encoder]
            shifts[name].append(patcher.measure_shift(patched))
    return {f"{name}_share": sum(shifts[name]) / sum(shifts["all"]) for name in ("it", "predicate")}


def _are_minimal_pair(first: FableSentencePair, second: FableSentencePair) -> bool:
    assert first.pronoun
    assert second.pronoun
    one, other = first.pronoun.masked_pair, second.pronoun.masked_pair
    return bool(one and other and one.source == other.source)
