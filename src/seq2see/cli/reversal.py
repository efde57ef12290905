"""The demo until there is training: a small Transformer learns to reverse digits.

A plain loop over the model's own interface, then greedy decoding through the cache while a recorder
listens to where each output digit looks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.nn import functional as F

from seq2see.model import (
    AttentionListener,
    AttentionRecord,
    ModelConfig,
    Site,
    Stack,
    Transformer,
    count_parameters,
)

# B batch, T target tokens, S source tokens, H heads

PAD, START, STOP, ZERO = 0, 1, 2, 3
LONGEST = 8


CONFIG = ModelConfig(
    vocab_size=ZERO + 10, d_model=64, d_ff=128, heads=2, encoder_layers=2, decoder_layers=2
)


def run(steps: int, seed: int) -> None:
    """Learn, count what comes out right, and draw where the model looks."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # tensors this small make threads wait for each other
    console = Console(stderr=True, highlight=False)
    model = Transformer.from_config(CONFIG)
    console.print(f"A Transformer of {count_parameters(model):,} weights learns to reverse digits.")
    start = time.perf_counter()
    updates = track(range(steps), "learning", console=console, disable=not console.is_terminal)
    for _, loss in zip(updates, learn(model, steps), strict=True):
        last_loss = loss
    console.print(f"Loss {last_loss:.3f} after {time.perf_counter() - start:.0f} s.")

    sources, targets = digits(500)
    answers, _ = greedy(model.eval(), sources)
    right = sum(_text(a) == _text(t) for a, t in zip(answers, targets, strict=True))
    typer.echo(f"\n{right / 5:.1f} % of 500 fresh sentences are reversed without a slip.")
    for source, answer in zip(sources[:4], answers[:4], strict=True):
        typer.echo(f"  {_text(source):>8} → {_text(answer)}")
    _show_attention(model, sources[sources.ne(PAD).sum(1).argmax()][None])
    typer.echo("\nNext: `.venv/bin/seq2see info base` prints the paper's model as a tree.")


def learn(model: Transformer, steps: int) -> Iterator[float]:
    """Update the model so many times; yield the loss of each."""
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=3e-3, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    for _ in range(steps):
        source, target = digits(64)
        logits = model.train()(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        yield loss.item()


def digits(count: int) -> tuple[Tensor, Tensor]:
    """Make sentences of 3 to 8 digits, and the same reversed between start and stop."""

    source = torch.full((count, LONGEST), PAD)
    target = torch.full((count, LONGEST + 2), PAD)
    lengths = torch.randint(3, LONGEST + 1, (count,)).tolist()
    for row, length in enumerate(lengths):
        sentence = torch.randint(ZERO, ZERO + 10, (length,))
        source[row, :length] = sentence
        target[row, 0] = START
        target[row, 1 : length + 1] = sentence.flip(0)
        target[row, length + 1] = STOP
    return source, target


class _Cross:
    """Records the attention to the source of the last layer, step by step."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []

    def attention_listener(self, site: Site) -> AttentionListener | None:
        return self._take if site == ("decoder", 1, "cross") else None

    def _take(self, record: AttentionRecord) -> None:
        self.weights.append(record.weights_BHTS)

    def layer_listener(self, stack: Stack, layer: int) -> None: ...


def greedy(model: Transformer, source: Tensor) -> tuple[Tensor, Tensor]:
    """Decode step by step through the cache; return the tokens and the attention of each step."""

    recorder = _Cross()
    with torch.inference_mode():
        cache = model.start(model.encode(source))
        steps = [torch.full((len(source), 1), START)]
        for _ in range(LONGEST + 1):
            states = model.step(steps[-1], cache, recorder)
            steps.append(model.output(states).argmax(-1))
    return torch.cat(steps, dim=1), torch.cat(recorder.weights, dim=2)


def _text(ids: Tensor) -> str:
    """Return the digits up to the stop symbol."""
    text = ""
    for i in ids.tolist():
        if i == STOP:
            break
        text += str(i - ZERO) if i >= ZERO else ""
    return text


def _show_attention(model: Transformer, source: Tensor) -> None:
    """Draw where each output digit looks: a row for each, the source above."""
    answer, weights_BHTS = greedy(model, source)
    shades = " ░▒▓█"
    typer.echo("\nWhere each digit of the answer (rows) looks in the source (columns):\n")
    question, output = _text(source[0]), _text(answer[0])
    heads = range(weights_BHTS.size(1))
    typer.echo("    " + "     ".join(f"{f'head {h}':<{2 * len(question)}}" for h in heads))
    typer.echo("    " + "     ".join("".join(f"{d} " for d in question) for _ in heads))
    for t, digit in enumerate(output):
        rows = weights_BHTS[0, :, t, : len(question)].tolist()
        cells = ("".join(shades[round(w * 4)] * 2 for w in row) for row in rows)
        typer.echo(f"  {digit} " + "     ".join(cells))
