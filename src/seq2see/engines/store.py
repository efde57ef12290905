"""Where converted models are kept: beside the model, or else in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from seq2see.errors import InputError

FOLDER = "ctranslate2"


def key(config: bytes, number: int) -> str:
    """Return the name of a conversion: of these bytes of `config.json`, which has the checksums of
    all that belongs to the model, by this number of the converter."""
    return hashlib.sha256(b"%d " % number + config).hexdigest()[:16]


class NoPlaceError(InputError):
    """A conversion that can be kept nowhere."""


def user_cache() -> Path | None:
    """Return where this user keeps what can be made again; a user without a home has no such."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named, "seq2see")
    try:
        return Path.home() / ".cache/seq2see"
    except RuntimeError:
        return None


def kept(home: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory of this name, made anew where there is none; others beside are stale."""
    places = [folder / FOLDER for folder in (home, user_cache()) if folder]
    for place in places:
        if _is_there(place / name):
            return place / name
    reasons = []
    for place in places:
        try:
            path = _made(place, name, make)
        except OSError as error:
            reasons.append(f"{place} ({error.strerror or error})")
            continue
        if place == places[0]:
            _remove_others(place, name)
        return path
    raise NoPlaceError(
        f"its copy of the model cannot be written to {' nor to '.join(reasons)}: "
        "let XDG_CACHE_HOME name a folder that can be written"
    )


def _is_there(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:  # in the home of another, say
        return False


def _remove_others(place: Path, name: str) -> None:
    for other in place.iterdir():
        if not other.name.startswith(name):
            shutil.rmtree(other, ignore_errors=True)


def _made(place: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Make it aside and rename it: whoever comes meanwhile finds it whole or not at all."""
    place.mkdir(parents=True, exist_ok=True)
    aside = Path(mkdtemp(prefix=f"{name}.partial-", dir=place))
    try:
        make(aside)
        aside.chmod(0o755)
        aside.rename(place / name)
    except OSError:
        if not (place / name).is_dir():  # nobody was faster
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return place / name
