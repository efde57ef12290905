"""The commands translate, evaluate, compare and score, run as a user runs them."""

from __future__ import annotations

import gc
import json
import os
import pty
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from seq2see.cli.resumable_output import OutputTarget, prepare_resumable_output
from seq2see.cli.translate import format_translation_text, translate_lines
from seq2see.data import fables
from seq2see.translator import Translation, TranslationOptions, load

LINES = [
    "The dog sleeps.",
    "",
    "   ",
    "\u2028The\u00a0cat\x0c sat.",
    "🦊 שלום العالم 你好",
    "a " * 3000,
    "no end",
]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "seq2see", *map(str, arguments)]


def test_intervention_without_effect_reports_the_same_translation(run, model) -> None:
    arguments = ["explain", model, "The dog sleeps.", "--layers", "none", "--beam-size", "1"]
    same, other = (run(*arguments, *options).out for options in INTERVENTIONS)
    assert "\nthe same translation\n" in same
    assert "difference:" not in same
    assert "\ndifference: " in other
    assert "the same translation" not in other


INTERVENTIONS = (["--scale-scores", "decoder.0.cross.0=1"], ["--ablate", "decoder.0"])


# --- translate ---


def test_search_option_sets_any_search_field(run, model) -> None:
    limits = ["--search", "length.max_length=3", "--search", "length.max_extra=3"]
    arguments = ["translate", model, "--beam-size", "1", "--json", "--with-scores", *limits]
    record = json.loads(run(*arguments, stdin=b"The dog sleeps.\n").out)
    assert len(record["tokens"]) <= 3


def test_loaded_objects_are_frozen_for_garbage_collection(run, model) -> None:
    run("translate", model, "--beam-size", "1", stdin=b"A dog.\n")
    assert gc.get_freeze_count() > 100_000  # torch alone creates more objects


def test_ensemble_of_one_model_twice_equals_the_model(run, model) -> None:
    single, ensemble = (
        run("translate", model, "--json", *options, stdin=b"The dog sleeps.\nA cat.\n").out
        for options in ([], ["--ensemble", model])
    )
    for one, other in zip(single.splitlines(), ensemble.splitlines(), strict=True):
        assert json.loads(one)["text"] == json.loads(other)["text"]
        assert json.loads(one)["score"] == pytest.approx(json.loads(other)["score"], abs=1e-5)


def test_unused_int8_is_explained(run, model) -> None:
    pytest.importorskip("ctranslate2")
    done = run("translate", model, "--precision", "int8", "--beam-size", "1", stdin=b"A dog.\n")
    assert done.status == 0
    assert "int8 is not used" in done.err


def test_output_has_as_many_lines_as_input(run, model, tmp_path) -> None:
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbf" + text.replace(b"sleeps.\n", b"sleeps.\r\n"))
    from_stdin = run("translate", model, "--beam-size", "1", stdin=text[:-1])
    from_file = run("translate", model, tmp_path / "in.txt", "--beam-size", "1")
    assert from_stdin.status == from_file.status == 0
    assert from_stdin.out == from_file.out
    lines = from_stdin.out.split("\n")
    assert len(lines) == len(LINES) + 1
    assert lines[1:3] == ["", "   "]
    assert lines[0]


def test_invalid_line_does_not_stop_other_lines(run, model) -> None:
    done = run("translate", model, "--beam-size", "1", stdin=b"The dog.\nth\xffe\nThe dog.\n")
    first, second, third, _ = done.out.split("\n")
    assert first == third != ""
    assert second == ""
    assert done.status == 1
    assert "line 2 has no translation: must be UTF-8, but has the byte 0xff at column 3" in done.err
    done = run("translate", model, "--json", "--beam-size", "1", stdin=b"th\xffe\n")
    assert "must be UTF-8" in json.loads(done.out)["error"]


def test_too_long_line_fails_alone(run, model) -> None:
    done = run(
        *("translate", model, "--split", "never", "--beam-size", "1"),
        stdin=b"The dog.\n" + b"a " * 300,
    )
    assert done.status == 1
    assert "line 2 has no translation: a line must have at most 40 tokens" in done.err
    assert done.out.endswith("\n\n")


