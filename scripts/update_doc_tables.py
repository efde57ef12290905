#!/usr/bin/env python
"""Write the generated tables of the documentation.

    .venv/bin/python scripts/update_doc_tables.py

A generated table is between `<!-- table: KIND NAME -->` and `<!-- end -->`:

result NAME    a run from docs/results/NAME.json, which scripts/record_result.py writes
packages all   the packages of seq2see and their modules, each with its first sentence

A test compares the tables with their sources.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs/results.md", ROOT / "docs/architecture.md")
PACKAGE = ROOT / "src/seq2see"
TABLE = re.compile(r"(?s)<!-- table: (\w+) (\S+) -->\n.*?<!-- end -->")


def format_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = (columns, ["---"] * len(columns), *rows)
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def format_result(name: str) -> str:
    """Return the description of a run and its table."""
    result = json.loads((ROOT / "docs/results" / f"{name}.json").read_text("utf-8"))
    run = [result["commit"] and f"commit {result['commit']}", result["date"]]
    run += [result["machine"], result["duration"]]
    commands = " and ".join(f"`{command}`" for command in result["command"].split("; "))
    lines = [f"{commands}: {', '.join(filter(None, run))}."]
    for table in result["tables"]:
        lines += [f"{table['caption']}:"] if table["caption"] else []
        lines.append(format_rows(table["columns"], table["rows"]))
    return "\n\n".join(lines)


def format_packages(_: str) -> str:
    """Return a section for each package, from the highest layer to the lowest, and for seq2see."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = " ".join(contracts["contracts"][0]["layers"]).replace("|", " ").split()
    packages = [name for name in layers if (PACKAGE / name / "__init__.py").exists()]
    for parent in ("data",):
        inner = [f"{parent}/{path.parent.name}" for path in PACKAGE.glob(f"{parent}/*/__init__.py")]
        packages[packages.index(parent) + 1 : packages.index(parent) + 1] = sorted(inner)
    return "\n".join(format_package(name) for name in (*packages, "."))


def format_package(name: str) -> str:
    """Return the section of a package: its first sentence and its modules."""
    _, sentence = format_module(PACKAGE / name)
    lines = [f"### {name if name != '.' else 'seq2see'}", "", sentence]
    if name != "lab":  # its modules are described by their experiments
        paths = [path for path in (PACKAGE / name).glob("*.py") if path.name != "__init__.py"]
        if name != ".":
            paths += [path.parent for path in (PACKAGE / name).glob("*/__init__.py")]
        rows = [format_module(path) for path in sorted(paths)]
        lines += ["", format_rows(["module", "content"], rows)]
    return "\n".join([*lines, ""])


def format_module(path: Path) -> tuple[str, str]:
    """Return the name and the first sentence of a module or package."""
    is_package = path.is_dir()
    source = (path / "__init__.py" if is_package else path).read_text("utf-8")
    paragraph = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
    return f"`{path.name}{'/' if is_package else ''}`", " ".join(paragraph.split())


def update_tables(page: str) -> str:
    """Return a page with all of its tables generated anew."""
    formatters = {"result": format_result, "packages": format_packages}

    def replace(match: re.Match[str]) -> str:
        marker = f"<!-- table: {match[1]} {match[2]} -->"
        return f"{marker}\n{formatters[match[1]](match[2])}\n<!-- end -->"

    return TABLE.sub(replace, page)


def main() -> None:
    """Update the pages."""
    for page in PAGES:
        page.write_text(update_tables(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
