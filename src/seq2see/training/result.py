"""What a run leaves behind: the model directory with its scores, and a picture of its course."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice

from torch import Tensor

from seq2see.bundle import Bundle, DataOrigin, Origin, SignedScore
from seq2see.data.corpora import Corpus
from seq2see.engines.precision import PROBES
from seq2see.engines.selection import STOP
from seq2see.search import Stop
from seq2see.training.builder import RunBuilder
from seq2see.training.curves import draw_curves
from seq2see.training.log import TrainingLog, read_log
from seq2see.training.objective import Objective
from seq2see.training.pace import LAST_LOOK
from seq2see.training.parts import ModelPart, Progress
from seq2see.training.validation import Examination, record_of

LITTLE = 0.2
"""BLEU that a faster search may cost."""


class Result:
    """Scores the weights that were chosen, and writes them down."""

    def __init__(
        self, builder: RunBuilder, objective: Objective, log: TrainingLog, progress: Progress
    ) -> None:
        self._builder = builder
        self._objective = objective
        self._log = log
        self._progress = progress

    def write(self, weights: Mapping[str, Tensor]) -> None:
        """Write the model directory and the picture. The workers share the translating."""
        ModelPart(self._objective.model).restore(weights, {})
        origin, builder = self._origin(), self._builder
        bundle = Bundle(
            builder.config,
            builder.tokenizers,
            builder.ingredients.data.languages,
            weights,
            max_length=builder.ingredients.batches.max_length,
            origin=origin,
        )
        builder.workers.led(lambda: self._save(bundle))

    def _save(self, bundle: Bundle) -> None:
        folder = self._builder.folder
        bundle.save(folder.path)
        self._keep_probes()
        draw_curves(read_log(folder.log), folder.curves, " → ".join(bundle.languages))

    def _keep_probes(self) -> None:
        """Leave some sentences that int8 can be checked by, on any CPU."""
        count = self._builder.ingredients.checkpoints.probes
        lines = [pair.source for pair in islice(self._builder.validation_corpus, count)]
        path = self._builder.folder.path / PROBES
        if lines:
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        else:
            path.unlink(missing_ok=True)

    def _origin(self) -> Origin:
        builder = self._builder
        valid = self._examined("validation set", builder.validation_corpus)
        test = self._examined("test set", builder.test_corpus) if builder.test_corpus else None
        stop = self._stop(valid)
        named = (*builder.training_corpora, builder.validation_corpus, builder.test_corpus)
        return Origin(
            recipe=dict(builder.ingredients.recipe),
            data=[
                DataOrigin(name=corpus.name, fingerprint=corpus.fingerprint)
                for corpus in named
                if corpus
            ],
            scores=[*_signed("validation set", valid), *_signed("test set", test)],
            notes={STOP: stop},
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._progress.seconds,
            updates=self._progress.update,
        )

    def _examined(self, name: str, corpus: Corpus) -> Examination:
        """Score the result, by beam search."""
        found = self._look(corpus, "exact")
        self._log.write("result", self._progress, {"data": name, **record_of(found)})
        return found

    def _look(self, corpus: Corpus, stop: Stop) -> Examination:
        start = time.perf_counter()
        found = self._builder.examiner(corpus).examine(self._objective, LAST_LOOK, stop)
        self._progress.seconds += time.perf_counter() - start
        return found

    def _stop(self, exact: Examination) -> Stop:
        """Return the faster stop rule if it loses next to nothing on the validation set.

        A model that is sure of itself, with few pieces, fills its beam with wrong endings first.
        """
        fast = self._look(self._builder.validation_corpus, "beam_full")
        lost = exact.value("bleu") - fast.value("bleu")
        return "beam_full" if lost <= LITTLE else "exact"


def _signed(name: str, found: Examination | None) -> Iterator[SignedScore]:
    for score in found.scores.values() if found else ():
        yield SignedScore(
            data=name, metric=score.name, value=score.value, signature=score.signature
        )
