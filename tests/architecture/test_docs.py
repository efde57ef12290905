"""The documentation agrees with the code: links, tables, defaults and limits."""

from __future__ import annotations

import ast
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from seq2see.data.quality.rules import RULES, QualityConfig
from seq2see.search import SearchConfig
from seq2see.serve.config import LimitsConfig
from seq2see.translator import TranslationOptions

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*.md")])
RECIPES = sorted(ROOT.glob("recipes/*.toml"))
TABLES = runpy.run_path(str(ROOT / "scripts/update_doc_tables.py"))
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text("utf-8"))
    headings = [re.sub(r"[`*]|\]\(.*?\)", "", line) for line in re.findall(r"(?m)^#+ (.+)$", text)]
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative_name)
def test_links_point_to_existing_files_and_headings(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text("utf-8")):
        path = document.parent / target if target else document
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), f"{target}#{anchor}"


def test_images_of_the_readme_exist_and_are_small() -> None:
    paths = re.findall(r'(?:src|srcset)="(.*?)"', (ROOT / "README.md").read_text("utf-8"))
    assert len(paths) == 2
    assert all((ROOT / path).stat().st_size < 250_000 for path in paths)


def test_every_page_is_linked_from_the_readme_or_its_guides() -> None:
    linked = {
        (document.parent / target).resolve()
        for document in DOCUMENTS
        for target, _ in LINK.findall(document.read_text("utf-8"))
        if target
    }
    pages = set(ROOT.glob("docs/**/*.md")) - {ROOT / "docs/site/index.md"}
    assert {page for page in pages if page.resolve() not in linked} == set()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda p: p.stem)
def test_recipes_name_the_source_of_their_files(recipe: Path) -> None:
    page = (ROOT / "recipes/README.md").read_text("utf-8")
    text = recipe.read_text("utf-8")
    root = tomllib.loads(text)["data"]["root"]
    directory = root.removeprefix("$SEQ2SEE_DATA/")
    if directory != root:
        assert f", in {root}: recipes/README.md" in text.partition("\n\n")[0]
        assert f"`{directory}/" in page


def test_all_quality_rules_are_documented() -> None:
    table = (ROOT / "docs/data.md").read_text("utf-8").partition("| rule |")[2]
    rows = re.findall(r"(?m)^\| `(\w+)` \| [a-z]", table)
    assert tuple(rows) == RULES
    page = (ROOT / "docs/data.md").read_text("utf-8")
    assert f"a side has more than {QualityConfig().max_words} words" in page


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


def test_site_contains_every_page() -> None:
    """`docs/site/index.md` lists the pages in reading order."""
    index = (ROOT / "docs/site/index.md").read_text("utf-8")
    listed = set(re.findall(r"(?m)^([\w./-]+)$", index)) | {"docs/site/index"}
    names = {relative_name(page).removesuffix(".md") for page in DOCUMENTS}
    assert {name for name in names if not name.startswith("docs/decisions/0")} == {
        name for name in listed if not name.startswith("api/")
    }


def test_api_reference_contains_every_package_with_public_names() -> None:
    stage = runpy.run_path(str(ROOT / "docs/site/stage.py"), run_name="stage")
    exporting = {
        ".".join(path.parent.relative_to(ROOT / "src").parts)
        for path in ROOT.glob("src/seq2see/**/__init__.py")
        if re.search(
            r"(?m)^__all__ = |^ +(\w+) as \1,?$|import (\w+) as \2$", path.read_text("utf-8")
        )
    }
    assert len(exporting) > 10
    assert exporting <= set(stage["API_MODULES"])
    assert "load" in stage["find_public_names"]("seq2see.translator")


