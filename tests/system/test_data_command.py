"""The commands `seq2see data` and `seq2see init`, run as processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seq2see.data.fables import load_fables_split
from seq2see.data.readers import read_lines
from seq2see.settings import Recipe


def seq2see(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seq2see", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, input=stdin
    )


@pytest.fixture(scope="module")
def corpus_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a corpus with faults in known lines."""
    corpus_directory = tmp_path_factory.mktemp("corpus")
    pairs = [
        (fable.source, fable.target) for fable in load_fables_split("train", short=True)[:3000]
    ]
    pairs[99] = ("", pairs[99][1])
    pairs[199] = pairs[0]
    pairs[299] = ("This sentence was never translated at all.",) * 2
    (corpus_directory / "train.en").write_text("".join(f"{s}\n" for s, _ in pairs), "utf-8")
    (corpus_directory / "train.fr").write_text("".join(f"{t}\n" for _, t in pairs), "utf-8")
    (corpus_directory / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), "utf-8")
    (corpus_directory / "test.tsv").write_text(
        "".join(f"{s}\t{t}\n" for s, t in pairs[1000:1010]), "utf-8"
    )
    for name in ("empty.en", "empty.de"):
        (corpus_directory / name).touch()
    return corpus_directory


def test_check_finds_injected_faults(corpus_directory: Path) -> None:
    done = seq2see(
        "data", "check", f"{corpus_directory}/train.en", f"{corpus_directory}/train.fr", "--json"
    )
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


