"""`seq2see data` and `seq2see init` as a person uses them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seq2see.data.fables import load_fables
from seq2see.data.readers import read_lines
from seq2see.settings import Recipe


def seq2see(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seq2see", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, input=stdin
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with faults in places that are known."""
    folder = tmp_path_factory.mktemp("corpus")
    pairs = [(fable.source, fable.target) for fable in load_fables("train", short=True)[:3000]]
    pairs[99] = ("", pairs[99][1])
    pairs[199] = pairs[0]
    pairs[299] = ("This sentence was never translated at all.",) * 2
    (folder / "train.en").write_text("".join(f"{s}\n" for s, _ in pairs), "utf-8")
    (folder / "train.fr").write_text("".join(f"{t}\n" for _, t in pairs), "utf-8")
    (folder / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), "utf-8")
    (folder / "test.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[1000:1010]), "utf-8")
    return folder


def test_check_finds_what_was_broken(folder: Path) -> None:
    done = seq2see("data", "check", f"{folder}/train.en", f"{folder}/train.fr", "--json")
    report = json.loads(done.stdout)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert report["num_pairs"] == 3000
    assert (report["source"]["declared_language"], report["target"]["declared_language"]) == (
        "en",
        "fr",
    )
    for name, line in [("empty", 100), ("duplicate", 200), ("identical", 300)]:
        assert found[name]["count"] == 1
        assert found[name]["examples"][0]["line"] == line
    assert report["suggestion"]["preset"] == "tiny"
    assert 1 < report["suggestion"]["seconds"] < 100_000
    assert done.returncode == 0  # there are warnings, but no faults


def test_a_fault_has_a_status_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("A dog runs.\tUn chien court.\nA cat.\t\n", "utf-8")
    done = seq2see("data", "check", f"{tmp_path}/a.tsv", "--json", "--no-estimate-time")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["findings"][0]["severity"] == "fault"
    assert report["suggestion"]["seconds"] is None


def test_check_for_people(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    done = seq2see(
        *("data", "check", f"{folder}/train.tsv", "--languages", "en,fr", "--plot", str(picture)),
        *("--test-set", f"{folder}/test.tsv"),
    )
    assert done.returncode == 0
    assert "3,000 pairs" in done.stdout
    assert "have a source that is held out (of those, 10 of 10 are here" in " ".join(
        done.stdout.split()
    )
    assert "preset tiny" in done.stdout
    assert re.search(r"training  about [\d.]+ (seconds|minutes|hours) on this machine", done.stdout)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_check_reads_standard_input(folder: Path) -> None:
    done = seq2see(
        "data",
        "check",
        "-",
        "--json",
        "--no-estimate-time",
        stdin=(folder / "train.tsv").read_text("utf-8"),
    )
    assert json.loads(done.stdout)["num_pairs"] == 3000


def test_clean_then_check_is_healthy(folder: Path, tmp_path: Path) -> None:
    files = [f"{folder}/train.en", f"{folder}/train.fr"]
    done = seq2see("data", "clean", *files, "-o", str(tmp_path))
    assert done.returncode == 0
    rejected = [row[:2] for row in map(str.split, read_lines(f"{tmp_path}/rejected.tsv"))]
    for row in (["100", "empty"], ["200", "duplicate"], ["300", "identical"]):
        assert row in rejected
    files = [f"{tmp_path}/clean.en", f"{tmp_path}/clean.fr"]
    again = seq2see("data", "check", *files, "--json", "--no-estimate-time")
    report = json.loads(again.stdout)
    assert report["is_clean"]
    assert report["num_pairs"] == 3000 - len(rejected)


def test_split(folder: Path, tmp_path: Path) -> None:
    done = seq2see(
        *("data", "split", f"{folder}/train.tsv", "-o", str(tmp_path), "--languages", "en,fr"),
        *("--valid-size", "100", "--test-size", "50"),
    )
    assert done.returncode == 0
    lines = {p.name: len(p.read_text("utf-8").splitlines()) for p in tmp_path.iterdir()}
    assert lines == {
        f"{part}.{side}": count
        for part, count in {"train": 2850, "valid": 100, "test": 50}.items()
        for side in ("en", "fr")
    }


def test_files_called_txt_are_two_files(folder: Path, tmp_path: Path) -> None:
    for side, name in (("en", "source"), ("fr", "target")):
        (tmp_path / f"{name}.txt").write_bytes((folder / f"train.{side}").read_bytes())
    files = [f"{tmp_path}/source.txt", f"{tmp_path}/target.txt"]
    done = seq2see("data", "split", *files, "-o", str(tmp_path / "out"), "--valid-size", "9")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"{p}.{s}" for p in ("test", "train", "valid") for s in ("source", "target")]


def test_a_full_disk_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    """`ulimit -f` stands for the disk: no file may be larger than 32 KiB."""
    command = f"ulimit -f 32; trap '' XFSZ; exec {sys.executable} -m seq2see data split"
    files = f"{folder}/train.en {folder}/train.fr -o {tmp_path}/out --valid-size 10 --test-size 10"
    done = subprocess.run(
        ["bash", "-c", f"{command} {files}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("clean", [[], ["--clean"]], ids=["as it is", "clean"])
def test_init_ends_with_a_recipe(folder: Path, tmp_path: Path, clean: list[str]) -> None:
    home = tmp_path / "en-fr"
    done = seq2see("init", f"{folder}/train.en", f"{folder}/train.fr", "-o", str(home), *clean)
    assert done.returncode == 0
    assert f"seq2see train {home}/recipe.toml" in done.stderr
    recipe = Recipe.read(home / "recipe.toml")
    assert recipe.data.languages == ("en", "fr")
    assert (
        recipe.schedule.warmup_updates < 500
    )  # a fifth of what 3,000 pairs take, not the usual 1,000
    assert (recipe.schedule.kind, recipe.schedule.peak_lr) == ("cosine", 0.004)
    assert recipe.build_model_config(500).norm.placement == "pre"
    assert recipe.build_model_config(500).dropout.residual == 0.3
    assert recipe.validation.interval == recipe.checkpoints.interval < 250
    parts = [*recipe.data.train, recipe.data.valid, recipe.data.test]
    sizes = [sum(1 for _ in recipe.data.build_corpus(part, home)) for part in parts if part]
    assert sizes[1:] == [150, 150] if not clean else sizes[1] == sizes[2] >= 140
    assert (sum(sizes) == 3000) == (not clean)
    assert ("run this again with --clean" in done.stderr) == (not clean)
    again = seq2see("init", f"{folder}/train.en", f"{folder}/train.fr", "-o", str(home), *clean)
    assert again.returncode == 1
    assert again.stdout == ""  # no report before the refusal
    assert "exists already" in again.stderr


@pytest.mark.parametrize("languages", [["en,fr"], ["en", "fr"]], ids=["comma", "space"])
def test_languages_with_a_comma_or_a_space(
    folder: Path, tmp_path: Path, languages: list[str]
) -> None:
    done = seq2see(
        *("data", "split", f"{folder}/train.tsv", "--languages", *languages),
        *("-o", str(tmp_path), "--valid-size", "9", "--test-size", "9"),
    )
    assert done.returncode == 0, done.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".en", ".fr"}


@pytest.mark.parametrize("clean", [[], ["--clean"]], ids=["all", "clean"])
@pytest.mark.parametrize("stated", [[], ["--languages", "en,en"]], ids=["by name", "stated"])
def test_a_translator_within_one_language(
    run, tmp_path: Path, clean: list[str], stated: list[str]
) -> None:
    """From careless to careful: what is right already stays as it is."""
    right = [fable.source for fable in load_fables("train", short=True)[:300]]
    ending = "txt" if stated else "en"
    files = [tmp_path / f"{name}.{ending}" for name in ("careless", "careful")]
    changed = [t if i % 2 else t.lower().removesuffix(".") for i, t in enumerate(right)]
    for file, lines in zip(files, (changed, right), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    home = tmp_path / "careful"
    done = run("init", *files, "-o", home, *stated, *clean)
    assert done.status == 0, done.err
    recipe = Recipe.read(home / "recipe.toml")
    assert recipe.data.languages == ("en", "en")
    parts = [*recipe.data.train, recipe.data.valid, recipe.data.test]
    assert parts[0].files == ("train.source", "train.target")
    kept = [pair for part in parts if part for pair in recipe.data.build_corpus(part, home)]
    assert sum(pair.source == pair.target for pair in kept) >= 140
    assert "both sides" not in done.out


def test_cleaning_never_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    done = seq2see(
        *("data", "clean", f"{folder}/test.tsv", "-o", str(tmp_path / "out")),
        *("--test-set", f"{folder}/test.tsv"),
    )
    assert done.returncode == 1
    assert "none of the 10 pairs would be left: `seq2see data check` says why" in done.stderr
    assert not list((tmp_path / "out").iterdir())


MISTAKES = {
    "one text file": (["data", "check", "{}/train.en"], 2, "FILES must be two text files"),
    "no file": (["data", "check", "{}/none.tsv"], 1, "none.tsv cannot be read: No such file"),
    "a language that is none": (
        ["data", "check", "{}/train.tsv", "--languages", "a/b,c"],
        2,
        "--languages",
    ),
    "the same file twice": (
        ["init", "{}/train.en", "{}/./train.en", "-o", "{}/same"],
        1,
        "source and target must be two files, but both are",
    ),
    "keys by one language": (
        ["data", "check", "{}/train.tsv", "--format", "jsonl", "--languages", "en,en"],
        2,
        "`--columns` must be given for train.tsv",
    ),
    "a wrong pair": (["data", "check", "{}/train.tsv", "--columns", "1"], 2, "--columns"),
    "no such column": (
        ["data", "check", "{}/train.tsv", "--columns", "1,3"],
        1,
        "line 1 must have at least 3 columns, but has 2 instead",
    ),
    "no folder": (["data", "clean", "{}/train.tsv"], 2, "--output"),
    "too much held out": (
        ["data", "split", "{}/test.tsv", "-o", "{}/out"],
        1,
        "1000 and 1000 of 10 pairs would leave nothing",
    ),
    "a picture of no kind": (
        ["data", "check", "{}/test.tsv", "--plot", "{}/a.gif7"],
        2,
        "`--plot` must end with one of",
    ),
    "an unknown corpus": (["data", "check", "builtin:fairies"], 2, "must name a built-in corpus"),
    "no tokenizer": (["data", "check", "{}/test.tsv", "--tokenizer", "{}/x"], 1, "cannot be read"),
}


@pytest.mark.parametrize(("arguments", "status", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(folder: Path, arguments: list[str], status: int, words: str) -> None:
    done = seq2see(*(argument.format(folder) for argument in arguments))
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("seq2see: ")
    assert len(done.stderr.strip().splitlines()) == 1
