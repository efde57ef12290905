"""What a run leaves behind: the model directory with its scores, and a picture of its course."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from torch import Tensor

from seq2see.bundle import Bundle, DataOrigin, Origin, SignedScore
from seq2see.data.corpora import Corpus
from seq2see.training.builder import RunBuilder
from seq2see.training.curves import draw_curves
from seq2see.training.log import TrainingLog, read_log
from seq2see.training.objective import Objective
from seq2see.training.pace import LAST_LOOK
from seq2see.training.parts import ModelPart, Progress
from seq2see.training.validation import record_of


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
        draw_curves(read_log(folder.log), folder.curves, " → ".join(bundle.languages))

    def _origin(self) -> Origin:
        builder = self._builder
        named = (*builder.training_corpora, builder.validation_corpus, builder.test_corpus)
        return Origin(
            recipe=dict(builder.ingredients.recipe),
            data=[
                DataOrigin(name=corpus.name, fingerprint=corpus.fingerprint)
                for corpus in named
                if corpus
            ],
            scores=[
                *self._scores("validation set", builder.validation_corpus),
                *self._scores("test set", builder.test_corpus),
            ],
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._progress.seconds,
            updates=self._progress.update,
        )

    def _scores(self, name: str, corpus: Corpus | None) -> Iterator[SignedScore]:
        """Score the result, by beam search."""
        if corpus is None:
            return
        found = self._builder.examiner(corpus).examine(self._objective, LAST_LOOK)
        for score in found.scores.values():
            yield SignedScore(
                data=name, metric=score.name, value=score.value, signature=score.signature
            )
        self._log.write("result", self._progress, {"data": name, **record_of(found)})