def test_fault_gives_exit_status_1(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("A dog runs.\tUn chien court.\nA cat.\t\n", "utf-8")
    done = seq2see("data", "check", f"{tmp_path}/a.tsv", "--json", "--no-estimate-time")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["findings"][0]["severity"] == "fault"
    assert report["suggestion"]["seconds"] is None


def test_check_prints_report_and_plot(corpus_directory: Path, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    done = seq2see(
        *(
            "data",
            "check",
            f"{corpus_directory}/train.tsv",
            "--languages",
            "en,fr",
            "--plot",
            str(picture),
        ),
        *("--test-set", f"{corpus_directory}/test.tsv"),
    )
    assert done.returncode == 0
    assert "3,000 pairs" in done.stdout
    assert "the source is in a test set, so scores on it would be too high (10 of 10" in " ".join(
        done.stdout.split()
    )
    assert "preset tiny" in done.stdout
    assert re.search(r"training  about [\d.]+ (seconds|minutes|hours) on this machine", done.stdout)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_check_reads_standard_input(corpus_directory: Path) -> None:
    done = seq2see(
        "data",
        "check",
        "-",
        "--json",
        "--no-estimate-time",
        stdin=(corpus_directory / "train.tsv").read_text("utf-8"),
    )
    assert json.loads(done.stdout)["num_pairs"] == 3000


def test_cleaned_corpus_is_clean(corpus_directory: Path, tmp_path: Path) -> None:
    files = [f"{corpus_directory}/train.en", f"{corpus_directory}/train.fr"]
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


def test_split_writes_requested_sizes(corpus_directory: Path, tmp_path: Path) -> None:
    done = seq2see(
        *(
            "data",
            "split",
            f"{corpus_directory}/train.tsv",
            "-o",
            str(tmp_path),
            "--languages",
            "en,fr",
        ),
        *("--valid-size", "100", "--test-size", "50"),
    )
    assert done.returncode == 0
    lines = {p.name: len(p.read_text("utf-8").splitlines()) for p in tmp_path.iterdir()}
    assert lines == {
        f"{part}.{side}": count
        for part, count in {"train": 2850, "valid": 100, "test": 50}.items()
        for side in ("en", "fr")
    }


def test_two_txt_files_are_a_corpus(corpus_directory: Path, tmp_path: Path) -> None:
    for side, name in (("en", "source"), ("fr", "target")):
        (tmp_path / f"{name}.txt").write_bytes((corpus_directory / f"train.{side}").read_bytes())
    files = [f"{tmp_path}/source.txt", f"{tmp_path}/target.txt"]
    done = seq2see("data", "split", *files, "-o", str(tmp_path / "out"), "--valid-size", "9")
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"{p}.{s}" for p in ("test", "train", "valid") for s in ("source", "target")]


def test_full_disk_leaves_no_files(corpus_directory: Path, tmp_path: Path) -> None:
    """`ulimit -f` simulates a full disk: no file may be larger than 32 KiB."""
    command = f"ulimit -f 32; trap '' XFSZ; exec {sys.executable} -m seq2see data split"
    files = " ".join(f"{corpus_directory}/train.{language}" for language in ("en", "fr"))
    options = f"-o {tmp_path}/out --valid-size 10 --test-size 10"
    done = subprocess.run(
        ["bash", "-c", f"{command} {files} {options}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("clean", [[], ["--clean"]], ids=["as it is", "clean"])
def test_init_writes_a_valid_recipe(
    corpus_directory: Path, tmp_path: Path, clean: list[str]
) -> None:
    run_directory = tmp_path / "en-fr"
    done = seq2see(
        "init",
        f"{corpus_directory}/train.en",
        f"{corpus_directory}/train.fr",
        "-o",
        str(run_directory),
        *clean,
    )
    assert done.returncode == 0
    assert f"seq2see train {run_directory}/recipe.toml" in done.stderr
    recipe = Recipe.read(run_directory / "recipe.toml")
    assert recipe.data.languages == ("en", "fr")
    assert (
        recipe.schedule.warmup_updates < 500
    )  # a fifth of what 3,000 pairs take, not the usual 1,000
    assert (recipe.schedule.kind, recipe.schedule.peak_lr) == ("cosine", 0.004)
    assert recipe.build_model_config(500).norm.placement == "pre"
    assert recipe.build_model_config(500).dropout.residual == 0.3
    assert recipe.validation.interval == recipe.checkpoints.interval < 250
    parts = [*recipe.data.train, recipe.data.valid, recipe.data.test]
    sizes = [
        sum(1 for _ in recipe.data.build_corpus(part, run_directory)) for part in parts if part
    ]
    assert sizes[1:] == [150, 150] if not clean else sizes[1] == sizes[2] >= 140
    assert (sum(sizes) == 3000) == (not clean)
    assert ("run this again with --clean" in done.stderr) == (not clean)
    again = seq2see(
        "init",
        f"{corpus_directory}/train.en",
        f"{corpus_directory}/train.fr",
        "-o",
        str(run_directory),
        *clean,
    )
    assert again.returncode == 1
    assert again.stdout == ""  # no report before the error
    assert "already exists" in again.stderr


def test_languages_of_the_option_name_the_output_files(
    corpus_directory: Path, tmp_path: Path
) -> None:
    done = seq2see(
        *("data", "split", f"{corpus_directory}/train.tsv", "--languages", "en,fr"),
        *("-o", str(tmp_path), "--valid-size", "9", "--test-size", "9"),
    )
    assert done.returncode == 0, done.stderr
    assert {path.suffix for path in tmp_path.iterdir()} == {".en", ".fr"}


@pytest.mark.parametrize("clean", [[], ["--clean"]], ids=["all", "clean"])
@pytest.mark.parametrize("languages", [[], ["--languages", "en,en"]], ids=["by name", "declared"])
def test_init_for_one_language_keeps_identical_pairs(
    run, tmp_path: Path, clean: list[str], languages: list[str]
) -> None:
    """Text correction: pairs with identical sides are pairs_of_splits."""
    right = [fable.source for fable in load_fables_split("train", short=True)[:300]]
    ending = "txt" if languages else "en"
    files = [tmp_path / f"{name}.{ending}" for name in ("careless", "careful")]
    changed = [t if i % 2 else t.lower().removesuffix(".") for i, t in enumerate(right)]
    for file, lines in zip(files, (changed, right), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    run_directory = tmp_path / "careful"
    done = run("init", *files, "-o", run_directory, *languages, *clean)
    assert done.status == 0, done.err
    recipe = Recipe.read(run_directory / "recipe.toml")
    assert recipe.data.languages == ("en", "en")
    parts = [*recipe.data.train, recipe.data.valid, recipe.data.test]
    assert parts[0].files == ("train.source", "train.target")
    pairs_of_splits = [
        pair for part in parts if part for pair in recipe.data.build_corpus(part, run_directory)
    ]
    assert sum(pair.source == pair.target for pair in pairs_of_splits) >= 140
    assert "both sides" not in done.out


def test_cleaning_all_pairs_is_an_error(corpus_directory: Path, tmp_path: Path) -> None:
    done = seq2see(
        *("data", "clean", f"{corpus_directory}/test.tsv", "-o", str(tmp_path / "out")),
        *("--test-set", f"{corpus_directory}/test.tsv"),
    )
    assert done.returncode == 1
    assert "all 10 pairs would be removed: run `seq2see data check` for the reasons" in done.stderr
    assert not list((tmp_path / "out").iterdir())


INVALID_USES = {
    "one text file": (["data", "check", "{}/train.en"], 2, "FILES must be two text files"),
    "no file": (["data", "check", "{}/none.tsv"], 1, "none.tsv cannot be read: No such file"),
    "an invalid language code": (
        ["data", "check", "{}/train.tsv", "--languages", "a/b,c"],
        2,
        "--languages",
    ),
    "languages without a comma": (
        ["data", "check", "{}/train.tsv", "--languages", "en", "fr"],
        2,
        "`--languages` must be two values separated by a comma, but is 'en'",
    ),
    "the same file twice": (
        ["init", "{}/train.en", "{}/./train.en", "-o", "{}/same"],
        1,
        "source and target must be two files, but both are",
    ),
    "an empty corpus": (
        ["init", "{}/empty.en", "{}/empty.de", "-o", "{}/new"],
        1,
        "the corpus must have more than 2 pairs, because the validation set takes 1 and the test "
        "set 1, but has 0",
    ),
    "too large an evaluation size": (
        ["init", "{}/test.tsv", "--languages", "en,fr", "-o", "{}/n", "--evaluation-size", "5"],
        1,
        "the corpus must have more than 10 pairs, because the validation set takes 5 and the test "
        "set 5, but has 10",
    ),
    "an empty corpus to split": (
        ["data", "split", "{}/empty.en", "{}/empty.de", "-o", "{}/new"],
        1,
        "the corpus must have more than 2,000 pairs, because the validation set takes 1,000 and "
        "the test set 1,000, but has 0",
    ),
    "an unknown name of a column": (
        ["data", "check", "{}/train.tsv", "--columns", "en,de"],
        2,
        "`--columns` must name columns of train.tsv (",
    ),
    "an invalid pair of columns": (
        ["data", "check", "{}/train.tsv", "--columns", "1"],
        2,
        "--columns",
    ),
    "no such column": (
        ["data", "check", "{}/train.tsv", "--columns", "1,3"],
        1,
        "line 1 must have at least 3 columns, but has 2 instead",
    ),
    "no output directory": (["data", "clean", "{}/train.tsv"], 2, "--output"),
    "too large validation and test sets": (
        ["data", "split", "{}/test.tsv", "-o", "{}/out"],
        1,
        "the corpus must have more than 2,000 pairs",
    ),
    "an unknown image format": (
        ["data", "check", "{}/test.tsv", "--plot", "{}/a.gif7"],
        2,
        "`--plot` must end with one of",
    ),
    "an unknown corpus": (["data", "check", "builtin:fairies"], 2, "must name a built-in corpus"),
    "no tokenizer": (["data", "check", "{}/test.tsv", "--tokenizer", "{}/x"], 1, "cannot be read"),
}


@pytest.mark.parametrize(
    ("arguments", "status", "message"), INVALID_USES.values(), ids=INVALID_USES
)
def test_error_is_one_line(
    corpus_directory: Path, arguments: list[str], status: int, message: str
) -> None:
    done = seq2see(*(argument.format(corpus_directory) for argument in arguments))
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("seq2see: ")
    assert len(done.stderr.strip().splitlines()) == 1
