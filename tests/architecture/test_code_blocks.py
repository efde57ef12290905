"""Code blocks of the documentation: Python runs, commands parse, TOML and JavaScript are valid."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from seq2see.cli import app
from seq2see.config import deep_merge
from seq2see.serve.authentication import ApiKeyStore
from seq2see.settings import Recipe

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*.md")])
KNOWN_LANGUAGES = {"", "js", "python", "sh", "toml"}
BLOCK = re.compile(r"(?ms)^```(\w*)\n(.*?)^```")
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.md"))
SHORT_FORM = {
    "model_directory": repr(str(ROOT / "tests/golden/model")),
    "num_updates": "10",
    "max_updates": "20",
    "num_pairs": "600",
    "evaluation_size": "4",
}
"""Parameters of the notebooks that are set to other values, so that each runs for seconds."""
OTHER_PROGRAMS = {"docker", "echo", "pre-commit", "export", "for", "done", "source", "tok", "."}


def find_blocks(language: str) -> list[Any]:
    """Return the blocks of a language in all documents, as parameters of a test."""
    return [
        pytest.param(match[2], id=f"{document.name}:{text[: match.start()].count(chr(10)) + 1}")
        for document in DOCUMENTS
        for text in [document.read_text("utf-8")]
        for match in BLOCK.finditer(text)
        if match[1] == language
    ]


def test_blocks_have_known_languages() -> None:
    languages = {
        match[1] for document in DOCUMENTS for match in BLOCK.finditer(document.read_text("utf-8"))
    }
    assert languages <= KNOWN_LANGUAGES


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if each not in NOTEBOOKS], ids=lambda p: p.name
)
def test_python_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python_blocks(document.read_text("utf-8"), document.name)


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.slow] * path.stem.startswith("train_on")
        )
        for path in NOTEBOOKS
    ],
)
def test_notebooks_run_in_short_form(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = notebook.read_text("utf-8")
    used = [name for name in SHORT_FORM if re.search(rf"(?m)^{name} = ", text)]
    assert used
    for name in used:
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {SHORT_FORM[name]}", text)
    run_python_blocks(text, notebook.name)


def run_python_blocks(text: str, name: str) -> None:
    """Run the blocks of a page in one namespace."""
    names: dict[str, object] = {}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", text):
        exec(compile(block, name, "exec"), names)  # noqa: S102


def split_commands(block: str) -> Iterator[list[str]]:
    """Yield the words of each command; operators such as `|` separate commands."""
    text = re.sub(r"(?m)(^|\s)#.*$", "", block.replace("\\\n", " "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>\n")
    lexer.commenters = ""
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, "\n"]:
        if set(token) <= set("|&;\n"):
            if words:
                yield words
            words = []
        else:
            words.append(token)


def remove_redirections(words: list[str]) -> list[str]:
    """Return words without `< input.txt` and `> output.txt`."""
    kept = [*words]
    while operator := next((word for word in kept if set(word) <= set("<>")), None):
        index = kept.index(operator)
        del kept[index : index + 2]
    return kept


def check_seq2see_arguments(arguments: list[str]) -> None:
    """Parse arguments as the command does, without running it."""
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        if arguments[0].startswith("-"):
            assert any(arguments[0] in option.opts for option in command.params), arguments
            return
        command, *arguments = command.commands[arguments[0]], *arguments[1:]
    context = command.make_context(command.name, arguments, parent=context)
    settings = [each for each in context.params.get("overrides") or () if "=" not in each]
    assert settings == []


def check_command(words: list[str]) -> None:
    """Check that a command exists and accepts its arguments."""
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if not words:
        return
    program, *arguments = words
    if program == "do":
        check_command(arguments)
    elif program == "seq2see":
        check_seq2see_arguments(arguments)
    elif program == "torchrun":
        check_seq2see_arguments(arguments[arguments.index("seq2see") + 1 :])
    elif program == "taskset":
        check_command(arguments[2:])
    elif program in {"python", ".venv/bin/python"}:
        path = arguments[1].replace(".", "/") + ".py" if arguments[0] == "-m" else arguments[0]
        assert (ROOT / path).is_file(), words
    elif program == "pip":
        assert arguments[:3] == ["install", "-c", "constraints.txt"]
    elif program == "curl":
        assert arguments[0].startswith("localhost:5000/")
    else:
        assert program in OTHER_PROGRAMS or (ROOT / program).is_file(), words


@pytest.mark.parametrize("block", find_blocks("sh"))
def test_shell_commands_parse(block: str) -> None:
    for words in split_commands(block):
        check_command(remove_redirections(words))


def test_wrong_commands_are_found() -> None:
    for wrong in ("seq2see trian x", "seq2see translate m --beem 5", "scripts/nothing", "ls"):
        with pytest.raises((AssertionError, KeyError, typer.BadParameter.__mro__[1])):  # type: ignore[arg-type]
            check_command(wrong.split())


@pytest.mark.parametrize("block", find_blocks("toml"))
def test_toml_blocks_are_settings(block: str, tmp_path: Path) -> None:
    table = tomllib.loads(block)
    if "loss" in table:
        base = tomllib.loads((ROOT / "recipes/copy.toml").read_text("utf-8"))
        Recipe(**deep_merge(base, table))
    else:
        keys = tmp_path / "keys.toml"
        keys.write_text(block.replace('"…"', f'"{"0" * 64}"'), "utf-8")
        ApiKeyStore(keys)


@pytest.mark.parametrize("block", find_blocks("js"))
def test_javascript_blocks_parse(block: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = tmp_path / "block.mjs"
    script.write_text(block, "utf-8")
    subprocess.run([node, "--check", script], check=True)


def list_options(command: Any) -> set[str]:
    """Return the options of a command and of its subcommands."""
    own = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return own.union(*map(list_options, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_options_named_in_the_text_exist(document: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text("utf-8"))
    spans = [
        span for span in re.findall(r"`([^`\n]+)`", text) if re.match(r"seq2see |--|-\w\b", span)
    ]
    named = {option for span in spans for option in re.findall(r"(?<!\S)--[a-z][\w-]+", span)}
    help_options = {"--help"}
    assert named - list_options(typer.main.get_command(app)) - help_options == set()
