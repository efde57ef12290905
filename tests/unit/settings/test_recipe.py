"""Recipes: reading, validation, and writing with comments."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seq2see.data.corpus_config_and_reading import CorpusConfig
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig
from seq2see.settings import Recipe
from seq2see.settings.recipe import format_toml_value

DATA: dict[str, Any] = {
    "languages": ["en", "de"],
    "train": [
        {"files": ["a.en", "a.de"]},
        {"files": ["b.tsv"], "weight": 0.5, "tag": "<bt>", "columns": [2, 1]},
    ],
    "valid": {"files": ["valid.en", "valid.de"]},
}
RECIPE: dict[str, Any] = {
    "data": DATA,
    "tokenizer": {"vocab_size": 500, "user_defined_symbols": ["<bt>"]},
    "train": {"max_epochs": 3.0},
    "model": {"preset": "tiny", "heads": 8, "dropout": {"residual": 0.3}},
}


def keys_of(table: dict[str, Any], path: str = "") -> set[str]:
    """Return the dotted names of all keys in tables and lists of tables."""
    names = set()
    for key, value in table.items():
        if isinstance(value, dict):
            names |= keys_of(value, f"{path}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            names |= set().union(*(keys_of(each, f"{path}{key}.") for each in value))
        else:
            names.add(f"{path}{key}")
    return names


def test_written_recipe_equals_the_recipe_read() -> None:
    recipe = Recipe(**RECIPE)
    assert Recipe(**tomllib.loads(recipe.to_toml())) == recipe


def test_every_key_has_a_comment() -> None:
    """There is a comment above each key, and no key is missing."""
    lines = Recipe(**RECIPE).to_toml().splitlines()
    for above, line in pairwise(lines):
        is_key = not line.startswith(("# ", "[")) and "=" in line
        if is_key and not line.startswith("preset"):
            assert above.startswith("# "), line
    written = {line.split(" =")[0].lstrip("#") for line in lines if " =" in line}
    for part in (CorpusConfig, ModelConfig):
        flat = {
            name
            for name in part.model_fields
            if name not in ("vocab_size", "target_vocab_size", "pad_id")
        }
        missing = {n for n in flat if not any(w == n or w.startswith(f"{n}.") for w in written)}
        assert not missing


def test_commented_keys_show_their_defaults(tmp_path: Path) -> None:
    """Removing the # of every commented key changes nothing."""
    model = {"preset": "small", "norm": {"placement": "pre"}, "dropout": {"residual": 0.3}}
    recipe = Recipe(**{**RECIPE, "model": model})
    lines = recipe.to_toml().splitlines()
    assert 'norm.placement = "pre"' in lines
    plain = [line[1:] if line[:1] == "#" and line[:2] != "# " else line for line in lines]
    settings = tomllib.loads("\n".join(line for line in plain if not line.endswith("=")))
    assert Recipe(**settings).build_model_config(500) == recipe.build_model_config(500)


def test_model_config_is_preset_with_overrides() -> None:
    config = Recipe(**RECIPE).build_model_config(500)
    assert (config.d_model, config.heads) == (128, 8)
    assert (config.dropout.residual, config.dropout.embedding) == (0.3, 0.1)
    assert config.vocab_size == 500


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        "[data]\nlanguages = ['en', 'd/e']\ntrain = [{files = ['a'], wight = 1}]\n"
        "valid = {files = ['a.tsv']}\n[tokenizer]\nvocab_size = 8\n[batches]\nmax_tokens = 3\n"
        "[model]\nd_modle = 9\nheads = 'x'\n"
    )
    with pytest.raises(ConfigError) as raised:
        Recipe.read(path)
    text = str(raised.value)
    for problem in [
        "did you mean `data.train.0.weight`?",
        "`tokenizer.vocab_size` must be above 260",
        "`batches.max_tokens` must be at least 514",
        "`model.d_modle` is not a setting; did you mean `model.d_model`?",
        "`model.heads` must be an integer",
    ]:
        assert text.count(problem) == 1
    assert str(path) in text


