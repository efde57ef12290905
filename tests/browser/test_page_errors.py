"""The page when something is not as it was: another model, an answer that fails, an old link."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.serve.api import find_error_code
from seq2see.serve.errors import (
    DirectModelRequired,
    Overloaded,
    ServiceError,
    UnsupportedFileFormat,
)
from seq2see.serve.queued_translator import ENGINE_FAILED_MESSAGE
from seq2see.translator.results import NO_TRANSLATION_MESSAGE

LONG = " ".join(["the old animal didn't cross the wide street because it slept"] * 4)
"""More than the page asks for at once: one layer comes with its scores."""


def test_what_the_model_does_not_have_is_left_out(watched: Any) -> None:
    view = watched()
    page = view.open("intervene", ablate="decoder.1.cross.0,decoder.5.cross.0,encoder.0.self.7")
    page.wait_for_selector('[data-number="after"]')
    assert page.locator('[data-key="reset"]').is_enabled()
    page.go("intervene", scale="decoder.5.cross:2", attention="decoder.5.cross")
    page.until("!document.querySelector('[data-number=after]')")
    assert page.locator('[data-key="scaled"]').input_value() == "decoder.0.cross"
    page.go("attention", text=LONG, layer=5, kind="encoder.self", stage="scores")
    page.wait("attention")
    assert page.locator(".status.error").count() == 0


def test_a_pronoun_that_fails_is_no_longer_worked_on(watched: Any) -> None:
    view = watched()
    view.context.clock.install()
    page = view.open("intervene")
    page.wait("intervene")
    answer = {"status": 429, "json": {"error": "busy"}}
    view.context.route("**/api/v1/explain", lambda route: route.fulfill(**answer))
    page.locator('[data-key="pronoun:sentence_a"]').fill("another animal")
    page.clock.run_for(400)
    page.wait_for_selector(".pronoun .status.error")
    page.clock.run_for(300)
    assert page.locator(".pronoun .status.error").inner_text() == "busy"
    view.errors.clear()  # browsers log every answer with an error's status


def test_curves_go_on_behind_a_failure_and_a_restart(watched: Any) -> None:
    record = {
        "kind": "train",
        "epoch": 0,
        "learning_rate": 0.1,
        "gradient_norm": 1,
        "tokens_per_second": 9,
    }
    first, second, third = ({**record, "update": n, "nll": 9 - n} for n in (1, 2, 3))
    runs: list[Any] = [{"runs": []}, None, {"runs": [{"name": "r", "modified_at": 1}]}]
    logs = [
        {"records": [first, second], "next_offset": 20},
        {"records": [], "next_offset": 20},
        {"records": [third], "next_offset": 10, "truncated": True},
        {"records": [], "next_offset": 10},
    ]

    def listed(route: Any) -> None:
        found = runs.pop(0) if len(runs) > 1 else runs[0]
        route.abort() if found is None else route.fulfill(json=found)

    def grown(route: Any) -> None:
        route.fulfill(json={"name": "r", **(logs.pop(0) if len(logs) > 1 else logs[0])})

    view = watched()
    view.context.clock.install()
    view.context.route("**/api/v1/runs", listed)
    view.context.route("**/api/v1/runs/r?*", grown)
    page = view.open("training")
    page.until("document.querySelector('.status').textContent.startsWith('No training runs')")
    page.clock.run_for(3000)
    page.wait_for_selector(".status.error")
    page.clock.run_for(3000)
    page.wait_for_selector('[data-number="update"]')
    assert page.shown("update") == 2
    page.clock.run_for(3000)
    page.until("document.querySelector('[data-number=update]').textContent === '3'")
    kept = page.evaluate(
        "async () => Object.entries((await import('./js/api.js')).usedResponses())"
        ".filter(([name]) => name.startsWith('api/v1/runs/'))"
    )
    assert [(name, len(log["records"])) for name, log in kept] == [("api/v1/runs/r", 1)]
    view.errors.clear()


def test_a_link_says_what_it_leaves_out_by_the_models(watched: Any) -> None:
    page = watched().open("translate")
    page.wait("translate")
    models = [{"source": "en", "target": "de"}, {"source": "de", "target": "fr"}]
    pair = "async ([state, models]) => (await import('./js/service_info.js')).languagePair(state, {models})"
    for state, wanted in [
        ({}, ("en", "de")),
        ({"source": "de"}, ("de", "fr")),
        ({"target": "fr"}, ("de", "fr")),
        ({"source": "auto"}, ("auto", "de")),
        ({"source": "de", "target": "en"}, ("de", "en")),
    ]:
        found = page.evaluate(pair, [state, models])
        assert (found["source"], found["target"]) == wanted


def test_a_link_with_languages_that_are_not_served_shows_them(watched: Any) -> None:
    view = watched()
    page = view.open("translate", source="de", target="fr")
    for name in ("translate", "attention"):
        page.turn_to(name)
        page.wait_for_selector(".status.error")
        chosen = [page.locator(f'select[data-key="{end}"]') for end in ("source", "target")]
        assert [each.input_value() for each in chosen] == ["de", "fr"]
        assert "German" in chosen[0].inner_text()
    view.errors.clear()  # browsers log every answer with an error's status


def test_another_link_brings_its_own_options(watched: Any) -> None:
    page = watched().open("translate", glossary="a=b", beam_size=6)
    page.wait("translate")
    page.go("translate", glossary="c=d", beam_size=7)
    page.until("document.querySelector('.options textarea').value === 'c=d'")
    assert page.locator('.options [data-key="beam_size"]').input_value() == "7"


def test_the_page_asks_for_no_more_than_the_operator_allows(watched: Any) -> None:
    """Else every answer would be a refusal."""
    asked = []

    def narrow(route: Any) -> None:
        search = {"beam_size": 2, "max_beam_size": 3, "max_n_best": 2}
        route.fulfill(json={**route.fetch().json(), "search": search})

    view = watched()
    view.context.route("**/api/v1/models", narrow)
    view.context.on("request", lambda request: asked.append(request.post_data_json))
    page = view.open("translate", beam_size=9)
    page.wait("translate")
    beam = page.locator('.options [data-key="beam_size"]')
    assert [beam.get_attribute(name) for name in ("min", "max")] == ["2", "3"]
    page.go("translate")
    page.until("document.querySelector('.options [data-key=beam_size]').value === '2'")
    page.turn_to("decoding")
    page.wait("decoding")
    assert page.locator('select[data-key="beam_size"]').inner_text().split() == ["1", "2", "3"]
    assert page.locator('select[data-key="beam_size"]').input_value() == "2"
    sizes = [(body.get("beam_size"), body.get("n_best", 1)) for body in asked if body]
    assert set(sizes) == {(3, 2), (None, 2), (2, 1)}


def test_files_are_taken_where_the_service_takes_them(watched: Any) -> None:
    view = watched()
    page = view.open("translate")
    page.wait("translate")
    assert ".srt" in page.locator(".drop").inner_text()

    def without_files(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "filesTranslation": False})

    view.context.route("**/frontend/settings", without_files)
    page = view.open("translate")
    page.wait("translate")
    assert not page.locator(".drop").is_visible()


def test_a_page_that_cannot_be_saved_says_so(watched: Any) -> None:
    view = watched()
    page = view.open("positions")
    page.wait("positions")
    view.context.route("**/js/state.js", lambda route: route.fulfill(status=500))
    page.locator('[data-key="save"]').click()
    page.locator(".notice").wait_for()
    view.errors.clear()


@pytest.mark.parametrize("name", ["toString", "constructor"])
def test_no_view_has_a_name_of_javascript(watched: Any, name: str) -> None:
    page = watched().open(name, lang=name)
    page.wait("translate")


def test_the_service_refuses_in_the_language_of_the_page(watched: Any) -> None:
    view = watched()
    page = view.open("attention", text="x" * 600, lang="zh")
    page.wait_for_selector(".status.error")
    assert page.locator(".status.error").inner_text() == "文本太长：最多 500 个字符。"
    busy = Overloaded("the queue is full", 1.0)
    answer = {"status": busy.status, "json": {"error": str(busy)}, "headers": busy.headers}
    view.context.route("**/api/v1/translate", lambda route: route.fulfill(**answer))
    page.turn_to("translate")
    page.wait_for_selector(".status.error")
    assert "过载" in page.locator(".status.error").inner_text()
    view.errors.clear()


OWN = {
    ENGINE_FAILED_MESSAGE: "翻译失败：模型处理这段文本时出错。",
    NO_TRANSLATION_MESSAGE: "翻译失败：没有以此文本开头的译文。",
    "no text": "翻译失败：no text",
}
REFUSED = {
    DirectModelRequired("one model"): "这需要直接翻译的模型，而这个语言对要经过另一种语言。",
    UnsupportedFileFormat("a format"): "服务不支持这种文件格式。",
    ServiceError("`x` must be a text"): "请求失败：`x` must be a text",
}


def test_a_text_that_failed_says_so_in_the_language_of_the_page(watched: Any) -> None:
    errors = list(OWN)

    def failed(route: Any) -> None:
        (found,) = route.fetch().json()["translations"]
        error = errors.pop(0)
        failure = {"text": "", "error": error, "error_code": find_error_code(error)}
        route.fulfill(json={"translations": [{**found, **failure, "alternatives": []}]})

    view = watched()
    view.context.route("**/api/v1/translate", failed)
    page = view.open("translate", lang="zh", text="")
    for number, words in enumerate(OWN.values()):
        page.go("translate", lang="zh", text=f"the animal {number}")
        page.until("words => document.querySelector('.chip.warn')?.textContent === words", words)


def test_no_refusal_is_in_english_alone(watched: Any) -> None:
    problems = list(REFUSED)

    def refuse(route: Any) -> None:
        problem = problems.pop(0)
        route.fulfill(status=400, json={"error": str(problem)}, headers=problem.headers)

    view = watched()
    view.context.route("**/api/v1/translate", refuse)
    page = view.open("translate", lang="zh", text="")
    for number, words in enumerate(REFUSED.values()):
        page.go("translate", lang="zh", text=f"the animal {number}")
        page.until("words => document.querySelector('.status.error')?.textContent === words", words)
    view.errors.clear()


def test_words_that_the_next_sentence_does_not_have_are_not_hidden(watched: Any) -> None:
    page = watched().open("intervene", mask="decoder.cross:1,8")
    page.wait_for_selector('[data-number="after"]')
    page.locator('[data-key="sentence"]').fill("the animal")
    page.until("location.hash.includes('text=the+animal&')")
    page.wait("intervene")
    page.until("document.querySelectorAll('.chip.removed').length === 1")
    assert page.locator(".status.error").count() == 0
    page.go("intervene", text="the animal", mask="decoder.cross:40")
    page.until("!document.querySelector('[data-number=after]')")
    assert page.locator(".status.error").count() == 0


def test_curves_and_variants_by_the_keyboard(watched: Any) -> None:
    page = watched().open("positions")
    page.wait("positions")
    chart = page.locator(".curves").first
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert chart.get_attribute("aria-valuenow") == "62"
    assert page.locator(".chart output").first.inner_text().startswith("62: ")
    variant = page.locator(".variant .heat").nth(2)
    assert variant.get_attribute("role") == "button"
    variant.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.until("document.querySelectorAll('.variant .heat')[2].ariaPressed === 'true'")


def test_an_experiment_that_takes_too_long_says_how_to_run_it(watched: Any) -> None:
    def long(route: Any) -> None:
        answer = route.fetch().json()
        answer["experiments"][0]["needs_full"] = True
        route.fulfill(json=answer)

    view = watched(390)
    view.context.route("**/api/v1/lab", long)
    page = view.open("lab")
    page.wait("lab")
    assert "seq2see lab run 1 --full" in page.locator("#e1").inner_text()
    assert page.locator('[data-key="run:1"]').count() == 0
    top = "key => document.querySelector(key).getBoundingClientRect().top"
    beside = page.evaluate(top, '[data-key="run:3"]') - page.evaluate(top, "#e3 h2")
    assert abs(beside) < 8, "the button stands under a long title"