def test_json_output_equals_library_results(run, model) -> None:
    lines = LINES[:1] + LINES[6:]
    stdin = "\n".join(lines).encode()
    done = run(
        "translate", model, "--json", "--n-best", "2", "--with-scores", "--alignment", stdin=stdin
    )
    expected = load(model).translate(lines, n_best=2, alignment=True, token_scores=True)
    for line, translation in zip(done.out.splitlines(), expected, strict=True):
        record = json.loads(line)
        assert record["text"] == translation.text
        assert record["score"] == pytest.approx(translation.score, abs=1e-4)
        assert [each["text"] for each in record["alternatives"]] == [
            each.text for each in translation.alternatives
        ]
        total = sum(token["log_prob"] for token in record["tokens"])
        assert total == pytest.approx(record["log_prob"], rel=1e-4)
        assert set(record["alignment"][0]) >= {"source_start", "target_end", "weight"}


def test_n_best_and_scores_are_tab_separated_columns(run, model) -> None:
    stdin = b"The dog sleeps.\n\n"
    texts = run("translate", model, "--n-best", "2", stdin=stdin).out.split("\n")
    scored = run("translate", model, "--n-best", "2", "--with-scores", stdin=stdin).out.split("\n")
    assert len(texts) == len(scored) == 3
    best, score = scored[0].split("\t")[1::2], scored[0].split("\t")[::2]
    assert best == texts[0].split("\t")
    assert float(score[0]) >= float(score[1])


def test_sampling_is_determined_by_the_seed(run, model) -> None:
    def sample(seed: str) -> str:
        flags = ("--sample", "--top-k", "9", "--temperature", "1.3", "--seed", seed)
        return run("translate", model, *flags, stdin=b"The dog sleeps.\n" * 3).out

    assert sample("0") == sample("0") != sample("1")
    first, *others, end = sample("0").split("\n")
    assert (others, end) == ([first] * 2, "")


def test_lexical_constraints_are_applied_or_reported(run, model, tmp_path) -> None:
    (tmp_path / "terms.tsv").write_text("# terms\ndog\tchien\n\n", "utf-8")
    stdin = b"The dog sleeps.\n"
    plain = run("translate", model, stdin=stdin).out
    word = plain.split()[0]
    done = run(
        *("translate", model, "--glossary", tmp_path / "terms.tsv", "--prefix", "Voilà"),
        *("--forbidden", word),
        stdin=stdin,
    )
    assert done.out.startswith("Voilà")
    assert "chien" in done.out or "'chien'" in done.err
    assert word not in done.out.split() or repr(word) in done.err


def test_document_keeps_its_markup(run, model, tmp_path) -> None:
    page, out = tmp_path / "page.html", tmp_path / "page.fr.html"
    page.write_text("<p id=a>The <b>dog</b> sleeps.</p><img src=x>", "utf-8")
    done = run("translate", model, page, "-o", out, "--beam-size", "1")
    assert "text units: 1, sentences: 1" in done.err
    assert out.read_text("utf-8").startswith("<p id=a>")
    assert out.read_text("utf-8").endswith("</p><img src=x>")
    assert (done.status, done.out) == (0, "")


# --- files ---


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"The dog sleeps {n}.\n" for n in range(100)), "utf-8")
    return path


class InterruptedTranslator:
    """A translator that is interrupted at a line."""

    def __init__(self, stop: int | None = None) -> None:
        self._stop = stop

    def stream(
        self,
        lines: Iterable[str],
        options: TranslationOptions,
        chunk_size: int | None = None,
    ) -> Iterator[Translation]:
        for number, line in enumerate(lines):
            if number == self._stop:
                raise KeyboardInterrupt
            yield Translation(f"[{line}]", 0.0, 0.0)


@dataclass
class LineTranslation:
    """A call of `translate_lines` on a file, prepared but not started."""

    text: Path
    target: OutputTarget

    @classmethod
    def prepare(
        cls, model: Path, text: Path, output: Path, resume: bool = False
    ) -> LineTranslation:
        return cls(text, prepare_resumable_output(str(text), output, model, {}, resume))

    def run(self, translator: InterruptedTranslator) -> bool:
        return translate_lines(
            translator,  # type: ignore[arg-type]
            str(self.text),
            self.target,
            format_translation_text,
            TranslationOptions(),
        )


