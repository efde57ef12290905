#!/usr/bin/env python
"""Check that the version and the change log are ready for a release.

.venv/bin/python scripts/check_release_files.py 0.2.0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+")


def find_problems(version: str) -> Iterator[str]:
    """Yield what must be changed before this version can be released."""
    if not VERSION.fullmatch(version):
        yield f"the version must be MAJOR.MINOR.PATCH, but is {version} instead"
    package = (ROOT / "src/seq2see/__init__.py").read_text("utf-8")
    if f'\n__version__ = "{version}"\n' not in package:
        yield f"src/seq2see/__init__.py must have the version {version}"
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text("utf-8"):
        yield f"CITATION.cff must have the version {version}"
    yield from find_changelog_problems((ROOT / "CHANGELOG.md").read_text("utf-8"), version)


def find_changelog_problems(text: str, version: str) -> Iterator[str]:
    """Yield what is wrong in the change log: the version must have entries, the rest must not."""
    headings = re.split(r"(?m)^## ", text)[1:]
    sections = {each.partition("\n")[0]: each.partition("\n")[2] for each in headings}
    names = [*sections]
    if names[:1] != ["[Unreleased]"]:
        yield "CHANGELOG.md must begin with the section [Unreleased]"
    elif re.search(r"(?m)^- ", sections["[Unreleased]"]):
        yield "CHANGELOG.md must have no entries under [Unreleased]: move them to the version"
    dated = [n for n in names if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", n)]
    if not dated or names.index(dated[0]) != 1:
        yield f"CHANGELOG.md must have the section [{version}] - DATE after [Unreleased]"
    elif not re.search(r"(?m)^- ", sections[dated[0]]):
        yield f"CHANGELOG.md must have entries for {version}"


if __name__ == "__main__":
    if problems := list(find_problems(sys.argv[1])):
        sys.exit("\n".join(f"release: {problem}" for problem in problems))
