"""Effect of batching: translate with each engine in batches of 1, 7 and 64, and in another order.

    python -m benchmarks.batches MODEL FILE [--lines 1000] [--beams 1 5]

MODEL is a model directory. Texts and scores are compared with those of the default batching: with
float32 no text may differ, and no score by more than 1e-4; for int8 there is no guarantee.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from seq2see.bundle import Bundle
from seq2see.data.readers import read_lines
from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.engines.ctranslate2_conversion import get_cached_conversion
from seq2see.engines.ctranslate2_engine import CTranslate2Engine
from seq2see.engines.torch_engine import TorchEngine
from seq2see.registries import Precision
from seq2see.search import Hypothesis, SearchConfig, SentenceSearchInput

SIZES = (1, 7, 64)
SEED = 1


Engine = TorchEngine | CTranslate2Engine
EngineFactory = Callable[[int | None], Engine]
"""Returns an engine with this batch size; None is the default batching."""


def engine_factories(directory: Path) -> Iterator[tuple[str, EngineFactory]]:
    """Yield each engine with its name."""
    bundle = Bundle.load(directory)

    def ctranslate2(precision: Precision) -> EngineFactory:
        directory = get_cached_conversion(bundle, print).directory
        return lambda size: CTranslate2Engine(
            bundle, directory, precision=precision, threads=2, max_batch_size=size
        )

    yield (
        "torch",
        lambda size: TorchEngine(bundle.build_model(), bundle.special_tokens, max_batch_size=size),
    )
    yield "ctranslate2", ctranslate2("float32")
    yield "ctranslate2 int8", ctranslate2("int8")


def translate(engine: Engine, ids: Sequence[Sequence[int]], beam: int) -> list[Hypothesis]:
    """Return the best hypothesis of each sentence."""
    inputs = [
        SentenceSearchInput(add_special_tokens(sentence, engine.special_tokens)) for sentence in ids
    ]
    config = SearchConfig(beam_size=beam, stop_rule="beam_full")
    return [hypotheses[0] for hypotheses in collect_in_order(engine.search(inputs, config))]


def translate_shuffled(engine: Engine, ids: Sequence[Sequence[int]], beam: int) -> list[Hypothesis]:
    """Translate the sentences in random order; return the hypotheses in their order."""
    order = random.Random(SEED).sample(range(len(ids)), len(ids))
    hypotheses = dict(
        zip(order, translate(engine, [ids[index] for index in order], beam), strict=True)
    )
    return [hypotheses[index] for index in range(len(ids))]


def variants(
    build: EngineFactory, ids: Sequence[Sequence[int]], beam: int
) -> Iterator[tuple[str, list[Hypothesis]]]:
    """Yield the translations of each kind of batching with its name."""
    for size in SIZES:
        yield f"batch size {size}", translate(build(size), ids, beam)
    yield "another order", translate_shuffled(build(None), ids, beam)


def format_row(hypotheses: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> str:
    """Return the number of texts that differ, and the largest difference of scores."""
    pairs = list(zip(hypotheses, expected, strict=True))
    num_different = sum(a.tokens != b.tokens for a, b in pairs)
    difference = max(abs(a.score - b.score) for a, b in pairs)
    return f"{num_different:,} of {len(pairs):,} | {difference:.1e}"


def main() -> None:
    """Print a table for each beam size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    lines = list(read_lines(str(options.file)))[: options.lines]
    ids = Bundle.load(options.model).tokenizers.source.encode_batch(lines)
    for beam in options.beams:
        print(f"\nbeam {beam}\n\n| | different texts | largest score difference |\n|---|---|---|")
        for name, build in engine_factories(options.model):
            expected = translate(build(None), ids, beam)
            for variant, hypotheses in variants(build, ids, beam):
                print(f"| {name}, {variant} | {format_row(hypotheses, expected)} |", flush=True)


if __name__ == "__main__":
    main()
