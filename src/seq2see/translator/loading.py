"""A model directory to a translator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from seq2see.bundle import Bundle, files
from seq2see.engines.batching import framed
from seq2see.engines.ctranslate2 import Precision
from seq2see.engines.selection import EngineName, choose, threads_of
from seq2see.errors import InputError
from seq2see.translator.translator import Translator


def load(
    path: Path | str | Sequence[Path | str],
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
) -> Translator:
    """Return the translator of a model directory, or of several as one: an ensemble, on torch.

    `engine` is torch, ctranslate2, or auto: ctranslate2 for whatever it does in the same way,
    torch for the rest. `threads` is how many of the CPU's it uses; left out, all. `precision`
    int8 is faster and a little less exact; it is used only if it passes a check on this CPU.
    What came of these wishes is in `Translator.notes`.
    """
    homes = [Path(path)] if isinstance(path, str | Path) else [*map(Path, path)]
    if not homes:
        raise InputError("there must be a model directory at least, but there is none")
    bundle, config = _read(homes[0])
    others = [Bundle.load(home) for home in homes[1:]]
    chosen = choose(
        bundle,
        homes[0],
        config,
        engine=engine,
        device=device,
        threads=threads,
        precision=precision,
        others=others,
    )
    known = [limit for each in (bundle, *others) for limit in _limits(each)]
    return Translator(
        chosen.engine,
        bundle.tokenizers,
        bundle.languages,
        min(known, default=None),
        bundle,
        chosen.notes,
        threads_of(threads),
    )


def _limits(bundle: Bundle) -> Iterator[int]:
    """Yield how many tokens a sentence may have: as in training, and where the positions end."""
    if bundle.max_length is not None:
        yield bundle.max_length
    if bundle.config.longest is not None:
        yield bundle.config.longest - len(framed([], bundle.framing))


def _read(home: Path) -> tuple[Bundle, bytes]:
    """Return a bundle and its `config.json`; another model may come in between."""
    while True:
        config = files.read_config(home)
        bundle = Bundle.load(home)
        if config == files.read_config(home):
            return bundle, config
