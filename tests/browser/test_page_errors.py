"""Error handling of the page: failing requests, links to other models, missing parts."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.serve.errors import (
    DirectModelRequired,
    Overloaded,
    ServiceError,
    UnsupportedFileFormat,
)

LONG = " ".join(["the old animal didn't cross the wide street because it slept"] * 4)
"""Longer than the limit for full detail: scores are loaded for one layer."""


def test_unsupported_interventions_of_a_link_are_dropped(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("intervene", ablate="decoder.1.cross.0,decoder.5.cross.0,encoder.0.self.7")
    page.wait_for_selector('[data-number="after"]')
    assert page.locator('[data-key="reset"]').is_enabled()
    page.set_state("intervene", scale="decoder.5.cross:2", attention="decoder.5.cross")
    page.wait_until("!document.querySelector('[data-number=after]')")
    assert page.locator('[data-key="scaled"]').input_value() == "decoder.0.cross"
    page.set_state("attention", text=LONG, layer=5, kind="encoder.self", stage="scores")
    page.wait("attention")
    assert page.locator(".status.error").count() == 0


def test_failed_pronoun_test_shows_its_error(open_browser: Any) -> None:
    view = open_browser()
    view.context.clock.install()
    page = view.open("intervene")
    page.wait("intervene")
    response = {"status": 429, "json": {"error": "busy"}}
    view.context.route("**/api/v1/explain", lambda route: route.fulfill(**response))
    page.locator('[data-key="pronoun:sentence_a"]').fill("another animal")
    page.clock.run_for(400)
    page.wait_for_selector(".pronoun .status.error")
    page.clock.run_for(300)
    assert page.locator(".pronoun .status.error").inner_text() == "busy"
    view.errors.clear()  # browsers log responses with an error status


def test_training_curves_survive_errors_and_restarts(open_browser: Any) -> None:
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

    def list_runs(route: Any) -> None:
        response = runs.pop(0) if len(runs) > 1 else runs[0]
        route.abort() if response is None else route.fulfill(json=response)

    def read_log(route: Any) -> None:
        route.fulfill(json={"name": "r", **(logs.pop(0) if len(logs) > 1 else logs[0])})

    view = open_browser()
    view.context.clock.install()
    view.context.route("**/api/v1/runs", list_runs)
    view.context.route("**/api/v1/runs/r?*", read_log)
    page = view.open("training")
    page.wait_until("document.querySelector('.status').textContent.startsWith('No training runs')")
    page.clock.run_for(3000)
    page.wait_for_selector(".status.error")
    page.clock.run_for(3000)
    page.wait_for_selector('[data-number="update"]')
    assert page.read_number("update") == 2
    page.clock.run_for(3000)
    page.wait_until("document.querySelector('[data-number=update]').textContent === '3'")
    used = page.evaluate(
        "async () => Object.entries((await import('./js/api.js')).usedResponses())"
        ".filter(([name]) => name.startsWith('api/v1/runs/'))"
    )
    assert [(name, len(log["records"])) for name, log in used] == [("api/v1/runs/r", 1)]
    view.errors.clear()


def test_missing_languages_come_from_the_models(open_browser: Any) -> None:
    page = open_browser().open("translate")
    page.wait("translate")
    models = [{"source": "en", "target": "de"}, {"source": "de", "target": "fr"}]
    pair = (
        "async ([state, models]) => "
        "(await import('./js/service_info.js')).languagePair(state, {models})"
    )
    for state, expected in [
        ({}, ("en", "de")),
        ({"source": "de"}, ("de", "fr")),
        ({"target": "fr"}, ("de", "fr")),
        ({"source": "auto"}, ("auto", "de")),
        ({"source": "de", "target": "en"}, ("de", "en")),
    ]:
        languages = page.evaluate(pair, [state, models])
        assert (languages["source"], languages["target"]) == expected


def test_unsupported_languages_of_a_link_are_shown(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("translate", source="de", target="fr")
    for name in ("translate", "attention"):
        page.open_view(name)
        page.wait_for_selector(".status.error")
        fields = [page.locator(f'select[data-key="{end}"]') for end in ("source", "target")]
        assert [each.input_value() for each in fields] == ["de", "fr"]
        assert "German" in fields[0].inner_text()
    view.errors.clear()  # browsers log responses with an error status


def test_options_follow_the_link(open_browser: Any) -> None:
    page = open_browser().open("translate", glossary="a=b", beam_size=6)
    page.wait("translate")
    page.set_state("translate", glossary="c=d", beam_size=7)
    page.wait_until("document.querySelector('.options textarea').value === 'c=d'")
    assert page.locator('.options [data-key="beam_size"]').input_value() == "7"


def test_requests_respect_the_limits_of_the_service(open_browser: Any) -> None:
    bodies = []

    def with_limits(route: Any) -> None:
        search = {"beam_size": 2, "max_beam_size": 3, "max_n_best": 2}
        route.fulfill(json={**route.fetch().json(), "search": search})

    view = open_browser()
    view.context.route("**/api/v1/models", with_limits)
    view.context.on("request", lambda request: bodies.append(request.post_data_json))
    page = view.open("translate", beam_size=9)
    page.wait("translate")
    beam = page.locator('.options [data-key="beam_size"]')
    assert [beam.get_attribute(name) for name in ("min", "max")] == ["2", "3"]
    page.set_state("translate")
    page.wait_until("document.querySelector('.options [data-key=beam_size]').value === '2'")
    page.open_view("decoding")
    page.wait("decoding")
    assert page.locator('select[data-key="beam_size"]').inner_text().split() == ["1", "2", "3"]
    assert page.locator('select[data-key="beam_size"]').input_value() == "2"
    sizes = [(body.get("beam_size"), body.get("n_best", 1)) for body in bodies if body]
    assert set(sizes) == {(3, 2), (None, 2), (2, 1)}


def test_file_upload_is_hidden_without_support(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("translate")
    page.wait("translate")
    assert ".srt" in page.locator(".drop").inner_text()

    def without_files(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "filesTranslation": False})

    view.context.route("**/frontend/settings", without_files)
    page = view.open("translate")
    page.wait("translate")
    assert not page.locator(".drop").is_visible()


def test_failed_save_shows_a_notice(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("positions")
    page.wait("positions")
    view.context.route("**/page.html", lambda route: route.fulfill(status=500))
    page.locator('[data-key="save"]').click()
    page.locator(".notice").wait_for()
    view.errors.clear()


@pytest.mark.parametrize("name", ["toString", "constructor"])
def test_names_of_object_methods_are_not_views(open_browser: Any, name: str) -> None:
    page = open_browser().open(name, lang=name)
    page.wait("translate")


def test_errors_of_the_service_are_localized(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("attention", text="x" * 600, lang="zh")
    page.wait_for_selector(".status.error")
    assert page.locator(".status.error").inner_text() == "文本太长：最多 500 个字符。"
    error = Overloaded("the queue is full", 1.0)
    response = {"status": error.status, "json": {"error": str(error)}, "headers": error.headers}
    view.context.route("**/api/v1/translate", lambda route: route.fulfill(**response))
    page.open_view("translate")
    page.wait_for_selector(".status.error")
    assert "过载" in page.locator(".status.error").inner_text()
    view.errors.clear()


TRANSLATION_ERRORS = {
    "engine_error": "翻译失败：模型处理这段文本时出错。",
    "constraints_unsatisfiable": "翻译失败：没有以此文本开头的译文。",
    None: "翻译失败：no text",
}
REQUEST_ERRORS = {
    DirectModelRequired("one model"): "这需要直接翻译的模型，而这个语言对要经过另一种语言。",
    UnsupportedFileFormat("a format"): "服务不支持这种文件格式。",
    ServiceError("`x` must be a text"): "请求失败：`x` must be a text",
}


def test_errors_of_a_translation_are_localized(open_browser: Any) -> None:
    codes = list(TRANSLATION_ERRORS)

    def failed(route: Any) -> None:
        (translation,) = route.fetch().json()["translations"]
        failure = {"text": "", "error": "no text", "error_code": codes.pop(0)}
        route.fulfill(json={"translations": [{**translation, **failure, "alternatives": []}]})

    view = open_browser()
    view.context.route("**/api/v1/translate", failed)
    page = view.open("translate", lang="zh", text="")
    for number, text in enumerate(TRANSLATION_ERRORS.values()):
        page.set_state("translate", lang="zh", text=f"the animal {number}")
        page.wait_until("text => document.querySelector('.chip.warn')?.textContent === text", text)


def test_errors_of_a_request_are_localized(open_browser: Any) -> None:
    errors = list(REQUEST_ERRORS)

    def fail(route: Any) -> None:
        error = errors.pop(0)
        route.fulfill(status=400, json={"error": str(error)}, headers=error.headers)

    view = open_browser()
    view.context.route("**/api/v1/translate", fail)
    page = view.open("translate", lang="zh", text="")
    for number, text in enumerate(REQUEST_ERRORS.values()):
        page.set_state("translate", lang="zh", text=f"the animal {number}")
        page.wait_until(
            "text => document.querySelector('.status.error')?.textContent === text", text
        )
    view.errors.clear()


def test_masked_words_beyond_a_new_sentence_are_dropped(open_browser: Any) -> None:
    page = open_browser().open("intervene", mask="decoder.cross:1,8")
    page.wait_for_selector('[data-number="after"]')
    page.locator('[data-key="sentence"]').fill("the animal")
    page.wait_until("location.hash.includes('text=the+animal&')")
    page.wait("intervene")
    page.wait_until("document.querySelectorAll('.chip.removed').length === 1")
    assert page.locator(".status.error").count() == 0
    page.set_state("intervene", text="the animal", mask="decoder.cross:40")
    page.wait_until("!document.querySelector('[data-number=after]')")
    assert page.locator(".status.error").count() == 0


def test_charts_and_variants_work_by_keyboard(open_browser: Any) -> None:
    page = open_browser().open("positions")
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
    page.wait_until("document.querySelectorAll('.variant .heat')[2].ariaPressed === 'true'")


def test_run_button_is_beside_a_long_title(open_browser: Any) -> None:
    page = open_browser(390).open("lab")
    page.wait("lab")
    top = "key => document.querySelector(key).getBoundingClientRect().top"
    offset = page.evaluate(top, '[data-key="run:3"]') - page.evaluate(top, "#e3 h2")
    assert abs(offset) < 8, "the button is below a long title"
