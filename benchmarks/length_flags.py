"""How often the flags `short` and `long` are right, measured on reference translations.

    python -m benchmarks.length_flags [DIRECTORY] [--languages en,de] [--swap]

The directory has train.tsv.gz, val.tsv.gz and test.tsv.gz; by default it is tatoeba-en-de in the
directory in SEQ2SEE_DATA. Tokenizer and statistics are those of 50,000 training lines. The flags
should be found for translations from which one sentence was removed, and not for references.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2see.data.formats.tables import read_tsv
from seq2see.data.readers import SentencePair
from seq2see.keyed_random import sample_reservoir
from seq2see.search import Hypothesis
from seq2see.text import EOS_ID, TextSpan, TokenizerConfig, TokenizerPair, split_sentences
from seq2see.text.languages import has_letter
from seq2see.text.sentence_splitting import count_sentences
from seq2see.text.training_text_statistics import (
    MAX_MEASURED_PAIRS,
    TrainingTextStatistics,
    measure_training_text,
)
from seq2see.translator import SourceSegment, TranslationFlag
from seq2see.translator.result_builder import find_flags

FILES = ("train.tsv.gz", "val.tsv.gz", "test.tsv.gz")
LENGTH_FLAGS = {TranslationFlag.SHORT, TranslationFlag.LONG}


@dataclass(frozen=True)
class FlagFinder:
    """Finds the flags of given translations as the translator does."""

    languages: tuple[str, str]
    tokenizers: TokenizerPair
    training_text: TrainingTextStatistics | None

    def has_length_flag(self, source: str, text: str) -> bool:
        """Return whether a translation is flagged as too short or too long."""
        segment = SourceSegment(TextSpan(source, 0), self.tokenizers.source.encode(source))
        tokens = (*self.tokenizers.target.encode(text), EOS_ID)
        hypothesis = Hypothesis(tokens, True, 0.0, 0.0, ())
        model = (self.tokenizers, self.languages, self.training_text)
        flags = find_flags(segment, hypothesis, text, *model)
        return not LENGTH_FLAGS.isdisjoint(flags)

    def print_share(self, name: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Print the share of flagged pairs."""
        flagged = [self.has_length_flag(source, text) for source, text in pairs]
        share = sum(flagged) / max(len(flagged), 1)
        print(f"| {name} | {len(flagged):,} | {share:.2%} |", flush=True)


def remove_each_sentence(text: str, language: str) -> Iterator[str]:
    """Yield the text without each of its sentences with letters, if there are several."""
    sentences = [each for each in split_sentences(text, language) if has_letter(each.text)]
    if len(sentences) > 1:
        for sentence in sentences:
            yield (text[: sentence.start] + text[sentence.end :]).strip()


def measure(files: Sequence[Path], languages: tuple[str, str], columns: tuple[int, int]) -> None:
    """Print the shares of flagged translations."""
    pairs: list[SentencePair] = [pair for path in files for pair in read_tsv(str(path), columns)]
    sample = sample_reservoir(read_tsv(str(files[0]), columns), MAX_MEASURED_PAIRS)
    sources, targets = zip(*sample, strict=True)
    tokenizers = TokenizerPair.train(sources, targets, TokenizerConfig())
    finder = FlagFinder(languages, tokenizers, measure_training_text(sample, languages, tokenizers))
    several = [pair for pair in pairs if count_sentences(pair.source, languages[0]) > 1]
    print("| translations | number | flagged |\n|---|---|---|")
    removed = [
        (pair.source, text)
        for pair in several
        for text in remove_each_sentence(pair.target, languages[1])
    ]
    finder.print_share("one sentence removed", removed)
    finder.print_share("references of several sentences", several)
    finder.print_share("all references", pairs)


def main() -> None:
    """Run the measurement from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"), "tatoeba-en-de")
    parser.add_argument("directory", type=Path, nargs="?", default=default)
    parser.add_argument("--languages", default="en,de", help="languages of the two columns")
    parser.add_argument("--swap", action="store_true", help="translate the second column")
    arguments = parser.parse_args()
    first, second = arguments.languages.split(",")
    files = [arguments.directory / name for name in FILES]
    if arguments.swap:
        measure(files, (second, first), (2, 1))
    else:
        measure(files, (first, second), (1, 2))


if __name__ == "__main__":
    main()
