"""A lab with one seed, whose trained models all tests of a session share."""

from __future__ import annotations

import pytest

from seq2see.lab.runner import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(seeds=(1,), cache=tmp_path_factory.mktemp("lab"), processes=1)
