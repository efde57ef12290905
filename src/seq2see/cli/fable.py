"""The demo: a translator learns to tell what "it" means, from built-in fables.

French must say *il* or *elle*, and so must know whether the animal was too tired or the street too
wide. Held-out sentences show how often it does; a picture shows where "it" looks.
"""

from __future__ import annotations

from pathlib import Path

import torch
import typer
from torch import Tensor

from seq2see import draw
from seq2see.bundle import Bundle
from seq2see.cli.train import follow
from seq2see.data import fables
from seq2see.data.fables import Fable
from seq2see.engines.torch import TorchEngine, padded
from seq2see.model import AttentionListener, AttentionRecord, Site, Stack
from seq2see.search import SearchConfig
from seq2see.settings import Recipe
from seq2see.translator import Translator

# B batch, H heads, T queries, S keys

GREEDY = SearchConfig(beam_size=1)
FEW = 4


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
            "schedule": {"kind": "cosine", "peak": 0.003, "warmup": 200},
            "validation": {"every": 400, "sentences": 200},
            "checkpoints": {"every": 400, "keep": 1, "result": "last"},
            "model": {"preset": "tiny", "encoder_layers": 2, "decoder_layers": 2},
        }
    )
    typer.echo("A small Transformer learns English to French from 10,000 fables.", err=True)
    follow(recipe, Path(), folder, resume=True)


def show(folder: Path) -> None:
    """Print what it has learnt, and draw where "it" looks."""
    bundle = Bundle.load(folder)
    translator = Translator(TorchEngine(bundle.model()), bundle.tokenizers)
    test = fables.load("test", short=True)
    texts = [t.text for t in translator.translate_lines([f.source for f in test], GREEDY)]
    exact = [text == fable.target for text, fable in zip(texts, test, strict=True)]
    cases = [(f, t) for f, t in zip(test, texts, strict=True) if f.pronoun and f.pronoun.contrast]
    right = [_pronoun_is_right(fable, text) for fable, text in cases]
    typer.echo(f"\nOf {len(test):,} sentences that it has never seen:")
    typer.echo(f"  {sum(exact) / len(exact):6.1%} are translated word for word as expected")
    typer.echo(f"  {sum(right) / len(right):6.1%} of {len(right)} decisive pronouns are right\n")
    for fable, text in [*zip(test, texts, strict=True)][: FEW + 2]:
        typer.echo(f"  {fable.source}\n    → {text}")
    picture = folder / "it.png"
    _draw(bundle, [fable.source for fable in test[:2]], picture)
    typer.echo(f'\nWhere "it" looks: {picture}')
    typer.echo("Next, with two files of your own: seq2see init train.en train.de")


def _pronoun_is_right(fable: Fable, text: str) -> bool:
    assert fable.pronoun
    place = fable.pronoun.target
    return fables.words(text)[place : place + 1] == fables.words(fable.target)[place : place + 1]


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
            f"layer {layer + 1}, head {head + 1}"
            for layer in range(bundle.config.encoder_layers)
            for head in range(bundle.config.heads)
        ]
        columns = [piece.replace("▁", " ").strip() or "·" for piece in pieces] + ["end"]
        grids.append(draw.Grid(sentence, names, columns, heads.tolist()))
    draw.grids(path, 'Where "it" looks, in each head of the encoder', grids)
