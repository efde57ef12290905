"""The parts of the service, each by itself and without HTTP."""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import threading
import time
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seq2see.errors import InputError
from seq2see.serve import lab_runner
from seq2see.serve.auth import ApiKeys, Rates, add_key
from seq2see.serve.config import ServeConfig
from seq2see.serve.errors import Busy, Forbidden, Gone, Invalid, Late, NotFound, SlowDown
from seq2see.serve.file_translation import FileStore, disposition, refuse_bombs, safe_name
from seq2see.serve.inspection import Runs
from seq2see.serve.lab_runner import Laboratory, cards
from seq2see.serve.model_registry import Loaded, Model, Models
from seq2see.serve.monitoring import Journal
from seq2see.serve.queued_translator import ENGINE_FAILED, chained
from seq2see.serve.responses import Json, Latest
from seq2see.serve.service import Service
from seq2see.serve.text_translation import Manner, cut, joined
from seq2see.serve.work_queue import Call, Workers, WorkQueue
from seq2see.text import language_detection
from seq2see.text.language_detection import Detection
from seq2see.text.languages import match, name
from seq2see.translator import Flag, Link, Translation, TranslationOptions


class Fake:
    """A translator that writes the name of its target behind each word."""

    def __init__(self, source: str, target: str) -> None:
        self.languages = (source, target)
        counter = SimpleNamespace(encode_batch=lambda lines: [line.split() for line in lines])
        self.bundle = SimpleNamespace(tokenizers=SimpleNamespace(source=counter))
        self.options: list[TranslationOptions] = []

    def translate(self, lines: Sequence[str], options: TranslationOptions) -> list[Translation]:
        self.options.append(options)
        return [self._one(line, options) for line in lines]

    def _one(self, line: str, options: TranslationOptions) -> Translation:
        if "poison" in line:
            raise ValueError(line)
        if "unfit" in line:
            return Translation("", 0.0, 0.0, error="unfit")
        words = [f"{word}-{self.languages[1]}" for word in line.split()]
        links, source, target = [], 0, 0
        for word in line.split():
            size = len(word) + len(self.languages[1]) + 1
            links.append(Link(source, source + len(word), target, target + size, 1.0))
            source, target = source + len(word) + 1, target + size + 1
        found = Translation(" ".join(words), -1.0, -2.0, alignment=tuple(links))
        return replace(found, alternatives=(found,) * (options.search.n_best - 1))


def fake(source: str, target: str) -> Loaded:
    return Loaded(Fake(source, target), Fake(source, target))  # type: ignore[arg-type]


def models(*pairs: str) -> Models:
    made = [Model(pair, Path(pair), *fake(*pair.split("-"))) for pair in pairs]
    return Models(made, lambda _: fake("en", "de"))


@pytest.fixture
def service() -> Any:
    running = Service(ServeConfig(), models("en-de", "fr-en"))
    running.start()
    yield running
    running.close()


# Languages and routes.


@pytest.mark.parametrize(
    ("asked", "known", "meant"),
    [
        ("EN", ["en"], "en"),
        ("en-GB", ["en"], "en"),
        ("zh", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zt", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant", ["zh"], None),
        ("zt", ["en", "zh"], None),
        ("zh-HK", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant-TW", ["zh", "zh-Hant"], "zh-Hant"),
        ("zh-Hans-CN", ["zh"], "zh"),
        ("sr-Latn", ["sr"], "sr"),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pt", ["pt", "pt-BR"], "pt"),
        ("zz", ["en", "de"], None),
        ("", ["en"], None),
        ("pt-AO", ["pt-PT", "pt-BR"], None),
    ],
)
def test_codes_as_clients_write_them(asked: str, known: list[str], meant: str | None) -> None:
    assert match(asked, known) == meant


def test_names() -> None:
    assert [name(code) for code in ("de", "pb", "xx")] == ["German", "Portuguese (Brazil)", "xx"]


def test_routes_are_direct_or_through_one_language() -> None:
    known = models("fr-en", "fr-it", "it-de", "en-de", "de-nl")
    assert known.route("fr", "en").via == []  # type: ignore[union-attr]
    assert known.route("FR", "de").via == ["en"]  # type: ignore[union-attr]
    assert known.route("fr", "nl") is None
    assert known.route("de", "de").legs == ()  # type: ignore[union-attr]
    assert known.targets("fr") == ["fr", "it", "en", "de"]


def test_a_model_within_one_language_is_asked() -> None:
    known = models("en-en", "en-de")
    assert [leg.name for leg in known.route("en", "en").legs] == ["en-en"]  # type: ignore[union-attr]
    assert known.route("de", "de").legs == ()  # type: ignore[union-attr]


def test_a_direct_model_goes_before_a_chain() -> None:
    known = models("fr-en", "en-de", "fr-de")
    assert [leg.name for leg in known.route("fr", "de").legs] == ["fr-de"]  # type: ignore[union-attr]


def test_models_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / side / "model" for side in "abc"]
    found = Models.load(folders, lambda _: fake("en", "de"))
    assert [model.name for model in found] == ["model", "model-2", "model-3"]


