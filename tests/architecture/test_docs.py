"""The documentation is correct: its Python runs, and its files exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from seq2see.data.quality.config import RULES
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RECIPES = sorted(ROOT.glob("recipes/*.toml"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", document.read_text("utf-8")):
        exec(compile(block, document.name, "exec"), names)  # noqa: S102


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_point_to_existing_files(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda p: p.stem)
def test_recipes_name_the_source_of_their_files(recipe: Path) -> None:
    text = recipe.read_text("utf-8")
    root = tomllib.loads(text)["data"]["root"]
    directory = root.removeprefix("$SEQ2SEE_DATA/")
    if directory != root:
        assert f", in {root}: docs/training.md" in text.partition("\n\n")[0]
        assert f"`{directory}/" in (ROOT / "docs/training.md").read_text("utf-8")


def test_all_quality_rules_are_documented() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| [a-z]", (ROOT / "docs/data.md").read_text("utf-8"))
    assert tuple(rows) == RULES


def test_all_test_directories_are_documented() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for directory in {
        path.parent.relative_to(ROOT / "tests") for path in ROOT.glob("tests/*/**/*.py")
    }:
        group, *package = directory.parts
        if group == "unit" and package:  # unit tests mirror the packages
            assert (ROOT / "src/seq2see").joinpath(*package).is_dir(), directory
        else:
            assert f"`{directory}`" in text


@pytest.mark.parametrize("package", ["model", "data", "training"])
def test_all_files_are_listed_in_the_architecture(package: str) -> None:
    sections = (ROOT / "docs/architecture.md").read_text("utf-8").split("\n## ")
    section = next(each for each in sections if package in each.partition("\n")[0].lower())
    rows = "\n".join(re.findall(r"(?m)^\| `.*`", section))
    files = {path.name for path in (ROOT / "src/seq2see" / package).glob("[!_]*.py")}
    assert set(re.findall(r"`(\w+\.py)`", rows)) == files


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_pip_commands_use_the_constraints_file(document: Path) -> None:
    for rest in re.findall(r"pip install (.*)", document.read_text("utf-8")):
        assert rest.startswith("-c constraints.txt"), rest


def test_all_translation_keywords_are_documented() -> None:
    text = (ROOT / "docs/translating.md").read_text("utf-8")
    table = text.partition("| keyword | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", table)
    keywords = {*SearchConfig.model_fields, *TranslationOptions.model_fields} - {"search"}
    assert set(re.findall(r"\w+", " ".join(rows))) == keywords
