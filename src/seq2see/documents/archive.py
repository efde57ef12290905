"""Zip archives that come from strangers: read whole or refused, and written in the same order."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

from seq2see.errors import InputError

MOST_FILES = 10_000
LARGEST = 512 * 1024 * 1024
"""Bytes of all files together, unpacked."""
MOST_RATIO = 200
"""How many times as large a file of more than a megabyte may become."""
_SMALL = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive, and how they were packed."""

    files: dict[str, bytes]
    _infos: list[zipfile.ZipInfo]

    @classmethod
    def read(cls, data: bytes, name: str, kind: str) -> Archive:
        """Unpack an archive into memory; what would grow beyond all measure is refused."""
        try:
            with zipfile.ZipFile(BytesIO(data)) as archive:
                infos = archive.infolist()
                _refuse_bombs(infos, name)
                if len({info.filename for info in infos}) < len(infos):
                    raise InputError(f"{name} must be {kind}, but has a part twice")
                return cls({info.filename: archive.read(info) for info in infos}, infos)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise InputError(f"{name} must be {kind}, but: {error}") from None
        except RuntimeError:
            raise InputError(f"{name} must be {kind} without a password, but has one") from None

    def write(self, changes: Mapping[str, bytes]) -> bytes:
        """Pack the files again, some of them with other content."""
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for info in self._infos:
                new = zipfile.ZipInfo(info.filename, info.date_time)
                new.compress_type = info.compress_type
                new.external_attr = info.external_attr
                archive.writestr(new, changes.get(info.filename, self.files[info.filename]))
        return packed.getvalue()


def _refuse_bombs(infos: list[zipfile.ZipInfo], name: str) -> None:
    total = sum(info.file_size for info in infos)
    grown = any(info.file_size > max(_SMALL, MOST_RATIO * info.compress_size) for info in infos)
    if len(infos) > MOST_FILES or total > LARGEST or grown:
        raise InputError(
            f"{name} must have at most {MOST_FILES} files and {LARGEST >> 20} MB, no file packed "
            f"more than {MOST_RATIO} times, but has {len(infos)} files and {total >> 20} MB"
        )