def test_architecture_lists_every_module() -> None:
    """If this fails, run scripts/update_doc_tables.py."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    sections = [
        re.findall(r"(?m)^(### .*|\| `[\w/.]+`)", text)
        for text in (page, TABLES["format_packages"]("all"))
    ]
    assert sections[0] == sections[1]
    assert len(sections[0]) > 150


def test_main_paths_of_the_architecture_name_existing_modules() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## Modules")[0]
    paths = re.findall(r"`(\w+/[\w/]+\.py)`", page)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / "src/seq2see" / path).exists()] == []


def test_result_tables_equal_their_files() -> None:
    """If this fails, run scripts/update_doc_tables.py."""
    page = (ROOT / "docs/results.md").read_text("utf-8")
    assert TABLES["update_tables"](page) == page
    used = {match[2] for match in TABLES["TABLE"].finditer(page)}
    assert used == {path.stem for path in ROOT.glob("docs/results/*.json")}


def test_tables_are_found_in_the_output_of_a_benchmark() -> None:
    find_tables = runpy.run_path(str(ROOT / "scripts/record_result.py"))["find_tables"]
    output = (
        "notes\n\ntiny: 6 batches\n| a | b |\n|---|---|\n| 1 | 2 |\n\nbig\n| a |\n|---|\n| 3 |\n"
    )
    assert find_tables(output) == [
        {"caption": "tiny: 6 batches", "columns": ["a", "b"], "rows": [["1", "2"]]},
        {"caption": "big", "columns": ["a"], "rows": [["3"]]},
    ]
    assert find_tables("no table\n") == []


def test_numbers_of_the_readme_are_results() -> None:
    text = (ROOT / "README.md").read_text("utf-8").partition("## Speed and quality")[2]
    rows = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    results = (ROOT / "docs/results.md").read_text("utf-8")
    for row in rows:
        numbers = re.findall(r"\d{1,3}(?:,\d{3})+|\d{3,}(?= |;)|\d+\.\d\d", row)
        assert all(f"| {number}" in results for number in numbers), row


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative_name)
def test_pip_commands_use_the_constraints_file(document: Path) -> None:
    for rest in re.findall(r"pip install (.*)", document.read_text("utf-8")):
        assert rest.startswith("-c constraints.txt"), rest


def test_extras_are_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/installation.md").read_text("utf-8")
    table = page.partition("| extra |")[2].partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", table)
    assert set(re.findall(r"\w+", " ".join(rows))) == set(extras["optional-dependencies"])


def test_translation_keywords_have_their_defaults_in_the_documentation() -> None:
    table = (ROOT / "docs/python-api.md").read_text("utf-8").partition("| keyword |")[2]
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| ", table.partition("\n\n")[0])
    fields = {**SearchConfig.model_fields, **TranslationOptions.model_fields}
    del fields["search"]
    assert {name for name, _ in rows} == fields.keys()
    for name, default in rows:
        value = fields[name].get_default(call_default_factory=True)
        expected = value.model_dump() if hasattr(value, "model_dump") else value
        assert ast.literal_eval(default.strip("`")) == expected, name


def test_limits_of_the_service_have_their_defaults_in_the_documentation() -> None:
    table = (ROOT / "docs/serving.md").read_text("utf-8").partition("| limit | default |")[2]
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([\d,]+) \|", table.partition("\n\n")[0])
    documented = {name: float(default.replace(",", "")) for name, default in rows}
    assert documented == LimitsConfig().model_dump()


def test_routes_of_the_api_are_documented() -> None:
    page = (ROOT / "docs/http-api.md").read_text("utf-8")
    documented = {
        (method, re.sub(r"\?.*", "", path))
        for method, path in re.findall(r"`(GET|POST) (/[^` ]*)`", page)
    }
    for name in ("api_v1", "inspection"):
        source = (ROOT / f"src/seq2see/serve/{name}.py").read_text("utf-8")
        prefix = re.search(r'APIRouter\(\s*prefix="([^"]*)"', source)
        for method, path in re.findall(r'@router\.(get|post)\(\s*"([^"]*)"', source):
            full = (prefix[1] if prefix else "") + re.sub(r"\{(\w+).*?\}", upper_name, path)
            if full.startswith("/api/v1"):
                assert (method.upper(), full) in documented, full


def upper_name(match: re.Match[str]) -> str:
    return match[1].upper()


def test_decision_records_are_numbered_and_have_one_form() -> None:
    records = sorted(ROOT.glob("docs/decisions/0*.md"))
    index = (ROOT / "docs/decisions/README.md").read_text("utf-8")
    for number, path in enumerate(records, start=1):
        text = path.read_text("utf-8")
        title = text.splitlines()[0]
        assert path.name.startswith(f"{number:04d}-")
        assert title.startswith(f"# {number}. ")
        assert f"]({path.name}) | {title.partition('. ')[2]} |" in index
        headings = re.findall(r"(?m)^## (.+)$", text)
        assert headings == ["Context", "Decision", "Consequences"], path.name
        assert re.search(r"\n\*\*Status:\*\* (Accepted in|Superseded by) ", text), path.name


def test_contributor_guide_names_existing_files() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where a change goes")[2]
    section = section.partition("\n## Terms")[0]
    paths = set(re.findall(r"`((?:[\w.]+/)+[\w.]*\w\.\w+)`", section))
    assert len(paths) > 50
    missing = {path for path in paths if not (ROOT / path).exists()}
    missing = {path for path in missing if not (ROOT / "src/seq2see" / path).exists()}
    assert {path for path in missing if "NAME" not in path} == set()


def test_contributor_guide_names_existing_code() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Where a change goes")[2]
    names = re.findall(
        r"`(_?[A-Z]\w*[a-z]\w*|_?[A-Z]+_[A-Z_0-9]+)`", section.partition("\n## Terms")[0]
    )
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")]
    source = "\n".join(path.read_text("utf-8") for path in files)
    missing = {name for name in names if not re.search(rf"\b{name}\b", source)} - {"Args"}
    assert missing == set()


def test_recipes_have_current_comments() -> None:
    """If this fails, run scripts/update_recipes.py."""
    format_recipe = runpy.run_path(str(ROOT / "scripts/update_recipes.py"))["format_recipe"]
    for recipe in RECIPES:
        assert recipe.read_text("utf-8") == format_recipe(recipe), recipe.name
