"""The command, Python, the service and documents translate a text in the same way, completely."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest

from seq2see.cli.translate import format_translation_text, translate_lines
from seq2see.documents import translate_document
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.model_registry import ModelRegistry, ServedModel, load_served_model
from seq2see.serve.request_translation import TextTranslationOptions
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext
from seq2see.translator import Translation, TranslationOptions, Translator
from seq2see.translator.placeholders import find_placeholders
from seq2see.translator.text_translation import find_lines

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
OPTIONS = TranslationOptions().with_settings({"beam_size": 2})
ANIMALS = ("dog", "cat", "fox", "bear", "frog", "goat", "ant", "horse", "tortoise", "hedgehog")
LONG_LINE = " ".join(
    f"The {one} {verb} and the {other} runs."
    for one in ANIMALS
    for other in ANIMALS
    for verb in ("sleeps", "sings")
)
TEXTS = {
    "several sentences": "The dog sleeps. The cat runs. The queen was tired.",
    "second sentence needs the first": "Why didn't the bear cross my river? Because it was deep.",
    "bullets": "- The dog sleeps.\n- The cat runs. The queen was tired. A fox.\n  * A fox sings.",
    "numbering": "1. The dog sleeps.\n2) The cat runs.\n(a) The king eats. He is old. It is late.",
    "blank lines": "The dog sleeps.\n\n   \n\nThe cat runs. ",
    "emoji": "The dog sleeps 🐕. The cat runs! 🙂",
    "heading": "# The old castle\n\nThe dog sleeps.",
    "no letters": "123\n---\n???\nThe dog sleeps. 14! The cat runs. $5.00",
    "100,000 characters": (f"{LONG_LINE} " * 20)[:100_000],
    "Chinese": "狐狸跑了。猫睡了。国王累了！",
    "abbreviations": "Dr. Smith paid 3.5 dollars, e.g. for a dog. The cat runs. A fox sings.",
    "quotes": "\"The dog sleeps.\" he said. “The cat runs!” The queen was tired. 'A fox.'",
    "mixed scripts": "The dog sleeps. 狐狸跑了。 Кошка спит. שלום. The cat runs.",
    "placeholder": "Hello {name}, the dog sleeps. The cat %s runs.\n{0}: a fox",
    "URL": "See https://a.org/b?c=d. The cat runs. Mail a.b@c.org now!",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("golden") / "model"
    shutil.copytree(GOLDEN, directory)
    return directory


@pytest.fixture(scope="module")
def service(model: Path) -> Iterator[Service]:
    served = ServedModel("golden", model, *load_served_model(model, "torch"))
    registry = ModelRegistry([served], load_served_model)
    service = Service(ServeConfig(limits=LimitsConfig(characters=200_000)), registry)
    service.start()
    yield service
    service.close()


@pytest.fixture(scope="module")
def translator(service: Service) -> Translator:
    return next(iter(service.models)).translator


@pytest.fixture(scope="module")
def by_python(translator: Translator) -> dict[str, Translation]:
    return dict(zip(TEXTS, translator.translate(list(TEXTS.values()), OPTIONS), strict=True))


def test_command_translates_like_python(translator, by_python, tmp_path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{text}\n" for text in TEXTS.values()), "utf-8")
    assert translate_lines(translator, str(source), target, format_translation_text, OPTIONS)
    expected = "".join(f"{translation.text}\n" for translation in by_python.values())
    assert target.read_text("utf-8") == expected


def test_service_translates_like_python(service, by_python) -> None:
    context, options = RequestContext.with_timeout(500), TextTranslationOptions(OPTIONS)
    results = service.translate(context, list(TEXTS.values()), "en", "fr", options)
    assert {name: result.text for name, result in zip(TEXTS, results, strict=True)} == {
        name: translation.text for name, translation in by_python.items()
    }


@pytest.mark.parametrize("extension", [".txt", ".docx"])
def test_document_is_translated_like_python(extension, translator, by_python, tmp_path) -> None:
    source, target = (tmp_path / f"{name}{extension}" for name in ("in", "out"))
    lines = "\n".join(TEXTS.values()).split("\n")
    if extension == ".docx":
        document = docx.Document()
        for line in lines:
            document.add_paragraph(line)
        document.save(str(source))
    else:
        source.write_text("\n".join(lines), "utf-8")
    report = translate_document(translator, source, target, OPTIONS)
    assert not report.errors
    if extension == ".docx":
        found = [paragraph.text for paragraph in docx.Document(str(target)).paragraphs]
    else:
        found = target.read_text("utf-8").split("\n")
    expected = [line for each in by_python.values() for line in each.text.split("\n")]
    assert found == expected


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_missing(name: str, by_python) -> None:
    text, translation = TEXTS[name], by_python[name]
    assert translation.error is None
    assert translation.text.count("\n") == text.count("\n")
    for start, end in find_placeholders(text):
        assert translation.text.count(text[start:end]) == text.count(text[start:end])
    if find_placeholders(text):
        return  # the offsets of a line whose placeholders were moved are not known
    covered = {i for one in translation.sentences for i in range(one.source_start, one.source_end)}
    letters = {
        line.start + i
        for line in find_lines(text)
        for i, character in enumerate(line.text)
        if character.isalpha()
    }
    assert letters <= covered
    gaps = "".join(character for i, character in enumerate(text) if i not in covered)
    assert not any(map(str.isalpha, gaps.replace("(a)", "")))


def test_sentence_that_needs_another_is_translated_with_it(by_python, translator) -> None:
    translation = by_python["second sentence needs the first"]
    assert len(translation.sentences) == 1
    assert translator.max_sentences_per_line == 2
    assert len(by_python["several sentences"].sentences) == 3