def test_problem_names_the_file_or_override(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(Recipe(**RECIPE).to_toml() + "wide = 1\n")
    overrides = [
        "train.max_updates = x",
        "modl.wide=3",
        "schedule.warmup_updates=9",
        "model.hight=2",
    ]
    with pytest.raises(ConfigError) as raised:
        Recipe.read(path, overrides)
    assert sorted(str(problem).partition(": ")[0] for problem in raised.value.problems) == sorted(
        [str(path), *overrides[:2], overrides[3]]
    )


def test_problem_names_the_last_override_of_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(Recipe(**RECIPE).to_toml())
    for overrides, start in (
        (["batches.max_tokens=1024", "batches.max_tokens=0"], "batches.max_tokens=0: `batches.max"),
        (
            ["train={max_updates=0}"],
            "train={max_updates=0}: `train.max_updates` must be at least 1",
        ),
        (
            ["train.seed=2", "batches.max_length=99999"],
            f"{path} with batches.max_length=99999: `batches.max_tokens` must be at least 200000",
        ),
        (["train.threads=100000"], "train.threads=100000: `train.threads` must be at most 1024"),
        (["train.processes=99999"], "train.processes=99999: `train.processes` must be at most"),
    ):
        with pytest.raises(ConfigError) as raised:
            Recipe.read(path, overrides)
        assert str(raised.value).startswith(start)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": {"preset": "huge"}}, "`model.preset` must be one of tiny, small, base, big"),
        ({"model": {"heads": 7}}, "`model.heads` must divide d_model = 512"),
        ({"model": {"vocab_size": 9}}, "`model.vocab_size` must be left out: the tokenizer"),
        (
            {"model": {"d_modle": 9}},
            "`model.d_modle` is not a setting; did you mean `model.d_model`?",
        ),
        (
            {"model": {"positions": {"kind": "learned", "max_length": 256}}},
            "`batches.max_length` must be at most 255, since positions.max_length of `model`",
        ),
        (
            {"model": {"encoder_attention": {"kind": "linformer", "max_length": 99, "rank": 9}}},
            "`batches.max_length` must be at most 98, since encoder_attention.max_length",
        ),
        (
            {"train": {"max_updates": 9, "fsdp": True}, "optimizer": {"kind": "muon"}},
            "`optimizer.kind` must be adam or adamw with `train.fsdp`: muon needs",
        ),
        (
            {"tokenizer": {"vocab_size": 500}},
            "`tokenizer.user_defined_symbols` must have '<bt>', the tag of",
        ),
        ({"data": {**DATA, "languages": ["en", "d/e"]}}, "`data.languages` must be codes such as"),
        (
            {"data": {**DATA, "valid": {"files": ["a", "b"], "weight": 2}}},
            "`data.valid.weight` is not",
        ),
    ],
    ids=str,
)
def test_invalid_recipe_is_rejected(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Recipe(**{**RECIPE, **changes})
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[data", "must be TOML, but:"),
        (b"\xff", "must be UTF-8"),
        (None, "cannot be read: No such file"),
    ],
)
def test_unreadable_recipe_file_is_rejected(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        Recipe.read(path)


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    st.lists,
)


@given(VALUES)
def test_toml_values_round_trip(value: object) -> None:
    assert tomllib.loads(f"x = {format_toml_value(value)}")["x"] == value


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_every_recipe_file_equals_its_written_form(path: Path) -> None:
    recipe = Recipe.read(path)
    written = recipe.to_toml()
    assert path.read_text("utf-8").endswith(written), "must be rewritten with Recipe.to_toml"


def test_paths_in_overrides_are_relative_to_a_directory(tmp_path: Path) -> None:
    overrides = [
        "data.root=corpora",
        "data.train=[{files=['a.en', '../a.de'], weight=2}, {files=['builtin:copy']}]",
        "data.valid.files=['/v.tsv']",
        "train.init_from=$MODEL/x",
    ]
    recipe = Recipe.read(ROOT / "recipes" / "base.toml", overrides, tmp_path / "here")
    here = tmp_path / "here"
    assert recipe.data.root == str(here / "corpora")
    first, second = recipe.data.train
    assert first.files == (str(here / "a.en"), str(tmp_path / "a.de"))
    assert (first.weight, second.files) == (2.0, ("builtin:copy",))
    assert recipe.data.valid.files == ("/v.tsv",)
    assert recipe.train.init_from == "$MODEL/x"