@pytest.mark.parametrize("stop", [1, 57, 99])
@pytest.mark.parametrize("is_torn", [False, True], ids=["complete lines", "torn line"])
def test_resume_continues_after_last_complete_line(model, text, tmp_path, stop, is_torn) -> None:
    uninterrupted, out = tmp_path / "uninterrupted.txt", tmp_path / "out.txt"
    LineTranslation.prepare(model, text, uninterrupted).run(InterruptedTranslator())
    with pytest.raises(KeyboardInterrupt):
        LineTranslation.prepare(model, text, out).run(InterruptedTranslator(stop))
    partial = tmp_path / "out.txt.partial"
    assert not out.exists()
    if is_torn:  # as after SIGKILL
        partial.write_bytes(partial.read_bytes()[:-3])
    again = LineTranslation.prepare(model, text, out, resume=True)
    assert again.target.num_finished_lines == stop - is_torn
    again.run(InterruptedTranslator())
    assert out.read_text("utf-8") == uninterrupted.read_text("utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.txt", "uninterrupted.txt"]


def test_resumed_run_remembers_failed_lines(model, text, tmp_path) -> None:
    text.write_bytes(b"one\nt\xffo\nthree\nfour\n")
    out = tmp_path / "out.txt"
    with pytest.raises(KeyboardInterrupt):
        LineTranslation.prepare(model, text, out).run(InterruptedTranslator(3))
    assert not LineTranslation.prepare(model, text, out, resume=True).run(InterruptedTranslator())
    assert len(out.read_text("utf-8").splitlines()) == 4
    assert not (tmp_path / "out.txt.partial.json").exists()


def test_run_stopped_before_first_line_leaves_no_files(model, text, tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        LineTranslation.prepare(model, text, tmp_path / "out.txt").run(InterruptedTranslator(0))
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_resume_requires_same_input_and_settings(run, model, text, tmp_path) -> None:
    out = tmp_path / "out.txt"
    flags = ("translate", model, text, "-o", out)
    partial = tmp_path / "out.txt.partial"
    with pytest.raises(KeyboardInterrupt):
        LineTranslation.prepare(model, text, out).run(InterruptedTranslator(5))
    assert "continue it with --resume, or remove it" in run(*flags).err
    assert f"{partial} was started with other settings" in run(*flags, "--resume").err
    text.write_text("another\n", "utf-8")
    done = run(*flags, "--resume")
    assert done.status == 1
    assert (
        f"{partial} was started with another input and other settings: continue it with" in done.err
    )
    assert len(partial.read_text("utf-8").splitlines()) == 5
    partial.unlink()
    assert run(*flags, "--resume", "--beam-size", "1").status == 0
    assert len(out.read_text("utf-8").splitlines()) == 1


def test_resumed_sampling_gives_the_same_samples(run, model, text, tmp_path) -> None:
    text.write_text("".join(f"The dog sleeps {n}.\n" for n in range(6)), "utf-8")
    flags = ("--sample", "--top-k", "5")
    run("translate", model, text, "-o", tmp_path / "uninterrupted.txt", *flags)
    uninterrupted = (tmp_path / "uninterrupted.txt").read_text("utf-8").splitlines(keepends=True)
    options = TranslationOptions(search={"sampling": {"top_k": 5}})
    settings = {"format": "text", "engine": "auto", "precision": "float32", "ensemble": []}
    settings |= options.model_dump(mode="json")
    target = prepare_resumable_output(str(text), tmp_path / "out.txt", model, settings, False)
    with suppress(KeyboardInterrupt), target.open() as file:
        file.writelines(uninterrupted[:3])
        raise KeyboardInterrupt
    assert run("translate", model, text, "-o", tmp_path / "out.txt", *flags, "--resume").status == 0
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines(keepends=True) == uninterrupted


def test_standard_input_is_translated_to_a_file(run, model, tmp_path) -> None:
    out = tmp_path / "out.txt"
    for _ in range(2):  # the second run replaces the file
        done = run("translate", model, "-o", out, "--beam-size", "1", stdin=b"The dog.\n\n")
        assert (done.status, done.out) == (0, "")
        assert len(out.read_text("utf-8").splitlines()) == 2
    assert run("translate", model, "-o", "/dev/null", stdin=b"The dog.\n").status == 0


def test_named_pipe_is_read_once(run, model, tmp_path) -> None:
    pipe, out = tmp_path / "pipe", tmp_path / "out.txt"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_text, "The dog.\n" * 3, "utf-8")
        assert run("translate", model, pipe, "-o", out, "--beam-size", "1").status == 0
        assert written.result() == 27
    assert len(out.read_text("utf-8").splitlines()) == 3
    assert "can be read only once" in run("translate", model, pipe, "-o", out, "--resume").err


