"""A corpus without what the doctor would mend, and what was left out with its reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from seq2see.data.doctor import Kept, Rejection
from seq2see.data.writers import new_files, one_line, write_pair
from seq2see.errors import InputError

REJECTED = "rejected.tsv"


def write_clean(
    verdicts: Iterable[Kept | Rejection], folder: Path, endings: Sequence[str]
) -> Counter[str]:
    """Write `clean.en`, `clean.de`, and `rejected.tsv` with line, rule, reason, source and target.

    Return how many were `kept`, and how many left out by each rule.
    """
    counts = Counter[str]()
    names = [*(f"clean.{ending}" for ending in endings), REJECTED]
    with new_files(folder, names) as (source, target, rejected):
        for verdict in verdicts:
            if isinstance(verdict, Rejection):
                rejected.write(_row(verdict))
                counts[verdict.rule] += 1
            else:
                write_pair((source, target), verdict.pair)
                counts["kept"] += 1
        if counts and not counts["kept"]:
            raise InputError(
                f"none of the {counts.total():,} pairs would be left: `seq2see data check` says why"
            )
    return counts


def _row(rejection: Rejection) -> str:
    cells = str(rejection.line), rejection.rule, rejection.reason, *rejection.pair
    return "\t".join(one_line(cell).replace("\t", " ") for cell in cells) + "\n"
