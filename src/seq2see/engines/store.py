"""Where converted models are kept: beside the model, or else in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

FOLDER = "ctranslate2"


def key(config: bytes, number: int) -> str:
    """Return the name of a conversion: of these bytes of `config.json`, which has the checksums of
    all that belongs to the model, by this number of the converter."""
    return hashlib.sha256(b"%d " % number + config).hexdigest()[:16]


def user_cache() -> Path:
    """Return where this user keeps what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "seq2see")


def kept(home: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory of this name, made anew where there is none; others beside are stale."""
    places = (home / FOLDER, user_cache() / FOLDER)
    for place in places:
        if (place / name).is_dir():
            return place / name
    try:
        path = _made(places[0], name, make)
    except OSError:
        return _made(places[1], name, make)
    for other in places[0].iterdir():
        if not other.name.startswith(name):
            shutil.rmtree(other, ignore_errors=True)
    return path


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