# Translators behind the queue.


def chain(service: Service, source: str, target: str, **options: Any) -> Any:
    route = service.models.route(source, target)
    assert route is not None
    return chained(route, service.queue, Call.within(10, "a"), **options)


def test_a_chain_says_what_both_models_said(service: Service) -> None:
    line = "le chat dort"
    found = chain(service, "fr", "de").translate([line], alignment=True)[0]
    assert found.text == "le-en-de chat-en-de dort-en-de"
    words = {
        (line[link.source_start : link.source_end], found.text[link.target_start : link.target_end])
        for link in found.alignment
    }
    assert words == {("le", "le-en-de"), ("chat", "chat-en-de"), ("dort", "dort-en-de")}


def test_only_the_last_model_hears_of_prefix_and_alternatives(service: Service) -> None:
    chain(service, "fr", "de").translate(["a"], prefix="Ein", n_best=2, beam_size=4)
    first, second = (service.models.named(n).translator.options[-1] for n in ("fr-en", "en-de"))  # type: ignore[union-attr]
    assert (first.prefix, first.search.n_best, first.search.beam_size) == ("", 1, 4)
    assert (second.prefix, second.search.n_best) == ("Ein", 2)


@pytest.mark.parametrize(("beam_size", "cost"), [(1, 3), (5, 3), (20, 12)])
def test_a_wide_beam_costs_more(service: Service, beam_size: int, cost: int) -> None:
    costs: list[int] = []
    entered = service.queue._enter

    def enter(*given: Any) -> Any:
        costs.extend(given[-1])
        return entered(*given)

    service.queue._enter = enter  # type: ignore[method-assign]
    route = service.route("en", "de")
    service.translator(route, Call.within(9)).translate(["two words"], beam_size=beam_size)
    assert costs == [cost]


def test_a_glossary_cannot_go_through_another_language(service: Service) -> None:
    with pytest.raises(Invalid, match="direct model"):
        chain(service, "fr", "de").translate(["a"], glossary={"chat": "Katze"})


def test_poison_and_misfits_are_errors_of_their_own_lines(service: Service) -> None:
    failures: list[BaseException] = []
    found = chain(service, "fr", "de", on_error=failures.append).translate(
        ["a b", "poison", "unfit", "c"]
    )
    assert [t.text for t in found] == ["a-en-de b-en-de", "", "", "c-en-de"]
    assert [t.error for t in found] == [None, ENGINE_FAILED, "unfit", None]
    assert len(failures) == 1


def test_a_file_waits_while_the_queue_is_full() -> None:
    queue = WorkQueue(8, 8)
    route = models("en-de").route("en", "de")
    workers = Workers(queue)
    assert route is not None
    patient = chained(route, queue, Call.within(20, "file"), patient=True)
    lines = [f"line {n}" for n in range(600)]
    assert [t.text for t in patient.translate(lines)] == [f"line-de {n}-de" for n in range(600)]
    workers.stop(5)


# Texts.


@given(st.text(st.sampled_from("ab-*• \t\r\n\u2028."), max_size=60))
def test_lines_put_back_are_the_text(text: str) -> None:
    lines = cut(text, "en")
    assert all(text[line.start : line.end] == line.text for line in lines)
    assert joined(text, lines, [Translation(line.text, 0, 0) for line in lines]).text == text


def test_lines_keep_their_white_space_bullets_and_places(service: Service) -> None:
    text = "  - one two\r\n\n\tthree \n"
    (found,) = service.translate(
        Call.within(9), [text], "en", "de", Manner(TranslationOptions(alignment=True))
    )
    assert found.translation.text == "  - one-de two-de\r\n\n\tthree-de \n"
    for link in found.translation.alignment:
        word = text[link.source_start : link.source_end]
        assert found.translation.text[link.target_start : link.target_end] == f"{word}-de"


