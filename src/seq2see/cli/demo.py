"""`seq2see demo`: train a small model on the built-in corpus and test its pronouns.

French "it" is *il* or *elle*, so the model must find out whether the animal was too tired or the
street too wide. The demo prints how often it is correct on unseen sentences, and plots which words
and heads decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import check_run_path_not_file
from seq2see.cli.usage_errors import option_name
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.bundle import Bundle
    from seq2see.data.fables import FableSentencePair
    from seq2see.translator import Translator

NUM_EXAMPLES = 6
NUM_ALIGNMENT_FABLES = 400
"""Fables on which the head that aligns words best is selected."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIRECTORY")] = Path(
        "runs/demo"
    ),
    max_epochs: Annotated[float | None, typer.Option(min=0.001, max=1000)] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1)] = None,
) -> None:
    """Train a small model on the built-in corpus and test it.

    The model translates English to French; the test shows how it translates "it".

    Training takes about two minutes. If the run directory already has the model, it is only tested.

    Args:
        output: Run directory in which the model is trained and stored.
        max_epochs: Number of epochs after which training stops. Default: 8. If the run directory
            already has a model, nothing is trained: a number other than that of the model is an
            error, and without this option any number is accepted.
        seed: Random seed of training. Default: 1. If the run directory already has a model, nothing
            is trained: a seed other than that of the model is an error, and without this option any
            seed is accepted.
    """
    check_run_path_not_file(output)
    if (output / "config.json").exists():
        check_reusable_demo_model(output, {"max_epochs": max_epochs, "seed": seed})
    else:
        epochs = 8.0 if max_epochs is None else max_epochs
        train_demo_model(output, epochs, 1 if seed is None else seed)
    store_best_alignment_head(output)
    evaluate_and_print_demo_results(output)


def train_demo_model(run_directory: Path, max_epochs: float, seed: int) -> None:
    """Train a model on the short form of the built-in corpus."""
    from seq2see.cli.training_run import train_from_recipe
    from seq2see.training.config import build_demo_config

    typer.echo("Training a small English-French Transformer on 10,000 sentence pairs.", err=True)
    train_from_recipe(build_demo_config(max_epochs, seed), Path(), run_directory, resume=True)


def check_reusable_demo_model(
    directory: Path, expected_settings: Mapping[str, float | None]
) -> None:
    """Raise InputError if the directory has a model of another corpus or with other settings."""
    from seq2see.bundle import Bundle

    bundle = Bundle.load(directory)
    if bundle.languages != ("en", "fr") or not _was_trained_on(bundle, "builtin:fables"):
        raise InputError(
            f"{directory} has a model that was not trained on builtin:fables: name another "
            "directory with --output"
        )
    settings = bundle.provenance.recipe.get("train")
    trained = settings if isinstance(settings, dict) else {}
    for name, value in expected_settings.items():
        if value is not None and value != trained.get(name):
            raise InputError(
                f"{directory} has a model with {name} = {trained.get(name)}, not {value}: name "
                f"another directory with --output, or leave {option_name(name)} out"
            )


def store_best_alignment_head(directory: Path) -> None:
    """Store in the model directory which head aligns words best, unless it is known already."""
    from seq2see.bundle import Bundle
    from seq2see.data import fables
    from seq2see.evaluate import with_best_alignment_head

    bundle = Bundle.load(directory)
    if _was_trained_on_short_fables(bundle) and "alignment" not in bundle.provenance.notes:
        aligned_fables = fables.load_fables_split("valid", short=True)[:NUM_ALIGNMENT_FABLES]
        with_best_alignment_head(bundle, aligned_fables).save(directory)


def evaluate_and_print_demo_results(directory: Path) -> None:
    """Print scores and examples of the model, and plot what decides between the pronouns."""
    from seq2see import metrics
    from seq2see.bundle import Bundle
    from seq2see.data import fables
    from seq2see.evaluate import compute_pronoun_accuracy
    from seq2see.explain import ExplainedModel, run_pronoun_test
    from seq2see.translator import load

    translator = load(directory, "torch")
    short = _was_trained_on_short_fables(Bundle.load(directory))
    test, unseen_pairs = (
        fables.load_fables_split("test", short),
        fables.load_unseen_pronoun_cases(short),
    )
    texts = _translate_fables(translator, test)
    exact = [text == fable.target for text, fable in zip(texts, test, strict=True)]
    bleu = metrics.compute_metric_score(texts, [fable.target for fable in test])
    pronouns = compute_pronoun_accuracy(test, texts)
    unseen = compute_pronoun_accuracy(unseen_pairs, _translate_fables(translator, unseen_pairs))
    report = run_pronoun_test(ExplainedModel(translator), short)
    typer.echo(f"\nTest set of {len(test):,} sentences that were not trained on:")
    typer.echo(f"  {sum(exact) / len(exact):6.1%} of the translations equal the reference")
    typer.echo(f"  {bleu.value:5.1f}  BLEU ({bleu.signature})")
    typer.echo(f"  {pronouns.accuracy:5.1f}% of {pronouns.total} ambiguous pronouns are correct")
    typer.echo(f"  {unseen.accuracy:5.1f}% of {unseen.total} with a new pair of noun and predicate")
    masked = report.masked_accuracy
    typer.echo(f"  {masked.value:6.1%} of {masked.total} with a masked predicate (control)\n")
    for fable, text in [*zip(test, texts, strict=True)][:NUM_EXAMPLES]:
        typer.echo(f"  {fable.source}\n    → {text}")
    figure = directory / "it.png"
    report.save_figure(figure)
    typer.echo(f'\nFigure of what decides between "il" and "elle": {figure}')
    typer.echo("Next, with two files of your own: seq2see init train.en train.de")


def _was_trained_on_short_fables(bundle: Bundle) -> bool:
    return _was_trained_on(bundle, "builtin:fables-short")


def _was_trained_on(bundle: Bundle, corpus_name: str) -> bool:
    return corpus_name in json.dumps(bundle.provenance.recipe)


def _translate_fables(translator: Translator, fables: Sequence[FableSentencePair]) -> list[str]:
    sources = [fable.source for fable in fables]
    return [translation.text for translation in translator.translate(sources, beam_size=1)]
