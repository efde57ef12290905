"""Does the batch matter? Each engine in batches of 1, 7 and 64, and in another order.

    python -m benchmarks.batches MODEL FILE [--lines 1000] [--beams 1 5]

MODEL is a model directory. The texts and scores of each form are held against those of the engine
as it is: in float32 no text may differ, and no score by more than 1e-4; int8 promises nothing.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from seq2see.bundle import Bundle, files
from seq2see.data.readers import read_lines
from seq2see.engines.base import collect_in_order
from seq2see.engines.ctranslate2_engine import CTranslate2Engine, Precision
from seq2see.engines.torch_engine import TorchEngine
from seq2see.search import Hypothesis, SearchConfig, SearchInput

SIZES = (1, 7, 64)
SEED = 1


Engine = TorchEngine | CTranslate2Engine
Make = Callable[[int | None], Engine]
"""An engine that takes so many sentences at once; None: as many as it likes."""


def engines(home: Path) -> Iterator[tuple[str, Make]]:
    """Yield each engine by its name."""
    bundle, config = Bundle.load(home), files.read_config(home)

    def fast(precision: Precision) -> Make:
        return lambda size: CTranslate2Engine.from_bundle(
            bundle, home, config, precision=precision, threads=2, max_batch_size=size
        )

    yield (
        "torch",
        lambda size: TorchEngine(bundle.build_model(), bundle.special_tokens, max_batch_size=size),
    )
    yield "ctranslate2", fast("float32")
    yield "ctranslate2 int8", fast("int8")


def best(engine: Engine, ids: Sequence[Sequence[int]], beam: int) -> list[Hypothesis]:
    """Return the translation of each sentence."""
    sources = [SearchInput(len(sentence) + 1, line) for line, sentence in enumerate(ids)]
    config = SearchConfig(beam_size=beam, stop_rule="beam_full")
    return [found[0] for found in collect_in_order(engine.search(ids, sources, config))]


def shuffled(engine: Engine, ids: Sequence[Sequence[int]], beam: int) -> list[Hypothesis]:
    """Return them in their order, though the engine got them in another."""
    order = random.Random(SEED).sample(range(len(ids)), len(ids))
    found = dict(zip(order, best(engine, [ids[place] for place in order], beam), strict=True))
    return [found[place] for place in range(len(ids))]


def forms(
    make: Make, ids: Sequence[Sequence[int]], beam: int
) -> Iterator[tuple[str, list[Hypothesis]]]:
    """Yield the translations of each form by its name."""
    for size in SIZES:
        yield f"{size} at once", best(make(size), ids, beam)
    yield "another order", shuffled(make(None), ids, beam)


def row(found: Sequence[Hypothesis], plain: Sequence[Hypothesis]) -> str:
    """Return how many differ from what the engine gives as it is, and by how much."""
    pairs = list(zip(found, plain, strict=True))
    other = sum(a.tokens != b.tokens for a, b in pairs)
    gap = max(abs(a.score - b.score) for a, b in pairs)
    return f"{other:,} of {len(pairs):,} | {gap:.1e}"


def main() -> None:
    """Print a table for each beam."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    asked = parser.parse_args()
    lines = list(read_lines(str(asked.file)))[: asked.lines]
    ids = Bundle.load(asked.model).tokenizers.source.encode_batch(lines)
    for beam in asked.beams:
        print(f"\nbeam {beam}\n\n| | other texts | largest gap in score |\n|---|---|---|")
        for name, make in engines(asked.model):
            plain = best(make(None), ids, beam)
            for form, found in forms(make, ids, beam):
                print(f"| {name}, {form} | {row(found, plain)} |", flush=True)


if __name__ == "__main__":
    main()