def test_alternatives_and_flags_of_lines_become_those_of_the_text() -> None:
    one = Translation("A", -1, -1, (Translation("B", -2, -2),), flags=(Flag.LONG,))
    two = Translation("C", -3, -3, flags=(Flag.SHORT, Flag.LONG), unmet=("x",))
    found = joined("a\nc", cut("a\nc", "en"), [one, two])
    assert (found.text, found.log_prob, found.score) == ("A\nC", -4, -2)
    assert [other.text for other in found.alternatives] == ["B\nC"]
    assert found.flags == (Flag.SHORT, Flag.LONG)
    assert found.unmet == ("x",)


@pytest.mark.parametrize("text", ["Hi {name}!", "See https://a.b/c?d=e now", "%s of %d"])
def test_placeholders_survive(service: Service, text: str) -> None:
    class Careless(Fake):
        def _one(self, line: str, options: TranslationOptions) -> Translation:
            return super()._one(line.replace("{", "").replace("%", "").replace("/", ""), options)

    service.models.named("en-de").translator = Careless("en", "de")  # type: ignore[union-attr]
    (found,) = service.translate(Call.within(9), [text], "en", "de", Manner(TranslationOptions()))
    for placeholder in ("{name}", "https://a.b/c?d=e", "%s", "%d"):
        assert found.translation.text.count(placeholder) == text.count(placeholder)


def test_a_mixed_batch_is_detected_line_by_line(service: Service) -> None:
    texts = [
        "The weather is very nice today, is it not?",
        "Il fait très beau aujourd'hui, n'est-ce pas ?",
        "My neighbours have got a new car.",
    ]
    found = service.translate(Call.within(9), texts, "auto", "de", Manner(TranslationOptions()))
    assert [answer.route.source for answer in found] == ["en", "fr", "en"]
    assert [answer.route.via for answer in found] == [[], ["en"], []]
    assert all(answer.detected.confidence > 0.5 for answer in found)  # type: ignore[union-attr]


def test_detection_knows_only_what_is_loaded() -> None:
    two = Detection(["en", "de"])
    assert two.best("Das ist ein Haus.").language == "de"
    assert {guess.language for guess in two.guesses("C'est une maison.")} <= {"en", "de"}
    assert two.best("123 !?").confidence == 0
    assert Detection(["xx", "en"]).best("Das ist ein Haus.").language == "xx"


def test_detection_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_detection, "is_installed", lambda: False)
    with pytest.raises(InputError, match=r"pip install 'seq2see\[serve\]'"):
        Detection(["en", "de"])


def test_a_slow_reader_gets_the_newest_text_and_no_pile() -> None:
    async def read() -> list[str | None]:
        latest = Latest()

        def write() -> None:
            for number in range(1000):
                latest.put(str(number))

        await asyncio.to_thread(write)
        first = await latest.take()
        latest.put("last")
        await latest.wait()
        latest.close()
        return [first, await latest.take(), await latest.take()]

    with ThreadPoolExecutor(1) as own:  # Playwright leaves a loop running in the main thread
        assert own.submit(asyncio.run, read()).result() == ["999", "last", None]


# Keys and rates.