def test_memory_is_independent_of_file_size(model, tmp_path) -> None:
    peaks = []
    for count in (2_000, 40_000):
        (tmp_path / "in.txt").write_text("The dog sleeps.\n" * count, "utf-8")
        work = LineTranslation.prepare(model, tmp_path / "in.txt", tmp_path / f"{count}.txt")
        tracemalloc.start()
        work.run(InterruptedTranslator())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000


def test_interrupt_prints_no_traceback(model, tmp_path) -> None:
    (tmp_path / "in.txt").write_text("The dog sleeps.\n" * 20_000, "utf-8")
    flags = ("translate", model, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    # A background process ignores SIGINT by default.
    interruptible = ["env", "--default-signal=INT", *command(*flags)]
    with subprocess.Popen(interruptible, stderr=subprocess.PIPE, text=True) as running:
        partial = tmp_path / "out.txt.partial"
        wait(lambda: partial.exists() and partial.stat().st_size > 0)
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == f"seq2see: interrupted; --resume continues {partial}\n"
    assert running.returncode == -signal.SIGINT
    assert 0 < partial.read_bytes().count(b"\n") < 20_000


def test_closed_pipe_prints_no_traceback(model, tmp_path) -> None:
    (tmp_path / "in.txt").write_text("The dog sleeps.\n" * 20_000, "utf-8")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    flags = ("translate", model, tmp_path / "in.txt", "--beam-size", "1")
    with subprocess.Popen(command(*flags), **pipes, text=True) as running:  # type: ignore[call-overload]
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1


def test_progress_bar_goes_to_standard_error_only(model, text, tmp_path) -> None:
    """The progress bar goes to standard error, the translations to standard output."""
    terminal, end = pty.openpty()
    flags = ("translate", model, text, "--beam-size", "1")
    with (tmp_path / "out.txt").open("wb") as out:
        done = subprocess.run(command(*flags), stdout=out, stderr=end, check=False)
    os.close(end)
    output = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert "100 lines" in output
    expected = load(model).translate(text.read_text("utf-8").splitlines(), beam_size=1)
    lines = (tmp_path / "out.txt").read_text("utf-8").splitlines()
    assert lines == [translation.text for translation in expected]


def test_typed_line_is_translated_immediately(model) -> None:
    user_end, process_end = pty.openpty()
    flags = ("translate", model, "--beam-size", "1")
    with subprocess.Popen(command(*flags), stdin=process_end, stdout=subprocess.PIPE) as running:
        os.write(user_end, b"The dog.\n")
        assert running.stdout.readline().strip()  # before the end of the input
        os.write(user_end, b"\x04")
    os.close(user_end)
    os.close(process_end)
    assert running.returncode == 0


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- evaluate, compare, score ---


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    cases = fables.load_fables_split("test", short=True)[:60]
    sides = {
        "src.en": [case.source for case in cases],
        "ref.fr": [case.target for case in cases],
        "more.fr": [case.target.replace("Le ", "Un ") for case in cases],
        "good.fr": [case.target.replace("était", "fut") for case in cases],
        "bad.fr": [case.target.replace(" la ", " le ")[:-3] for case in cases],
        "twice.tsv": ["dog\tchien", "# a comment", "dog\tchienne"],
    }
    for name, lines in sides.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return directory


@pytest.mark.parametrize("references", [["ref.fr"], ["ref.fr", "more.fr"]], ids=["one", "two"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([], []),
        (
            ["--tokenize", "none", "--lowercase"],
            ["-tok", "none", "-lc", "--chrf-lowercase"],
        ),
    ],
    ids=["default", "tokenized, lowercase"],
)
def test_scores_equal_sacrebleu(run, files, references, ours, theirs) -> None:
    paths = [files / name for name in references]
    done = run(*("evaluate", files / "bad.fr", "--reference", *paths, "--json"), *ours)
    scores = json.loads(done.out)["scores"]
    sacrebleu = subprocess.run(
        [
            *(sys.executable, "-m", "sacrebleu", *paths, "-i", files / "bad.fr", *theirs),
            *("-m", "bleu", "chrf", "ter", "-f", "json", "-w", "12", "--force"),
            *("--confidence", "--confidence-n", "1000"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SACREBLEU_SEED": "12345"},
    )
    for metric, other in zip(("bleu", "chrf", "ter"), json.loads(sacrebleu.stdout), strict=True):
        assert scores[metric]["value"] == pytest.approx(other["score"], abs=1e-11)
        assert scores[metric]["signature"] == other["signature"]
        low, high = scores[metric]["interval"]
        assert (high - low) / 2 == pytest.approx(other["confidence_var"], abs=1e-4)


def test_evaluate_scores_plots_and_writes_translations(run, model, files, tmp_path) -> None:
    done = run(
        *("evaluate", model, "--test-set", files / "src.en", files / "ref.fr", "--resamples", "20"),
        *("--beam-size", "1", "-o", tmp_path / "out.fr", "--plot", tmp_path / "scores.svg"),
    )
    assert done.status == 0
    assert "60 sentences" in done.out
    assert "|bs:20|" in done.out
    assert "</svg>" in (tmp_path / "scores.svg").read_text("utf-8")
    translated = run("translate", model, files / "src.en", "--beam-size", "1").out
    assert (tmp_path / "out.fr").read_text("utf-8") == translated
    again = run(
        *("evaluate", tmp_path / "out.fr", "--reference", files / "ref.fr"),
        *("--resamples", "20"),
    )
    table = done.out.split("length")[0].split("sentences")[1]
    assert table in again.out


def test_evaluate_reports_pronouns_and_alignment_on_fables(run, model, monkeypatch) -> None:
    load_all = fables.load_fables_split
    monkeypatch.setattr(
        fables, "load_fables_split", lambda split, short=False: load_all(split, short)[:60]
    )
    arguments = ["evaluate", model, "--test-set", "builtin:fables-short/test", "--beam-size", "1"]
    arguments += ["--metric", "exact", "--resamples", "0"]
    report = json.loads(run(*arguments, "--json").out)
    ambiguous = [
        f
        for f in fables.load_fables_split("test", True)
        if f.pronoun and f.pronoun.contrastive_pair
    ]
    assert list(report["scores"]) == ["exact"]
    assert report["pronoun_accuracy"]["total"] == len(ambiguous) > 0
    assert report["alignment"]["layer"] == 0
    assert 30 < report["alignment"]["aer"] <= 100
    address = f"decoder.0.cross.{report['alignment']['head']}"  # as in `explain --ablate`
    assert f"Word alignment by the head {address}: AER" in run(*arguments).out


def test_compare_two_translation_files(run, files) -> None:
    systems = files / "bad.fr", files / "good.fr"
    flags = ("--test-set", files / "src.en", files / "ref.fr", "--resamples", "100")
    done = run("compare", *systems, *flags, "--num-examples", "1")
    assert done.status == 0
    assert f"{systems[1]} is better than {systems[0]}: BLEU" in done.out
    assert "{+" in done.out
    assert "[-" in done.out
    record = json.loads(run("compare", *systems, *flags, "--json").out)
    assert record["wins"] > record["losses"]
    assert record["differences"][0]["source"]
    without = run("compare", *systems, "--reference", files / "ref.fr", "--resamples", "100")
    assert without.out.splitlines()[-1] == done.out.splitlines()[-1]


def test_compare_a_system_with_itself(run, files) -> None:
    good = files / "good.fr"
    done = run("compare", good, good, "--reference", files / "ref.fr")
    assert f"; A {good}, B {good}\n" in done.out
    assert f"{good} and {good} translate all 60 sentences the same." in done.out


def test_compare_a_model_with_a_file(run, model, files) -> None:
    flags = ("--test-set", files / "src.en", files / "ref.fr", "--resamples", "50", "--json")
    done = run("compare", model, files / "good.fr", *flags, "--beam-size", "1")
    assert "good.fr is better than" in json.loads(done.out)["verdict"]


def test_score_prints_consistent_text_and_json(run, model, files) -> None:
    both = run("score", model, files / "src.en", files / "ref.fr")
    lines = [
        "\t".join(pair)
        for pair in zip(
            *((files / n).read_text("utf-8").splitlines() for n in ("src.en", "ref.fr")),
            strict=True,
        )
    ]
    piped = run("score", model, "--json", stdin="\n".join(lines).encode())
    assert both.status == piped.status == 0
    for row, line in zip(both.out.splitlines(), piped.out.splitlines(), strict=True):
        record = json.loads(line)
        total, mean, tokens = row.split("\t")
        assert len(record["tokens"]) == int(tokens)
        assert float(total) == pytest.approx(record["log_prob"], abs=1e-3)
        assert float(mean) == pytest.approx(float(total) / int(tokens), abs=1e-3)
        assert sum(token["log_prob"] for token in record["tokens"]) == pytest.approx(
            record["log_prob"], abs=1e-4
        )
    assert "perplexity" in both.err


INVALID_USE = {
    "no model": (["translate", "{f}/none"], 1, "does not exist: give a model directory"),
    "no input file": (["translate", "{m}", "{f}/none"], 1, "none cannot be read: No such file or"),
    "input is a directory": (["translate", "{m}", "{f}"], 1, "cannot be read: Is a directory"),
    "output is a directory": (
        ["translate", "{m}", "{f}/ref.fr", "-o", "{f}"],
        1,
        "it is a directory",
    ),
    "output directory is missing": (
        ["translate", "{m}", "{f}/ref.fr", "-o", "{f}/x/y"],
        1,
        "there is no directory",
    ),
    "several problems": (
        ["translate", "{m}", "--beam-size", "0", "--top-k", "3", "--alignment", "--resume"],
        2,
        "`--resume` needs a text file as INPUT, and --output; `--alignment` needs --json; "
        "`--top-k` needs --sample; `--beam-size` must be at least 1, but is 0 instead",
    ),
    "repeated term": (
        ["translate", "{m}", "--glossary", "{f}/twice.tsv"],
        2,
        "line 3 repeats the term 'dog' of line 1",
    ),
    "setting without value": (
        ["translate", "{m}", "--search", "beam=5", "--search", "length"],
        2,
        "`--search length` must be KEY=VALUE",
    ),
    "misspelled setting": (
        ["translate", "{m}", "--search", "no_repeat=3"],
        2,
        "did you mean `--search no_repeat_ngram_size`?",
    ),
    "ensemble with ctranslate2": (
        ["translate", "{m}", "--ensemble", "{m}", "--engine", "ctranslate2"],
        2,
        "`--engine` must be auto or torch, not ctranslate2: it does not support ensembles",
    ),
    "invalid glossary": (
        ["translate", "{m}", "--glossary", "{f}/ref.fr"],
        2,
        "must be a term, a tab and",
    ),
    "document without output": (["translate", "{m}", "{f}/a.po"], 2, "`--output` must be given"),
    "document with scores": (
        ["translate", "{m}", "{f}/a.po", "-o", "b.po", "--with-scores"],
        2,
        "`--json`, `--with-scores` and `--n-best` need lines of text, not a document",
    ),
    "nothing to evaluate": (["evaluate"], 2, "SYSTEM must be given"),
    "no test set": (["evaluate", "{m}"], 2, "`--test-set` must be given"),
    "no references": (
        ["evaluate", "{f}/bad.fr"],
        2,
        "`--reference` must be given",
    ),
    "unknown metric": (
        ["evaluate", "{m}", "--test-set", "x", "--metric", "bleurt"],
        2,
        "`--metric` must be one of bleu, chrf, ter or exact, but is 'bleurt' instead",
    ),
    "one file of a test set": (
        ["evaluate", "{m}", "--test-set", "{f}/src.en"],
        2,
        "two text files, or one .tsv",
    ),
    "different number of lines": (
        ["evaluate", "{f}/bad.fr", "--reference", "{f}/short.fr"],
        1,
        "bad.fr must have one line for each of the 1 sentences of short.fr, but has 60 lines",
    ),
    "unsupported figure": (
        ["evaluate", "{m}", "--test-set", "x", "--plot", "a.gif"],
        2,
        "`--plot` must end with one of",
    ),
    "models without test set": (["compare", "{m}", "{m}"], 2, "`--test-set` must be given"),
    "files without references": (
        ["compare", "{f}/bad.fr", "{f}/good.fr"],
        2,
        "`--test-set` or `--reference` must be given",
    ),
    "no columns": (["score", "{m}", "{f}/one.tsv"], 1, "line 1 must have at least 2 columns"),
}


@pytest.mark.parametrize(("arguments", "status", "words"), INVALID_USE.values(), ids=INVALID_USE)
def test_invalid_use_prints_one_line(run, model, files, arguments, status, words) -> None:
    for name in ("short.fr", "one.tsv", "a.po"):
        (files / name).write_text("un\n", "utf-8")
    done = run(*(argument.format(m=model, f=files) for argument in arguments), stdin=b"a\n")
    assert words in done.err
    assert done.status == status
    assert len(done.err.strip().splitlines()) == 1
    assert done.out == ""
