"""Invalid use of the command line: one line that names what was typed."""

from __future__ import annotations

import os
import sys

import pytest
import typer

from seq2see.bundle import Bundle
from seq2see.cli.resumable_output import prepare_resumable_output
from seq2see.errors import InputError
from seq2see.registries import SINGLE_FILE_EXTENSIONS_TEXT

# --- input and output files ---


def test_output_must_differ_from_input_file(run, model, tmp_path) -> None:
    text, link = tmp_path / "in.txt", tmp_path / "link.txt"
    text.write_text("The dog sleeps.\n", "utf-8")
    os.link(text, link)
    for output in (text, link):
        done = run("translate", model, text, "-o", output, "--beam-size", "1")
        assert (done.status, done.out) == (1, "")
        assert (
            done.err
            == f"seq2see: {output} must be another file than the text to translate, {text}\n"
        )
    assert text.read_text("utf-8") == "The dog sleeps.\n"


def test_output_must_differ_from_redirected_standard_input(model, tmp_path, monkeypatch) -> None:
    text = tmp_path / "in.txt"
    text.write_text("The dog sleeps.\n", "utf-8")
    with text.open(encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        prepare_resumable_output("-", tmp_path / "out.txt", model, {}, resume=False)
        with pytest.raises(
            InputError, match="must be another file than the text to translate, standard"
        ):
            prepare_resumable_output("-", text, model, {}, resume=False)


@pytest.fixture
def texts(tmp_path, monkeypatch) -> None:
    """A working directory with two parallel files."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("one\n", "utf-8")
    (tmp_path / "en-de").mkdir()


MISPLACED = {
    "model and text swapped": (
        1,
        ["translate", "a.en", "{m}"],
        "a.en is a file: give a model directory first, then the text, for example seq2see "
        "translate {m} a.en",
    ),
    "file instead of model": (
        1,
        ["translate", "a.en"],
        "a.en is a file: give a model directory first, then the text",
    ),
    "text instead of file": (
        1,
        ["translate", "{m}", "A dog runs."],
        "'A dog runs.' is not a file: to translate it as text, run echo 'A dog runs.' | "
        "seq2see translate {m}",
    ),
    "texts instead of recipe": (
        2,
        ["train", "a.en", "a.de"],
        "RECIPE must be a recipe, but is a.en a.de: `seq2see init a.en a.de` writes one",
    ),
    "text instead of recipe": (
        2,
        ["train", "a.en"],
        "RECIPE must be a recipe, but is a.en: `seq2see init a.en` writes one",
    ),
    "missing corpus, existing output": (
        1,
        ["init", "nope.en", "nope.de"],
        "nope.en cannot be read: No such file or directory",
    ),
    "one file of a test set": (
        2,
        ["evaluate", "{m}", "--test-set", "a.en"],
        f"`--test-set` must be two text files, or one {SINGLE_FILE_EXTENSIONS_TEXT}, but has a.en "
        "instead",
    ),
    "one file of a test set that a corpus must not contain": (
        2,
        ["data", "check", "builtin:fables", "--test-set", "a.en"],
        f"`--test-set` must be two text files, or one {SINGLE_FILE_EXTENSIONS_TEXT}, but has a.en "
        "instead",
    ),
    "one file to measure heads with": (
        2,
        ["explain", "{m}", "--head-importance", "a.en"],
        "`--head-importance` must be two text files, or one "
        f"{SINGLE_FILE_EXTENSIONS_TEXT}, but has a.en instead",
    ),
    "missing file to score": (
        1,
        ["score", "{m}", "nope"],
        "nope cannot be read: No such file or directory",
    ),
    "file to import": (
        1,
        ["import", "a.en", "-o", "new"],
        "`a.en` is a file: give the directory of a MarianMT model",
    ),
    "missing model to import": (
        1,
        ["import", "nope", "-o", "new"],
        "`nope` does not exist: give the directory of a MarianMT model",
    ),
    "seq2see model to import": (
        1,
        ["import", "{m}", "-o", "new"],
        "`{m}` is a model of seq2see already: there is nothing to import",
    ),
}


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(("status", "arguments", "line"), MISPLACED.values(), ids=MISPLACED)
def test_misplaced_argument_is_named(run, model, status, arguments, line) -> None:
    done = run(*(each.format(m=model) for each in arguments))
    assert (done.status, done.out) == (status, "")
    assert done.err == f"seq2see: {line.format(m=model)}\n"


def test_long_sentence_as_file_name_is_rejected(run, model) -> None:
    done = run("translate", model, "The dog sleeps. " * 100)
    assert done.status == 1
    assert "is not a file: to translate it as text, run echo" in done.err


OUTPUT_NAMES = {
    "compressed output": (
        "t.txt",
        "o.txt.gz",
        2,
        "`--output` must be an uncompressed file, but is {out}:",
    ),
    "compressed page": ("p.html.gz", "o.html", 1, "{file} must be decompressed first: compressed"),
    "compressed TMX": ("m.TMX.xz", "o.txt", 1, "{file} must be decompressed first: compressed"),
    "other subtitle format": (
        "a.srt",
        "o.vtt",
        2,
        "`--output` must be srt like {file}, but is {out}",
    ),
    "text to page": ("t.en", "o.html", 2, "`--output` must be plain text like {file}, but"),
    "page to text": ("p.html", "o.txt", 2, "`--output` must be html like {file}, but is"),
    "page to PDF": ("p.html", "o.pdf", 2, "`--output` must be html like {file}, but is {out}"),
    "page to compressed page": (
        "p.html",
        "o.html.zst",
        2,
        "`--output` must be an uncompressed file, but is {out}",
    ),
}


@pytest.mark.parametrize(
    ("file", "output", "status", "words"), OUTPUT_NAMES.values(), ids=OUTPUT_NAMES
)
def test_output_extension_must_match_input_format(
    run, model, tmp_path, file, output, status, words
) -> None:
    text, out = tmp_path / file, tmp_path / output
    text.write_text("The dog sleeps.\n", "utf-8")
    done = run("translate", model, text, "-o", out, "--beam-size", "1")
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"seq2see: {words.format(file=text, out=out)}")
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [text]


def test_standard_input_cannot_become_html(run, model, tmp_path) -> None:
    done = run("translate", model, "-o", tmp_path / "o.html", stdin=b"The dog sleeps.\n")
    assert done.status == 2
    assert "must be plain text like standard input, but is" in done.err


# --- runs ---


def test_resume_warns_if_run_directory_has_no_run(run, tiny_recipe, tmp_path, monkeypatch) -> None:
    def print_training(*_: object) -> None:
        typer.echo("training", err=True)

    monkeypatch.setattr(
        sys.modules["seq2see.cli.training_run"], "train_from_recipe", print_training
    )
    arguments = ["train", tiny_recipe, "-o", tmp_path / "nope"]
    warning = f"seq2see: {tmp_path / 'nope'} has no run to resume: starting a new one\n"
    assert run(*arguments).err == "training\n"
    assert run(*arguments, "--resume").err == f"{warning}training\n"
    (tmp_path / "nope").mkdir()
    assert run(*arguments, "--resume").err == f"{warning}training\n"
    (tmp_path / "nope/run.json").touch()
    assert run(*arguments, "--resume").err == "training\n"


def test_only_first_worker_prints_the_resume_warning(
    run, tiny_recipe, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(
        sys.modules["seq2see.cli.training_run"], "train_from_recipe", lambda *_: None
    )
    monkeypatch.setenv("RANK", "1")
    assert run("train", tiny_recipe, "-o", tmp_path / "nope", "--resume").err == ""


@pytest.mark.parametrize("command", ["train", "demo"])
def test_run_directory_must_not_be_a_file(run, tiny_recipe, tmp_path, command) -> None:
    (tmp_path / "two.txt").write_text("mine\n", "utf-8")
    arguments = [command, tiny_recipe] if command == "train" else [command]
    done = run(*arguments, "-o", tmp_path / "two.txt")
    assert done.status == 1
    assert done.err == (
        f"seq2see: {tmp_path / 'two.txt'} must be a directory, but is a file: name another with "
        "--output\n"
    )


# --- errors of the parser ---

PARSED = {
    "misspelled option": (
        "translate m --beem 5",
        "`--beem` is not an option; did you mean `--beam-size`?",
    ),
    "missing dash": (
        "translate m --nbest 2",
        "`--nbest` is not an option; did you mean `--n-best`?",
    ),
    "incomplete name": (
        "translate m --out x",
        "`--out` is not an option; did you mean `--output`?",
    ),
    "no similar option": (
        "translate m --bogus",
        "`--bogus` is not an option: see `seq2see translate --help`",
    ),
    "unknown short option": (
        "translate m -x",
        "`-x` is not an option: see `seq2see translate --help`",
    ),
    "setting as option": (
        "train r.toml --updates 9",
        "`--updates` is not an option: settings are given as `schedule.warmup_updates=VALUE` or "
        "`train.max_updates=VALUE`",
    ),
    "full setting as option": (
        "train r.toml --train.max_updates=9",
        "`--train.max_updates` is not an option: settings are given as `train.max_updates=VALUE`",
    ),
    "misspelled setting": (
        "train r.toml --warmpu 9",
        "`--warmpu` is not an option: settings are given as `schedule.warmup_updates=VALUE`",
    ),
    "no similar setting": (
        "train r.toml --zzz 9",
        "`--zzz` is not an option: settings are given as `section.key=VALUE`",
    ),
    "command of a group": ("check a.tsv", "`check` is not a command; did you mean `data check`?"),
    "misspelled command": ("chek a.tsv", "`chek` is not a command; did you mean `data check`?"),
    "unknown command": ("xyz", "`xyz` is not a command: see `seq2see --help`"),
    "missing argument": ("translate", "MODEL must be given: see `seq2see translate --help`"),
    "missing files": ("init", "FILES must be given: see `seq2see init --help`"),
    "missing option": ("import x", "`--output` must be given: see `seq2see import --help`"),
    "unexpected argument": (
        "translate m a b",
        "`b` is an unexpected argument: see `seq2see translate --help`",
    ),
    "no integer": (
        "translate m --beam-size x",
        "`--beam-size` must be an integer, but is x instead",
    ),
    "no number": (
        "translate m --length-penalty x",
        "`--length-penalty` must be a number, but is x instead",
    ),
    "below minimum": (
        "translate m --threads 0",
        "`--threads` must be at least 1, but is 0 instead",
    ),
    "invalid choice": (
        "translate m --engine fast",
        "`--engine` must be one of auto, torch, ctranslate2, but is fast instead",
    ),
    "missing value": ("translate m --beam-size", "`--beam-size` needs a value"),
    "value of a flag": ("translate m --json=3", "`--json` takes no value"),
    "single language": (
        "import x -o y --languages en",
        "`--languages` must be two values separated by a comma, but is 'en'",
    ),
}


@pytest.mark.parametrize(("command_line", "line"), PARSED.values(), ids=PARSED)
def test_parser_error_is_one_line(run, command_line, line) -> None:
    done = run(*command_line.split())
    assert (done.status, done.out, done.err) == (2, "", f"seq2see: {line}\n")


@pytest.mark.parametrize(
    "command", [[], ["translate"], ["data"], ["data", "check"], ["lab", "run"]], ids=str
)
def test_short_help_option_prints_usage(run, command) -> None:
    done = run(*command, "-h")
    assert (done.status, done.err) == (0, "")
    assert f"Usage: {' '.join(['seq2see', *command])}" in done.out


def test_serve_requires_an_existing_runs_directory(run, model, tmp_path) -> None:
    done = run("serve", model, "--port", "0", "--runs", tmp_path / "nope")
    assert (done.status, done.out) == (1, "")
    assert done.err == f"seq2see: {tmp_path / 'nope'} must be a directory, but does not exist\n"


def test_lab_rejects_model_with_other_languages(run, model, tmp_path) -> None:
    bundle = Bundle.load(model)
    parts = bundle.config, bundle.tokenizers, ("en", "de"), bundle.weights
    Bundle(*parts).save(tmp_path / "model")
    done = run("lab", "run", "19", "--model", tmp_path / "model", "--cache", tmp_path)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "seq2see: the model must translate from en to fr for experiments on fables, "
        "but translates from en to de instead\n"
    )


# --- options ---

MAX_LENGTH_PROBLEM = "`--search length.max_length` must be at least 1, but is 0 instead"
SETTINGS = {
    "with --search": (
        ["--search", "coverage_penalty=-1"],
        "`--search coverage_penalty` must be at",
    ),
    "unknown setting": (["--search", "foo=1"], "`--search foo` is not a setting"),
    "nested setting": (["--search", "length.max_length=0"], MAX_LENGTH_PROBLEM),
    "setting with its own option": (
        ["--search", "beam_size=0"],
        "`--beam-size` must be at least 1, but is 0",
    ),
    "sampling option": (
        ["--sample", "--top-k", "0"],
        "`--top-k` must be at least 1, but is 0 instead",
    ),
    "empty phrase": (
        ["--forbidden", " "],
        "`--forbidden` must contain words, but has an empty phrase",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), SETTINGS.values(), ids=SETTINGS)
def test_invalid_setting_is_named_by_its_option(run, model, arguments, words) -> None:
    done = run("translate", model, *arguments, stdin=b"The dog.\n")
    assert done.status == 2
    assert done.err.startswith(f"seq2see: {words}")


@pytest.mark.parametrize(("command", "num_models"), [("evaluate", 1), ("compare", 2)])
@pytest.mark.parametrize("wrong", [["--columns", "1"], ["--columns", "0,1"], ["--format", "x"]])
def test_test_set_options_are_checked_before_model_is_loaded(
    run, tmp_path, command, num_models, wrong
) -> None:
    done = run(command, *[tmp_path] * num_models, "--test-set", "pairs.tsv", *wrong)  # no models
    assert done.status == 2
    assert wrong[0].strip("-") in done.err


def test_all_invalid_settings_are_reported_together(run, tmp_path) -> None:
    options = ["--test-set", "pairs.tsv", "--format", "x", "--beam-size", "0"]
    done = run("evaluate", tmp_path, *options)
    assert done.status == 2
    assert "format" in done.err
    assert "--beam-size" in done.err


def test_setting_without_option_is_named_by_search(run, model) -> None:
    done = run("evaluate", model, "--test-set", "x.tsv", "--search", "n_best=0")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("seq2see: `--search n_best` must be at least 1, but is 0 instead")


def test_evaluate_rejects_model_options_with_translations(run, model, tmp_path) -> None:
    (tmp_path / "a.fr").write_text("un\n", "utf-8")
    files = [tmp_path / "a.fr", "--reference", tmp_path / "a.fr"]
    options = ["--beam-size", "3", "--length-penalty", "0", "--search", "num_beam_groups=1"]
    options += ["--threads", "2"]
    options += ["--ensemble", model, "--precision", "int8", "--engine", "torch", "--device", "cpu"]
    done = run("evaluate", *files, "-o", tmp_path / "out", *options)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "seq2see: `--engine`, `--device`, `--threads`, `--precision`, `--ensemble`, "
        "`--beam-size`, `--length-penalty`, `--search`, `--output` must be left out, because no "
        "model translates\n"
    )
    assert run("evaluate", *files, "--resamples", "0").status == 0


@pytest.mark.parametrize(
    ("command", "names", "systems"),
    [("compare", "A B", ["x.fr", "y.fr"]), ("evaluate", "SYSTEM", ["x.fr"])],
)
def test_systems_come_before_two_files_of_test_set(
    run, tmp_path, monkeypatch, command, names, systems
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.fr", "x.fr", "y.fr"):
        (tmp_path / name).write_text("un\n", "utf-8")
    test_set = ["--test-set", "a.en", "a.fr"]
    done = run(command, *test_set, *systems)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"seq2see: {names} must come before the files of `--test-set`: "
        f"seq2see {command} {names} --test-set a.en a.fr\n"
    )
    assert run(command, *systems, *test_set, "--resamples", "2").status == 0
    assert run(command, "--reference", "a.fr", *systems, "--resamples", "2").status == 0


def test_compare_rejects_model_options_with_two_files(run, tmp_path) -> None:
    (tmp_path / "a.fr").write_text("un\n", "utf-8")
    arguments = ["compare", *[tmp_path / "a.fr"] * 2, "--reference", tmp_path / "a.fr"]
    options = ["--beam-size", "3", "--length-penalty", "0", "--engine", "torch"]
    done = run(*arguments, *options, "--device", "cpu", "--threads", "2", "--metric", "bleurt")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(
        "seq2see: `--engine`, `--device`, `--threads`, `--beam-size`, `--length-penalty` must be "
        "left out, because no model translates; `--metric` must be"
    )
    assert run(*arguments, "--resamples", "1").status == 0


@pytest.mark.parametrize(
    ("option", "path", "problem"),
    [
        ("-o", "no/x.txt", "there is no directory"),
        ("-o", ".", "it is a directory"),
        ("--plot", "no/x.png", "there is no directory"),
        ("--plot", "folder.png", "it is a directory"),
    ],
)
def test_unwritable_output_is_reported_before_the_work(
    run, model, tmp_path, option, path, problem
) -> None:
    """The test set is missing too, which would be reported first once the work starts."""
    (tmp_path / "folder.png").mkdir()
    arguments = ["evaluate", model, "--test-set", "a.en", "a.fr", option, tmp_path / path]
    done = run(*arguments)
    assert (done.status, done.out) == (1, "")
    assert f"{tmp_path / path} cannot be written: {problem}" in done.err
    done = run(*arguments, "--metric", "bleurt")
    assert done.status == 2
    assert "`--metric` must be" in done.err


# --- explain ---

EXPLAIN = {
    "unknown layer": (
        ["--ablate", "decoder.9"],
        "`--ablate decoder.9`: layer must be from 0 to 0 in the",
    ),
    "unknown head": (
        ["--scale-scores", "decoder.0.cross.7=2"],
        "`--scale-scores decoder.0.cross.7=2`: heads must be",
    ),
    "no cross-attention": (
        ["--ablate", "encoder.0.cross"],
        "`--ablate encoder.0.cross`: sublayer must be self",
    ),
    "unknown token": (
        ["--mask-keys", "decoder.cross=99"],
        "`--mask-keys decoder.cross=99`: keys must be below",
    ),
    "too few words": (
        ["--force-continuation", "99=le"],
        "`--force-continuation 99=le`: num_prefix_words must be at most",
    ),
    "unknown detailed layer": (
        ["--layers", "decoder.4"],
        "`--layers` must be none, last, all or some of",
    ),
    "invalid layers": (
        ["--layers", "foo"],
        "`--layers` must be none, last, all or layers such as encoder",
    ),
    "unknown method": (
        ["--attribution", "foo", "--attribution", "all"],
        "`--attribution` must be one of attention, roll",
    ),
    "shift too large": (
        ["--shift-positions", "encoder=99999999"],
        "`--shift-positions` must be at most 10000, but is 99999999",
    ),
    "limit without report": (
        ["--max-sentences", "3"],
        "`--max-sentences` needs --pronoun-test or --head-importance",
    ),
    "target and continuation": (
        ["--target", "a", "--force-continuation", "1=b"],
        "`--target` must be left out with --force-continuation",
    ),
    "unknown head to plot": (
        ["--plot-attention", "decoder.0.cross.7", "-o", "a.svg"],
        "`--plot-attention`: `head` must be below 2",
    ),
    "unknown attention to plot": (
        ["--plot-attention", "decoder.8.cross", "-o", "a.svg"],
        "`--plot-attention`: the attention must be one of encoder.0.",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), EXPLAIN.values(), ids=EXPLAIN)
def test_invalid_explain_option_is_named_as_typed(run, model, arguments, words) -> None:
    done = run("explain", model, "The dog sleeps.", "--beam-size", "1", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"seq2see: {words}")
    assert done.err.count("\n") == 1


def test_all_invalid_explain_options_are_reported_together(run, model) -> None:
    wrong = [
        "--ablate",
        "decoder",
        "--mask-keys",
        "decoder.cross=x",
        "--force-continuation",
        "x",
        "--layers",
        "foo",
    ]
    wrong += ["--attribution", "bar", "--beam-size", "0", "--max-sentences", "3", "-o", "a.txt"]
    done = run("explain", model, "The dog sleeps.", *wrong)
    assert (done.status, done.out) == (2, "")
    for option in (
        *("ablate", "mask-keys", "force-continuation", "layers", "attribution"),
        *("beam-size", "max-sentences", "output"),
    ):
        assert f"`--{option}`" in done.err
    missing = ["--ablate", "decoder.9", "--mask-keys", "decoder.cross=99", "--layers", "decoder.4"]
    done = run("explain", model, "The dog sleeps.", *missing)
    assert done.status == 2
    assert [part[:9] for part in done.err.split("; ")] == [
        "seq2see: ",
        "`--mask-k",
        "`--layers",
    ]


def test_explain_rejects_an_empty_sentence(run, model) -> None:
    done = run("explain", model, "", stdin=b"The dog sleeps.\n")
    assert (done.status, done.out) == (1, "")
    assert done.err == "seq2see: the sentence must contain text, but is empty\n"
    assert run("explain", model, "-", "--beam-size", "1", stdin=b"The dog sleeps.\n").status == 0


def test_explain_reports_reject_options_of_a_trace(run, model) -> None:
    done = run(
        "explain",
        model,
        "--pronoun-test",
        "--ablate",
        "decoder.0",
        "--word-alternatives",
        "--beam-size",
        "2",
    )
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "seq2see: `--ablate`, `--word-alternatives`, `--beam-size` must be left out with "
        "`--pronoun-test`\n"
    )


def test_head_progress_is_printed_only_on_a_terminal(run, model, tmp_path) -> None:
    (tmp_path / "a.tsv").write_text("The dog sleeps.\tLe chien dort.\n", "utf-8")
    done = run("explain", model, "--head-importance", tmp_path / "a.tsv", "--json")
    assert (done.status, done.err) == (0, "")


# --- exit status ---

STATUSES = {
    "no model": (1, ["translate", "{none}"]),
    "no model to evaluate": (1, ["evaluate", "{none}", "--test-set", "builtin:fables/test"]),
    "no system to compare": (1, ["compare", "{model}", "{none}", "--reference", "{none}"]),
    "no model to show": (1, ["info", "{none}"]),
    "no model to explain": (1, ["explain", "{none}", "a"]),
    "no input file": (1, ["translate", "{model}", "{none}"]),
    "no glossary": (1, ["translate", "{model}", "--glossary", "{none}"]),
    "no test set": (1, ["evaluate", "{model}", "--test-set", "{none}.tsv"]),
    "no corpus": (1, ["data", "check", "{none}.tsv"]),
    "no recipe": (1, ["train", "{none}"]),
    "unknown device": (2, ["translate", "{model}", "--device", "gpu"]),
    "unknown device to score with": (2, ["score", "{model}", "--device", "gpu"]),
    "engine without sampling": (
        2,
        ["translate", "{model}", "--engine", "ctranslate2", "--sample"],
    ),
    "engine without constraints": (
        2,
        [
            "translate",
            "{model}",
            "--engine",
            "ctranslate2",
            "--stop-rule",
            "beam_full",
            "--prefix",
            "Le",
        ],
    ),
    "engine without ensembles": (
        2,
        ["translate", "{model}", "--engine", "ctranslate2", "--ensemble", "{model}"],
    ),
    "unknown engine": (2, ["translate", "{model}", "--engine", "fast"]),
    "invalid number": (2, ["translate", "{model}", "--beam-size", "0"]),
}


UNSUPPORTED = {
    "--sample": "its results are different with `sampling`",
    "--prefix": "it does not support prefix, forbidden phrases or glossary",
    "--ensemble": "it does not support ensembles",
}
"""Why ctranslate2 cannot be used with an option."""


@pytest.mark.parametrize(("status", "arguments"), STATUSES.values(), ids=STATUSES)
def test_invalid_options_exit_with_2_missing_files_with_1(
    run, model, tmp_path, status, arguments
) -> None:
    if "ctranslate2" in arguments:
        pytest.importorskip("ctranslate2")
    names = {"none": tmp_path / "none", "model": model}
    done = run(*(each.format(**names) for each in arguments), stdin=b"a\n")
    assert (done.status, done.out) == (status, "")
    if "--device" in arguments:
        assert done.err.startswith("seq2see: `--device` must be available here (auto, cpu")
        assert done.err.endswith("), but is gpu instead\n")
    if "ctranslate2" in arguments:
        reason = next(UNSUPPORTED[each] for each in arguments if each in UNSUPPORTED)
        problem = f"seq2see: `--engine` must be auto or torch, not ctranslate2: {reason}"
        assert problem in done.err