def test_keys_are_kept_as_hashes(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice, bob = add_key(path, "alice"), add_key(path, "bob")
    assert alice not in path.read_text("utf-8")
    assert path.stat().st_mode & 0o077 == 0
    keys = ApiKeys(path)
    assert [keys.owner(key)[0] for key in (alice, bob)] == ["alice", "bob"]  # type: ignore[index]
    for wrong in (None, "", "x", alice + "x", "\ud800", "é"):
        with pytest.raises(Forbidden):
            keys.owner(wrong)
    with pytest.raises(InputError, match="alice already"):
        add_key(path, "alice")
    with pytest.raises(InputError, match="letters"):
        add_key(path, "x]\nsha256='0'")


def test_time_does_not_tell_how_much_of_a_key_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it is, every hash is looked at, by a comparison that goes to its end."""
    keys = tmp_path / "keys.toml"
    first, *_ = (add_key(keys, name) for name in ("alice", "bob", "carol"))
    compared: list[str] = []
    equal = hmac.compare_digest

    def noting(ours: str, theirs: str) -> bool:
        compared.append(theirs)
        return equal(ours, theirs)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    known = ApiKeys(keys)
    known.owner(first)
    assert len(set(compared)) == 3
    with pytest.raises(Forbidden):
        known.owner("x")
    assert len(compared) == 6


def test_a_key_goes_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice = add_key(path, "alice")
    path.write_text(path.read_text("utf-8").rstrip(), "utf-8")
    bob = add_key(path, "bob")
    assert [ApiKeys(path).owner(key)[0] for key in (alice, bob)] == ["alice", "bob"]  # type: ignore[index]


def test_a_key_that_is_taken_out_of_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice = add_key(path, "alice")
    keys = ApiKeys(path)
    path.write_text("", "utf-8")
    keys.refresh()
    with pytest.raises(Forbidden):
        keys.owner(alice)


@pytest.mark.parametrize("text", ["[a]\nsha256 = 'xyz'", "[a]\nkey = 'open'", "nonsense", "\xff"])
def test_a_file_that_holds_no_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, "latin-1")
    with pytest.raises(InputError, match="file of keys"):
        ApiKeys(path)


def test_rates_fill_up_again_and_are_each_client_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("seq2see.serve.auth.time.monotonic", lambda: now)
    rates = Rates(3)
    for _ in range(3):
        rates.spend("a")
    with pytest.raises(SlowDown) as refused:
        rates.spend("a")
    assert refused.value.headers == {"X-Reason": "rate", "Retry-After": "20"}
    rates.spend("b")
    rates.spend("a", 0)  # a key without a rate
    now += 20
    rates.spend("a")
    with pytest.raises(SlowDown):
        rates.spend("a")


def test_rates_of_many_clients_take_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.serve.auth._MOST_CLIENTS", 3)
    rates = Rates(1)
    for client in "abcd":
        rates.spend(client)
    assert list(rates._buckets) == ["b", "c", "d"]


# Files.


def test_names_of_others_become_no_paths() -> None:
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("C:\\x\\report.docx") == "report.docx"
    assert safe_name('a"\r\nSet-Cookie: b.txt') == "a_Set-Cookie_ b.txt"
    assert safe_name("...") == "file"
    assert safe_name("数据.txt") == "数据.txt"
    assert disposition('a"\r\nb') == "attachment; filename*=utf-8''a%22%0D%0Ab"


def test_a_result_is_found_only_by_the_name_that_it_was_given(tmp_path: Path) -> None:
    store = FileStore(60, 1000)
    name = store.keep(b"text", "report.txt")
    (store.folder / "other.txt").write_bytes(b"secret")
    assert store.find(name).path.read_bytes() == b"text"
    for wrong in ("other.txt", f"../{store.folder.name}/{name}", f"./{name}", "", "/etc/passwd"):
        with pytest.raises(NotFound):
            store.find(wrong)
    odd = store.keep(b"", "x./../../y")
    assert (store.folder / odd).parent == store.folder
    assert store.keep(b"", "x.t\r\nt").isalnum()  # it becomes a part of an address
    store.close()
    assert not store.folder.exists()


def test_results_go_when_their_time_or_their_room_is_over() -> None:
    store = FileStore(0.05, 1000)
    name = store.keep(b"text", "a.txt")
    time.sleep(0.1)
    with pytest.raises(NotFound):
        store.find(name)
    assert list(store.folder.iterdir()) == []
    room = FileStore(60, 10)
    first, second = room.keep(b"x" * 8, "a.txt"), room.keep(b"y" * 8, "b.txt")
    with pytest.raises(NotFound):
        room.find(first)
    assert room.find(second)
    store.close()
    room.close()


def zipped(size: int, members: int = 1) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(members):
            archive.writestr(f"{number}.xml", b"0" * size)
    return buffer.getvalue()


def test_archives_that_unpack_to_too_much_are_refused() -> None:
    refuse_bombs(zipped(1000), 1000)
    refuse_bombs(b"no archive", 1)
    for bomb in (zipped(1001), zipped(501, 2), zipped(0, 2001)):
        with pytest.raises(Invalid, match="unpacks"):
            refuse_bombs(bomb, 1000)
    with pytest.raises(Invalid, match="damaged"):
        refuse_bombs(b"x" * 100 + zipped(10)[-22:], 1000)


# Runs and the log.


def test_runs_are_read_while_they_grow(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "no-run").mkdir()
    (tmp_path / "secret.txt").write_text("x", "utf-8")
    log = tmp_path / "one" / "log.jsonl"
    log.write_bytes(b'{"update": 1}\nbroken\n{"update": 2}\n{"upd')
    runs = Runs(tmp_path)
    assert [run["name"] for run in runs.names()] == ["one"]
    first = runs.records("one", 0)
    assert first["records"] == [{"update": 1}, {"update": 2}]
    with log.open("ab") as file:
        file.write(b'ate": 3}\n')
    more = runs.records("one", first["next"])
    assert (more["records"], more["restarted"]) == ([{"update": 3}], False)
    for wrong in ("no-run", "..", "../one", "secret.txt", ""):
        with pytest.raises(NotFound):
            runs.records(wrong, 0)
    assert Runs(None).names() == []


def test_the_name_of_a_run_leads_to_no_other_folder(tmp_path: Path) -> None:
    folder, other = tmp_path / "runs", tmp_path / "other"
    for place in (tmp_path, folder, other):
        place.mkdir(exist_ok=True)
        (place / "log.jsonl").write_text('{"update": 1}\n', "utf-8")
    for wrong in ("", ".", "..", "../other", str(other)):
        with pytest.raises(NotFound):
            Runs(folder).records(wrong, 0)


@pytest.mark.parametrize(
    "log", [b"", b'{"update": 1}\n', b'{"update": 1}\n{"update": 2, "new": 1}\n']
)
def test_a_run_whose_log_was_cut_is_read_from_its_start(tmp_path: Path, log: bytes) -> None:
    """Also where it has grown past the place again."""
    path = tmp_path / "one" / "log.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"update": 1}\n{"update": 2}\n')
    runs = Runs(tmp_path)
    place = runs.records("one", 0)["next"]
    path.write_bytes(log)
    answer = runs.records("one", place)
    assert (answer["restarted"], answer["next"]) == (True, len(log))
    assert len(answer["records"]) == log.count(b"\n")


def test_the_log_holds_no_text_and_one_line_an_event() -> None:
    stream = io.StringIO()
    journal = Journal(stream)
    try:
        int("my secret")
    except ValueError as error:
        journal.error("error", error, key='a\n{"event": "forged"}')
    (line,) = stream.getvalue().splitlines()
    assert "secret" not in line
    assert json.loads(line)["error"] == "ValueError"
    assert "test_parts.py" in json.loads(line)["places"][0]


# The lab.


def test_every_experiment_is_a_card() -> None:
    found = cards()
    assert len({card["number"] for card in found}) == len(found) > 20
    assert all(card["claim"]["en"] and card["claim"]["zh"] for card in found)


def test_an_experiment_runs_once_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, runs = Laboratory(), []
    number = cards()[0]["number"]

    def outcome(_: Call, wanted: int) -> dict[str, Any]:
        runs.append(wanted)
        with pytest.raises(Busy):
            lab.run(Call.within(9), cards()[1]["number"])
        return {"number": wanted}

    monkeypatch.setattr(lab_runner, "_outcome", outcome)
    assert lab.run(Call.within(9), number) == lab.run(Call.within(9), number) == {"number": number}
    assert runs == [number]
    with pytest.raises(NotFound):
        lab.run(Call.within(9), -1)


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_an_experiment_ends_with_its_client_and_its_deadline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    script = tmp_path / "forever.sh"
    script.write_text("#!/bin/sh\nsleep 100 & sleep 100\n", "utf-8")
    script.chmod(0o700)
    monkeypatch.setattr(lab_runner, "sys", SimpleNamespace(executable=str(script)))
    call = Call.within(0.3 if how == "late" else 60)
    if how == "cancelled":
        threading.Timer(0.2, call.cancel).start()
    start = time.monotonic()
    with pytest.raises(Late if how == "late" else Gone):
        Laboratory().run(call, cards()[0]["number"])
    assert time.monotonic() - start < 10


def test_what_is_no_number_becomes_null() -> None:
    body = Json({"a": [1.5, float("nan")], "b": {"c": float("-inf")}, "d": "é"}).body
    assert json.loads(body) == {"a": [1.5, None], "b": {"c": None}, "d": "é"}
