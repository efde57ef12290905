"""HTML, plain text and placeholders, translated by a fake translator with known alignment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from seq2see.documents import (
    TextUnitTranslator,
    UnitIssue,
    translate_document,
    translate_html,
    translate_parsed_document,
)
from seq2see.documents.html_tokenizer import find_attribute_value_spans, tokenize_html
from seq2see.documents.plain_text import parse_plain_text
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.registries import DOCUMENT_EXTENSIONS, DOCUMENT_FORMATS, UNSUPPORTED_EXTENSIONS
from seq2see.search import SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.text.languages import ISO_639_1
from seq2see.translator import (
    AlignmentLink,
    Block,
    SourceText,
    TextTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
    Translator,
)

WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


def translate_text(translator: Any, text: str, options: TranslationOptions | None = None) -> str:
    """Translate the text of a plain text file."""
    unit_translator = TextUnitTranslator(translator, options)
    return translate_parsed_document(parse_plain_text(text), unit_translator).content


class WordTranslator:
    """Translates each word with a function, reorders the words, and returns their alignment."""

    languages = ("en", "fr")

    def __init__(
        self,
        word: Callable[[str], str] = str.upper,
        order: Callable[[int], Sequence[int]] = range,
        *,
        has_alignment: bool = True,
    ) -> None:
        self.word, self.order, self.has_alignment = word, order, has_alignment
        self.calls: list[list[str]] = []

    max_sentences_per_line = 1

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        self.calls.append([block.text for block in blocks])
        return [self.translate_line(block.text) for block in blocks]

    def translate_line(self, line: str) -> Translation:
        if "POISON" in line:
            return Translation("", 0.0, 0.0, error="cannot be read")
        spans = [match.span() for match in WORD.finditer(line)]
        text, links = "", []
        for start, end in (spans[index] for index in self.order(len(spans))):
            word = self.word(line[start:end])
            text += " " if text and word[:1] not in set(".,:!?;") else ""
            links.append(AlignmentLink(start, end, len(text), len(text) + len(word), 1.0))
            text += word
        return Translation(text, -1.0, -1.0, alignment=tuple(links) if self.has_alignment else ())


def translate_lines(
    translator: Any, lines: Sequence[str], options: TranslationOptions | None = None
) -> list[Translation]:
    return TextTranslator(translator, options).translate(list(map(SourceText, lines)))


def reverse_words(count: int) -> Sequence[int]:
    """Reverse the order of the words; the last token, the full stop, stays last."""
    return [*range(count - 2, -1, -1), count - 1]


KEEP_NUMBERS = TranslationOptions(keep_numbers=True)
IDENTITY = WordTranslator(str)
UPPERCASE = WordTranslator()


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("The <b>big</b> dog runs.", "runs dog <b>big</b> The."),
        ("The <b>big dog</b> runs.", "runs <b>dog big</b> The."),
        ("<i>The <b>big</b> dog</i> runs.", "runs <i>dog <b>big</b> The</i>."),
        ("<p><b>The dog runs.</b></p>", "<p><b>runs dog The.</b></p>"),
        ('A <a href="x">red car</a>, a dog.', 'dog a, <a href="x">car red</a> A.'),
        ("A dog<sup>1</sup> runs here.", "here runs dog<sup>1</sup> A."),
        ("Drink H<sub>2</sub>O now.", "now H<sub>2</sub>O Drink."),
        ("The <img src=i> dog runs.", "runs <img src=i> dog The."),
        ("One two. <b>Three four.</b> Five six.", "two One. <b>four Three.</b> six Five."),
        ("One <b>two. Three four</b> five.", "two One. five <b>four Three</b>."),
    ],
)
def test_tags_follow_their_words(html: str, expected: str) -> None:
    assert translate_html(WordTranslator(str, reverse_words), html) == expected


def test_tag_pair_covers_best_matching_range() -> None:
    """ "give up" is split in the translation: the tags stay with the larger part."""
    fake = WordTranslator(str, lambda count: [0, 1, 2, 5, 6, 7, 3, 4, 8][:count])
    html = "They all <b>will give up</b> too the fight soon."
    assert translate_html(fake, html).count("<b>") == 1
    fake = WordTranslator(str, lambda _: [0, 3, 1, 2, 4])
    assert translate_html(fake, "We <b>eat up it</b> all") == "We <b>it eat up</b> all"


def test_sentence_with_tags_is_translated_as_a_whole() -> None:
    fake = WordTranslator()
    translate_html(fake, "<p>The <b>big</b> <i>red</i> dog<br>A cat</p><p>The big red dog</p>")
    assert sorted(line for call in fake.calls for line in call) == ["A cat", "The big red dog"]


@pytest.mark.parametrize(
    "html",
    [
        "<script>var hello = 'a world';</script>",
        "<script><!-- <script> </script> hello world --></script>",
        "<style>p { color: red }</style>",
        "<!-- a comment with words -->",
        "<pre>some code here</pre>",
        '<p translate="no">Keep these words</p>',
        '<p class="a notranslate b">Keep these words</p>',
        "<svg><title>A picture</title><text>words</text></svg>",
        "<textarea>what was typed</textarea>",
        "<noscript><p>no script here</p></noscript>",
        "<p>1 + 1 = 2 &lt; 3</p>",
        "<plaintext>all the rest </plaintext>",
        "<p title='unclosed>words",
        "<!doctype html>",
        "<![CDATA[ words ]]>",
        "<?php echo words ?>",
        "<iframe><p>words</p></iframe>",
        "<title><script>words</script></title>",
    ],
)
def test_untranslated_html_is_copied(html: str) -> None:
    assert translate_html(UPPERCASE, html) == html
    translated = translate_html(UPPERCASE, f"<div>before</div>{html}")
    assert translated == f"<div>BEFORE</div>{html}"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("a &amp; b &lt;i&gt; &copy; d", "A &amp; B &lt; I &gt; © D"),
        ("x < y and <b>z", "X &lt; Y AND <b>Z"),
        ("<p>one<p>two<li>three", "<p>ONE<p>TWO<li>THREE"),
        ("<b>one <i>two</b> three</i>", "<b>ONE <i>TWO</b> THREE</i>"),
        ("</b>one</p>", "</b>ONE</p>"),
        ("<P CLASS=x>one</P >", "<P CLASS=x>ONE</P >"),
        ("<p>\n   one\n   two\n</p>", "<p>\n   ONE TWO\n</p>"),
        ("one <x-y>two</x-y>", "ONE <x-y>TWO</x-y>"),
        ("a<br/>b", "A<br/>B"),
        ("<p translate=no>one<p>two", "<p translate=no>one<p>TWO"),
        ('<code translate="yes">one</code>', '<code translate="yes">ONE</code>'),
        ("", ""),
        ("<", "<"),
        ("</", "</"),
        ("words <", "WORDS &lt;"),
    ],
)
def test_malformed_html_is_translated(html: str, expected: str) -> None:
    assert translate_html(UPPERCASE, html) == expected


def test_readable_attributes_are_translated_and_others_copied() -> None:
    html = (
        """<html lang=en-GB><meta name=description content="a &amp; b">"""
        """<meta name=x content="y z">"""
        """<img alt='two "big" dogs' src="a.png" data-x="one two"><input type=submit value=send>"""
        """<input value=typed placeholder="your name" title=one title=two>"""
        """<a href=x title=''>go</a>"""
    )
    assert translate_html(UPPERCASE, html) == (
        """<html lang="fr"><meta name=description content="A &amp; B"><meta name=x content="y z">"""
        """<img alt='TWO " BIG " DOGS' src="a.png" data-x="one two">"""
        """<input type=submit value="SEND">"""
        """<input value=typed placeholder="YOUR NAME" title="ONE" title=two>"""
        """<a href=x title=''>GO</a>"""
    )


def test_translation_cannot_add_tags() -> None:
    malicious = WordTranslator(
        lambda word: "<script>alert(1)</script>\"'" if word.isalpha() else word
    )
    page = translate_html(malicious, '<p title="one" alt=two>three <b>four</b></p>')
    kinds = [token.name for token in tokenize_html(page) if token.kind in {"start", "end"}]
    assert kinds == ["p", "b", "b", "p"]
    (tag,) = [
        token.raw for token in tokenize_html(page) if token.name == "p" and token.kind == "start"
    ]
    assert [one.name for one in find_attribute_value_spans(tag)] == ["title", "alt"]


def test_inline_code_is_copied_and_moves_with_its_sentence() -> None:
    html = "Call <code class=x>foo()</code> twice now."
    assert translate_html(UPPERCASE, html) == "CALL <code class=x>foo()</code> TWICE NOW."
    moved = translate_html(WordTranslator(str, reverse_words), "Use <code>abc</code> twice now.")
    assert moved == "now twice <code>abc</code> Use."


def test_tags_keep_relative_positions_without_alignment() -> None:
    html = "<b>one</b> two <i>three</i>"
    assert (
        translate_html(WordTranslator(has_alignment=False), html) == "<b>ONE</b> TWO <i>THREE</i>"
    )


def test_deep_and_long_pages_are_translated() -> None:
    deep = "<b>" * 2000 + "word" + "</b>" * 2000
    assert translate_html(UPPERCASE, deep) == deep.replace("word", "WORD")
    flat = "<p>" + "<b>word</b> and <i>" * 500
    assert translate_html(UPPERCASE, flat) == flat.replace("word", "WORD").replace("and", "AND")
    assert translate_html(UPPERCASE, "<code>" * 20_000) == "<code>" * 20_000


PLACEHOLDERS = [
    *("{name}", "{0}", "{}", "{a.b}", "{x!r}", "{x:.2f}", "{{x}}", "{{ a.b }}", "${x}", "#{x}"),
    *("%s", "%d", "%1$s", "%(name)d", "%-5.2f", "%%", "%{x}", "%USER%", "%ld", "%@"),
    *("https://a.org/b?c=d", "www.a.org/x", "a.b@c.org", "{n, plural, one {# dog} other {#}}"),
]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_placeholders_survive_any_model_output(placeholder: str) -> None:
    line = f"The dog {placeholder} runs, and ({placeholder}) barks."
    for fake in (
        IDENTITY,
        UPPERCASE,
        WordTranslator(str, reverse_words),
        WordTranslator(lambda word: word[::-1]),
        WordTranslator(lambda word: word[0] if word.isalpha() else ""),
        WordTranslator(lambda _: "x", has_alignment=False),
        WordTranslator(lambda word: f"{word} {placeholder}"),
    ):
        (translation,) = translate_lines(fake, [line])
        assert translation.text.count(placeholder) == 2, translation.text
        for link in translation.alignment:
            assert 0 <= link.source_start < link.source_end <= len(line)
            assert 0 <= link.target_start < link.target_end <= len(translation.text)


@pytest.mark.parametrize(
    "text", ["50% of it", "100%sure", "a { b }", "50 % done", "if (a) {b c}", "me @ home"]
)
def test_text_without_placeholders_is_translated_once(text: str) -> None:
    fake = WordTranslator()
    translate_lines(fake, [text])
    assert fake.calls == [[text]]


def test_placeholders_are_inserted_next_to_their_neighbors() -> None:
    fake = WordTranslator(lambda word: word.upper() if word.isalpha() else word, reverse_words)
    lines = ["Delete {file} from disk now!", "{count}: files here.", "Hello, {name}!"]
    found = [one.text for one in translate_lines(fake, lines)]
    assert found == ["NOW DISK {file} FROM DELETE!", "{count} HERE FILES:.", ", {name} HELLO!"]


def test_model_that_copies_placeholders_is_called_once() -> None:
    fake = WordTranslator(str)
    fake.translate_line = lambda line: Translation(line.replace("dog", "chien"), -1.0, -1.0)  # type: ignore[method-assign]
    assert translate_lines(fake, ["dog {x}"])[0].text == "chien {x}"
    assert len(fake.calls) == 1


def test_repetitive_translation_with_placeholder_is_rejected() -> None:
    fake = WordTranslator()
    plain = fake.translate_line

    def translate_line(line: str) -> Translation:
        if "{x}" in line:
            return Translation(f"ha ha ha {line}", -1.0, -1.0, flags=(TranslationFlag.REPETITION,))
        return plain(line)

    fake.translate_line = translate_line  # type: ignore[method-assign]
    assert translate_lines(fake, ["a dog {x}"])[0].text == "A DOG {x}"


def test_alternatives_without_placeholder_are_dropped() -> None:
    fake = WordTranslator()
    others = tuple(Translation(text, -2.0, -2.0) for text in ("un {x}", "le x"))
    fake.translate_line = lambda line: Translation(line, -1.0, -1.0, alternatives=others)  # type: ignore[method-assign]
    (found,) = translate_lines(fake, ["a {x}"])
    assert [one.text for one in found.alternatives] == ["un {x}"]


def test_keep_numbers_preserves_numbers() -> None:
    fake = WordTranslator(lambda word: "9" if word.isdigit() else word)
    assert translate_lines(fake, ["7 dogs"])[0].text == "9 dogs"
    assert translate_lines(fake, ["7 dogs"], KEEP_NUMBERS)[0].text == "7 dogs"
    assert translate_text(fake, "7 dogs", KEEP_NUMBERS) == "7 dogs"


def test_source_is_returned_if_model_adds_placeholders() -> None:
    fake = WordTranslator(lambda word: f"%s {word}")
    (found,) = translate_lines(fake, ["a dog"])
    assert (found.text, found.flags) == ("a dog", (TranslationFlag.COPIED_SOURCE,))
    assert translate_lines(WordTranslator(lambda _: "7"), ["seven"], KEEP_NUMBERS)[0].text == "7"


def test_protected_text_is_not_split_into_sentences() -> None:
    html = "Use <code>One. Two</code> here."
    assert translate_html(UPPERCASE, html) == "USE <code>One. Two</code> HERE."
    assert (
        translate_html(WordTranslator(str, reverse_words), html).count("<code>One. Two</code>") == 1
    )


def test_text_keeps_lines_and_white_space() -> None:
    text = "One two.  Three!\r\n\r\n\t- four\n  2) five six\rseven\n\n"
    assert translate_text(UPPERCASE, text) == text.upper()


def test_space_is_added_between_sentences_if_target_needs_it() -> None:
    fake = WordTranslator(lambda word: "dog" if word.isalnum() else ".")
    fake.languages = ("zh", "en")
    assert translate_text(fake, "狗跑了。猫睡了。") == "dog. dog."


def test_different_sentences_are_translated_once_in_one_call(tmp_path: Path) -> None:
    fake = WordTranslator()
    (tmp_path / "a.txt").write_text("One. Two. One.\nTwo.\n")
    report = translate_document(fake, tmp_path / "a.txt", tmp_path / "b.txt")
    assert fake.calls == [["One.", "Two."]]
    assert (report.num_units, report.num_sentences) == (2, 4)


def test_progress_is_reported_in_batches(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    (tmp_path / "a.txt").write_text(
        "".join(f"Line {chr(97 + n % 26) * (n + 1)}\n" for n in range(600))
    )
    translate_document(
        WordTranslator(),
        tmp_path / "a.txt",
        tmp_path / "b.txt",
        on_progress=lambda *now: progress.append(now),
    )
    assert progress == [(256, 600), (512, 600), (600, 600)]


def test_failed_sentence_is_copied_and_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>one POISON two</p>\n<p>three <b>four</b></p>")
    report = translate_document(WordTranslator(), tmp_path / "a.html", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text() == "<p>one POISON two</p>\n<p>THREE <b>FOUR</b></p>"
    assert report.errors == [UnitIssue("line 1", "cannot be read")]


def test_html_units_report_the_line_where_they_start(tmp_path: Path) -> None:
    page = "<p>\n one\n <b>POISON</b>\n two</p>\n<p\n id=x>POISON\n</p><img\nalt=POISON>"
    (tmp_path / "a.html").write_text(page)
    report = translate_document(WordTranslator(), tmp_path / "a.html", tmp_path / "b.html")
    lines = [issue.location for issue in report.errors]
    assert lines == ["line 2", "line 6", "line 7, attribute alt"]


def test_report_lists_flags_and_unmet_constraints(tmp_path: Path) -> None:
    fake = WordTranslator()
    fake.translate_line = lambda line: Translation(
        line, 0, 0, flags=(TranslationFlag.SHORT,), unmet_constraints=("chat",)
    )  # type: ignore[method-assign]
    (tmp_path / "a.txt").write_text("\nA cat.\n")
    report = translate_document(fake, tmp_path / "a.txt", tmp_path / "b.txt")
    assert report.flags == [UnitIssue("line 2", "short")]
    assert report.unmet_constraints == [UnitIssue("line 2", "chat")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfone", b"\xef\xbb\xbfONE"),
        ("né à".encode(), "NÉ À".encode()),
        (b"", b""),
        (b"one\r\ntwo", b"ONE\r\nTWO"),
    ],
)
def test_bom_and_line_ends_are_preserved(content: bytes, expected: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    translate_document(UPPERCASE, tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == expected


def test_html_is_encoded_in_its_declared_charset(tmp_path: Path) -> None:
    page = '<meta charset="iso-8859-1"><p>né</p>'
    fake = WordTranslator(lambda word: f"{word}…‰→")
    (tmp_path / "a.html").write_bytes(page.encode("latin-1"))
    translate_document(fake, tmp_path / "a.html", tmp_path / "b.html")
    expected = '<meta charset="iso-8859-1"><p>né…‰&#8594;</p>'
    assert (tmp_path / "b.html").read_bytes() == expected.encode("windows-1252")


PO_LATIN = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=ISO-8859-1\\n"

msgid "a ÿ"
msgstr ""
""".encode("latin-1")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"one\ntwo \xff", "a.txt, line 2 must be UTF-8, but has the byte 0xff"),
        ("a.txt", "one".encode("utf-16"), "UTF-16"),
        ("a.txt", b"a\0b", "zero bytes"),
        ("a.html", b"<meta charset=klingon>", "declares klingon"),
        ("a.html", b"<meta charset=utf-7>", "declares utf-7"),
        ("a.po", b'"Content-Type: text/plain; charset=hex\\n"', "declares hex"),
        ("a.po", PO_LATIN, "must be UTF-8, because its translation contains 'Ÿ'"),
        ("a.pdf", b"", "plain text and .html, .htm, .srt"),
        ("a.srt", b"no cues here", "no cue"),
        ("a.po", b'msgid "a"\nmsgstr "b', "line 2 must be a line of a PO file"),
        ("a.tmx", b"<tmx><body>", "must be TMX"),
        ("a.xlf", b"<xliff version='3'/>", "XLIFF 1 or 2"),
        ("a.docx", b"PK nonsense", "Word document"),
    ],
)
def test_unreadable_document_raises_one_line_and_writes_nothing(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    target = tmp_path / "out" / name
    target.parent.mkdir()
    target.write_text("as before")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        translate_document(UPPERCASE, tmp_path / name, target)
    assert "\n" not in str(caught.value)
    assert target.read_text() == "as before"
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_target_must_be_writable_and_differ_from_source(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(InputError, match="must not be the source file"):
        translate_document(UPPERCASE, tmp_path / "a.txt", tmp_path / "a.txt")
    with pytest.raises(InputError, match="cannot be read"):
        translate_document(UPPERCASE, tmp_path / "none.txt", tmp_path / "b.txt")
    for target in (tmp_path / "no" / "b.txt", tmp_path):
        with pytest.raises(InputError, match="cannot be written"):
            translate_document(UPPERCASE, tmp_path / "a.txt", target)


def test_interrupt_leaves_no_files(tmp_path: Path) -> None:
    fake = WordTranslator()

    def stop(line: str) -> Translation:
        raise KeyboardInterrupt

    fake.translate_line = stop  # type: ignore[method-assign]
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(KeyboardInterrupt):
        translate_document(fake, tmp_path / "a.txt", tmp_path / "b.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_each_registered_format_has_a_parse_function() -> None:
    modules = [import_module(f"seq2see.documents.{one.module}") for one in DOCUMENT_FORMATS]
    assert all(callable(module.parse) for module in modules)


def test_documentation_lists_each_format() -> None:
    table = Path("docs/documents.md").read_text()
    rows = {line.split("|")[2].strip() for line in table.splitlines() if line.startswith("| ")}
    listed = {extension for row in rows for extension in re.findall(r"`(\.\w+)`", row)}
    assert listed == set(DOCUMENT_EXTENSIONS)


def test_documentation_lists_unsupported_formats() -> None:
    text = Path("docs/documents.md").read_text().split("cannot be read:")[1].split("\n\n")[0]
    assert re.findall(r"`(\.\w+)`", text) == list(UNSUPPORTED_EXTENSIONS)


def test_unsupported_extensions_are_no_language_codes() -> None:
    assert not {one.removeprefix(".") for one in UNSUPPORTED_EXTENSIONS} & ISO_639_1
    assert not {*UNSUPPORTED_EXTENSIONS} & {*DOCUMENT_EXTENSIONS}


@pytest.mark.parametrize("name", ["a.md", "A.CSV", "a.b.tex", "a.md.gz"])
def test_unsupported_format_is_not_translated_as_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("# one\n")
    problem = (
        r"cannot be translated: supported are plain text and \.html, .* but not \.\w+: convert"
    )
    with pytest.raises(InputError, match=problem):
        translate_document(UPPERCASE, tmp_path / name, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a", "a.txt", "a.en", "a.tok", "a.tok.en", "a.1", "train.ps"])
def test_other_extensions_are_plain_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("- one\n")
    translate_document(UPPERCASE, tmp_path / name, tmp_path / "b")
    assert (tmp_path / "b").read_text() == "- ONE\n"


def test_format_name_overrides_extension(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("<b>one</b>")
    translate_document(UPPERCASE, tmp_path / "a.dat", tmp_path / "b.dat", format_name="html")
    assert (tmp_path / "b.dat").read_text() == "<b>ONE</b>"


@pytest.fixture(scope="module")
def untrained() -> Translator:
    """Return a real translator with random weights, whose output is arbitrary."""
    words = permutations(["old", "dog", "cat", "red", "sun"], 3)
    lines = [f"The {a} {b} saw the {c}." for a, b, c in words]
    tokenizers = TokenizerPair.train(lines, lines, TokenizerConfig(vocab_size=290))
    config = ModelConfig(
        vocab_size=290, d_model=32, d_ff=48, heads=2, encoder_layers=1, decoder_layers=2
    )
    engine = TorchEngine(Transformer.from_config(config).eval())
    return Translator(engine, tokenizers, ("en", "fr"), 24)


def test_untrained_model_preserves_structure(untrained: Translator, tmp_path: Path) -> None:
    options = TranslationOptions(search=SearchConfig(beam_size=2))
    page = (
        "<p>The <b>dog</b> and <a href=x>the <i>old</i> cat</a> saw <code>foo()</code><img src=i>."
        " See https://a.org/b?c=d, {name}!</p><script>a < b</script>\n"
    )
    (tmp_path / "a.html").write_text(page * 3)
    report = translate_document(untrained, tmp_path / "a.html", tmp_path / "b.html", options)
    new = (tmp_path / "b.html").read_text()

    def markup(html: str) -> list[str]:
        return sorted(token.raw for token in tokenize_html(html) if token.kind != "text")

    assert markup(new) == markup(page * 3)
    assert (new.count("{name}"), new.count("https://a.org/b?c=d")) == (3, 3)
    assert (report.num_units, report.num_sentences, report.errors) == (3, 6, [])
    (line,) = translate_lines(untrained, ["The {x} dog"], options)
    assert line.text.count("{x}") == 1
