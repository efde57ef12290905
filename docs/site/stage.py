"""Copy the pages of the documentation to a directory, and write the pages of the API reference.

    python docs/site/stage.py DIRECTORY

Pages keep their paths, so that links between them work on the site as on GitHub.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs/site"
PACKAGE = ROOT / "src/seq2see"
COPIED = ("*.md", "LICENSE", "docs/**/*.md", "docs/**/*.png", "recipes/*", "pyproject.toml")
API_MODULES = (
    *("seq2see", "seq2see.translator", "seq2see.documents", "seq2see.evaluate", "seq2see.explain"),
    *("seq2see.model", "seq2see.loss", "seq2see.search", "seq2see.text", "seq2see.engines"),
    *("seq2see.bundle", "seq2see.interop", "seq2see.settings", "seq2see.data.fables"),
    "seq2see.data.formats",
    *("seq2see.web", "seq2see.metrics", "seq2see.draw", "seq2see.errors"),
)
"""Modules with public names, in the order of the reference."""
PICTURE = re.compile(r'(?s)<picture>.*?srcset="(.*?)".*?alt="(.*?)"\s+src="(.*?)">\s*</picture>')


def stage(directory: Path) -> None:
    """Fill the directory with the sources of the site."""
    shutil.rmtree(directory, ignore_errors=True)
    for pattern in COPIED:
        for path in ROOT.glob(pattern):
            target = directory / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(directory / "docs/site", ignore_errors=True)
    for name in ("conf.py", "index.md"):
        shutil.copyfile(SITE / name, directory / name)
    readme = directory / "README.md"
    readme.write_text(PICTURE.sub(format_picture, readme.read_text("utf-8")), "utf-8")
    for module in API_MODULES:
        path = directory / "api" / f"{module}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(format_api_page(module), "utf-8")


def format_picture(match: re.Match[str]) -> str:
    """Return an image for the light and one for the dark theme."""
    dark, text, light = match.groups()
    alt = " ".join(text.split())
    directive = "```{{image}} {}\n:alt: {}\n:class: only-{}\n```\n"
    return directive.format(light, alt, "light") + directive.format(dark, alt, "dark")


def format_api_page(module: str) -> str:
    """Return the page of a module: its docstring, and the documentation of its public names."""
    heading = f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :no-members:\n```\n"
    sections = [format_name(module, *item) for item in sorted(find_public_names(module).items())]
    return "\n".join([heading, *sections])


def format_name(module: str, name: str, defining_module: str) -> str:
    """Return a directive for a public name; the index has names of `seq2see` by package."""
    value = getattr(import_module(module), name)
    path = f"{module}.{name}"
    if inspect.ismodule(value):  # `seq2see.explain` is a package that can be called
        path, value = f"{path}.{name}", getattr(value, name)
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    options = "   :no-index:\n" if module == "seq2see" else ""
    if kind == "data":  # only its module has its documentation
        path, options = f"{defining_module}.{name}", options + "   :no-value:\n"
    return f"## {name}\n\n```{{eval-rst}}\n.. auto{kind}:: {path}\n{options}```\n"


def find_public_names(module: str) -> dict[str, str]:
    """Return the names that a module exports, and the modules that define them.

    These are the names in `__all__`; otherwise those of `import x as x` in a package, and the
    classes and functions of other modules.
    """
    path = PACKAGE.parent / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
    tree = ast.parse(source)
    imported = {
        alias.name: (node.module or "", alias.asname)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in filter(is_all, tree.body):
        names = ast.literal_eval(node.value)  # type: ignore[attr-defined]
        return {name: imported.get(name, (module, ""))[0] for name in names}
    if path.is_dir():
        return {name: origin for name, (origin, exported) in imported.items() if exported}
    return {name: module for node in tree.body for name in defined_names(node)}


def is_all(node: ast.stmt) -> bool:
    """Return whether a statement assigns `__all__`."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def defined_names(node: ast.stmt) -> Iterator[str]:
    """Yield the public class or function that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
        yield node.name


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
