"""`seq2see demo`: train a small model on built-in fables and test its pronouns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from seq2see import draw, metrics
from seq2see.bundle import Bundle
from seq2see.cli.inputs import refuse_file
from seq2see.cli.options import let_threads_sleep
from seq2see.cli.train import follow
from seq2see.data import fables
from seq2see.data.fables import Fable
from seq2see.engines.batching import padded
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.evaluate import Pronouns, aligned_by_best_head, pronouns
from seq2see.model import AttentionListener, AttentionRecord, Site, Stack
from seq2see.settings import Recipe
from seq2see.translator import Translator

# B batch, H heads, T queries, S keys


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the run.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[
        float | None,
        typer.Option(min=0.001, max=1000, help="How long to learn.", show_default="8"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**63 - 1, help="Another seed, another run.", show_default="1"),
    ] = None,
) -> None:
    """Train a small translator on built-in fables (two minutes), and ask what "it" means."""
    refuse_file(output)
    let_threads_sleep()

    if (output / "config.json").exists():
        refuse_others(output, {"epochs": epochs, "seed": seed})
    else:
        learn(output, 8.0 if epochs is None else epochs, 1 if seed is None else seed)
    align(output)
    show(output)


FEW = 4


FEW_HUNDRED = 400
"""Fables that tell which head aligns words."""


def learn(folder: Path, epochs: float, seed: int) -> None:
    """Train on the short form of the corpus."""
    name = "builtin:fables-short"
    recipe = Recipe.model_validate(
        {
            "data": {
                "languages": ["en", "fr"],
                "train": [{"files": [name]}],
                "valid": {"files": [f"{name}/valid"]},
            },
            "tokenizer": {"vocab_size": 1200},
            "batches": {"tokens": 2048, "max_length": 64},
            "train": {"epochs": epochs, "seed": seed},
            "schedule": {"kind": "cosine", "peak": 0.004, "warmup": 200},
            "validation": {"every": 400, "sentences": 200},
            "checkpoints": {"every": 400, "keep": 1, "result": "last"},
            "model": {
                "preset": "tiny",
                "encoder_layers": 2,
                "decoder_layers": 2,
                "norm": {"placement": "pre"},
            },
        }
    )
    typer.echo("A small Transformer learns English to French from 10,000 fables.", err=True)
    follow(recipe, Path(), folder, resume=True)


def refuse_others(folder: Path, wanted: Mapping[str, float | None]) -> None:
    """Refuse to show a translator of anything else, or with other settings than the wanted."""
    bundle = Bundle.load(folder)
    if bundle.languages != ("en", "fr") or not _learnt(bundle, "builtin:fables"):
        raise InputError(
            f"{folder} has a translator that has not learnt from fables: name another folder with "
            "--output"
        )
    settings = bundle.origin.recipe.get("train")
    trained = settings if isinstance(settings, dict) else {}
    for name, value in wanted.items():
        if value is not None and value != trained.get(name):
            raise InputError(
                f"{folder} has a translator with {name} = {trained.get(name)}, not {value}: name "
                f"another folder with --output, or leave --{name} out"
            )


def align(folder: Path) -> None:
    """Note which head of the demo's translator aligns words, unless that is known."""
    bundle = Bundle.load(folder)
    if _learnt_short(bundle) and "alignment" not in bundle.origin.notes:
        known = fables.load("valid", short=True)[:FEW_HUNDRED]
        aligned_by_best_head(bundle, known).save(folder)


def show(folder: Path) -> None:
    """Print what it has learnt, and draw where "it" looks."""
    bundle = Bundle.load(folder)
    translator = Translator(TorchEngine(bundle.model()), bundle.tokenizers)
    short = _learnt_short(bundle)
    test, novel = fables.load("test", short), fables.novel_pairs(short)
    texts = _translated(translator, test)
    exact = [text == fable.target for text, fable in zip(texts, test, strict=True)]
    bleu = metrics.score(texts, [fable.target for fable in test])
    said, of_novel = pronouns(test, texts), pronouns(novel, _translated(translator, novel))
    guessed = _control(translator, [*test, *novel])
    typer.echo(f"\nOf {len(test):,} sentences that it has never seen:")
    typer.echo(f"  {sum(exact) / len(exact):6.1%} are translated word for word as expected")
    typer.echo(f"  {bleu.value:5.1f}  BLEU ({bleu.signature})")
    typer.echo(f"  {said.share:5.1f}% of {said.cases} decisive pronouns are right")
    typer.echo(f"  {of_novel.share:5.1f}% of {of_novel.cases} whose noun and predicate never met")
    typer.echo(
        f"  {guessed.share:5.1f}% of {guessed.cases} with the predicate hidden (a control)\n"
    )
    for fable, text in [*zip(test, texts, strict=True)][: FEW + 2]:
        typer.echo(f"  {fable.source}\n    → {text}")
    picture = folder / "it.png"
    _draw(bundle, [fable.source for fable in test[:2]], picture)
    typer.echo(f'\nWhere "it" looks: {picture}')
    typer.echo("Next, with two files of your own: seq2see init train.en train.de")


def _learnt_short(bundle: Bundle) -> bool:
    """Tell which form of the corpus a model has learnt from."""
    return _learnt(bundle, "builtin:fables-short")


def _learnt(bundle: Bundle, name: str) -> bool:
    return name in json.dumps(bundle.origin.recipe)


def _translated(translator: Translator, cases: Sequence[Fable]) -> list[str]:
    return [t.text for t in translator.translate([f.source for f in cases], beam_size=1)]


def _control(translator: Translator, cases: Sequence[Fable]) -> Pronouns:
    """Count how often the right pronoun is likelier where nothing decides: a half, by design."""
    hidden = [f.pronoun.control for f in cases if f.pronoun and f.pronoun.control]
    right, wrong = (
        translator.score([(case.source, text) for case, text in zip(hidden, texts, strict=True)])
        for texts in ([case.right for case in hidden], [case.wrong for case in hidden])
    )
    likelier = [r.log_prob > w.log_prob for r, w in zip(right, wrong, strict=True)]
    return Pronouns(len(likelier), sum(likelier))


class _SelfAttention:
    """Listens to every head of the encoder."""

    def __init__(self) -> None:
        self.weights_BHTS: list[Tensor] = []

    def attention_listener(self, site: Site) -> AttentionListener | None:
        return self._take if site.stack == "encoder" else None

    def _take(self, record: AttentionRecord) -> None:
        self.weights_BHTS.append(record.weights_BHTS)

    def layer_listener(self, stack: Stack, layer: int) -> None: ...


def _draw(bundle: Bundle, sentences: list[str], path: Path) -> None:
    """Draw, for each sentence, the attention from "it" to every piece, a row for each head."""
    model, tokenizer = bundle.model(), bundle.tokenizers.source
    grids = []
    for sentence in sentences:
        ids = tokenizer.encode(sentence)
        pieces = [tokenizer.pieces[i] for i in ids]
        ear = _SelfAttention()
        with torch.inference_mode():
            model.encode(padded([ids]), ear)
        heads = torch.cat([weights[0, :, pieces.index("▁it")] for weights in ear.weights_BHTS])
        names = [
            f"encoder.{layer}.self.{head}"
            for layer in range(bundle.config.encoder_layers)
            for head in range(bundle.config.heads)
        ]
        columns = [piece.replace("▁", " ").strip() or "·" for piece in pieces] + ["end"]
        grids.append(draw.Grid(sentence, names, columns, heads.tolist()))
    draw.grids(path, 'Where "it" looks, in each head of the encoder', grids)
