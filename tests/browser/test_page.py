"""The page in a real browser: every view, its numbers, the keyboard, small screens, any text."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlencode

import numpy as np
import pytest
import torch

from seq2see.explain.tensors import unpack
from seq2see.model.positions import Frequencies, WaveLayout, sinusoid

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "the old animal slept because it was wide ."
SHARED = {"text": SENTENCE, "source": "en", "target": "de"}
PAIR = {"source": "en", "target": "de"}
VIEWS = {
    "translate": ".target-text .word",
    "attention": "svg.matrix",
    "decoding": "svg.beam",
    "intervene": ".switch",
    "positions": ".positions .heat",
    "lab": ".experiment",
    "architecture": ".block",
    "training": ".curves",
}
LONG = " ".join(["the old animal didn't cross the wide street because it slept"] * 5)
"""Some 60 tokens."""
TEXTS = {
    "long": LONG,
    "Chinese": "两只狗在草地上奔跑。",
    "right-to-left": "שלום עולם, הכלב רץ",
    "emoji": "the 🐕 slept",
}
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&amp;'


def address(view: str, **names: Any) -> str:
    return f"#{view}?{urlencode({**SHARED, **names})}"


def shown(page: Page, name: str) -> float:
    """Return a number as people read it."""
    text = page.locator(f'[data-number="{name}"]').first.text_content()
    assert text is not None
    return float(text.replace("−", "-").replace("\u202f", ""))


def close(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=0, abs_tol=1e-6)


def until(page: Page, condition: str, arg: Any = None) -> None:
    """Wait for a condition; `wait_for_function` would need `eval`, which the page forbids."""
    for _ in range(400):
        if page.evaluate(condition, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def go(page: Page, hash_: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", hash_)


def wait(page: Page, view: str) -> None:
    page.wait_for_selector(VIEWS[view])
    until(page, "!document.querySelector('.busy')")


# Every view.


@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_is_there_and_none_is_too_wide(watched: Any, width: int) -> None:
    page = watched(width, color_scheme="dark" if width == 390 else "light").open(
        address("translate", text=LONG, lang="zh" if width == 390 else "en")
    )
    for view in VIEWS:
        page.locator(f'.views a[href^="#{view}"]').click()
        wait(page, view)
        assert page.locator("h1").inner_text()
        assert page.locator(".status.error").count() == 0, view
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{view} is {wide} px too wide"


def test_the_address_is_the_state(watched: Any) -> None:
    page = watched().open(
        address("attention", kind="encoder.self", layer=0, head=1, row=2, column=3)
    )
    wait(page, "attention")
    cell = shown(page, "cell")
    page.locator('[data-key="Form:lines"]').click()
    page.wait_for_selector("svg.lines")
    assert "form=lines" in page.url
    page.reload()
    page.wait_for_selector("svg.lines")
    assert shown(page, "cell") == cell
    page.locator('.views a[href^="#decoding"]').click()
    wait(page, "decoding")
    page.go_back()
    page.wait_for_selector("svg.lines")


def test_two_languages_and_two_themes(watched: Any) -> None:
    page = watched(color_scheme="light").open(address("translate"))
    wait(page, "translate")
    title = page.locator("h1").inner_text()
    page.locator('[data-key="Language of the page:zh"]').click()
    page.wait_for_selector("html[lang=zh-Hans]")
    assert page.locator("h1").inner_text() != title
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator('[data-key="theme"]').click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_both_languages_say_everything() -> None:
    folder = Path(__file__).parents[2] / "src/seq2see/serve/page/js"
    said = {}
    for language in ("en", "zh"):
        text = (folder / f"locale/{language}.js").read_text("utf-8")
        pairs = re.findall(r'(?:"([^"]+)"|\b(\w+)): "((?:[^"\\]|\\.)*)"', text)
        said[language] = {a or b: set(re.findall(r"\{\w+\}", c)) for a, b, c in pairs}
    assert said["en"] == said["zh"]
    used = {
        name
        for path in folder.rglob("*.js")
        for name in re.findall(
            r'\bt\("([\w. ]+)"',
            re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE),
        )
    }
    assert used <= set(said["en"])


# Numbers.


def test_numbers_of_the_translation(watched: Any, site: Any) -> None:
    body = {"text": SENTENCE, **PAIR, "n_best": 4, "alignment": True, "token_scores": True}
    answer = site.ask("api/v1/translate", body)["translations"][0]
    page = watched().open(address("translate", word=0))
    page.wait_for_selector(".word-card dl")
    assert close(shown(page, "log_prob"), answer["log_prob"])
    assert close(shown(page, "score"), answer["score"])
    assert page.locator(".target-text").inner_text().strip() == answer["text"].strip()
    first = min(link["target_start"] for link in answer["alignment"])
    end = next(li["target_end"] for li in answer["alignment"] if li["target_start"] == first)
    tokens = [t for t in answer["tokens"] if t["start"] < end and t["end"] > first]
    assert close(shown(page, "word"), math.exp(sum(token["log_prob"] for token in tokens)))


@pytest.fixture(scope="module")
def trace(site: Any) -> Any:
    detail = {"layers": "all", "top": 10}
    return site.ask("api/v1/explain", {"text": SENTENCE, **PAIR, "detail": detail})


@pytest.mark.parametrize("stage", ["weights", "scores"])
def test_numbers_of_attention(watched: Any, trace: Any, stage: str) -> None:
    page = watched().open(address("attention", stage=stage))
    for each in trace["attention"]:
        kind = f"{each['stack']}.{each['kind']}"
        numbers = unpack(each[stage])
        head, row, column = 1, min(4, numbers.shape[1] - 1), 2
        names = {"kind": kind, "layer": each["layer"], "head": head, "row": row, "column": column}
        go(page, address("attention", stage=stage, **names))
        until(
            page,
            "name => document.querySelector('.thumb[aria-pressed=true]')?.ariaLabel === name",
            arg=f"{each['stack']}.{each['layer']}.{each['kind']}.{head}",
        )
        assert close(shown(page, "cell"), float(numbers[head, row, column]))


def test_the_worked_head_comes_to_the_weights_of_the_model(watched: Any, trace: Any) -> None:
    each = next(m for m in trace["attention"] if (m["layer"], m["kind"]) == (1, "cross"))
    query = unpack(each["weights"]).shape[1] - 1
    page = watched().open(address("attention", layer=1, head=1, row=query))
    wait(page, "attention")
    cells = "row => [...row.cells].map(cell => cell.textContent.replaceAll('−', '-'))"
    table = page.locator(".attention .card:last-child table")
    *rows, total = table.locator("tbody tr").evaluate_all(f"rows => rows.map({cells})")
    products = unpack(each["keys"])[1] @ unpack(each["queries"])[1, query]
    for (_, _, product, score, _, weight, _), theirs, scaled, ours in zip(
        rows,
        products,
        unpack(each["scores"])[1, query],
        unpack(each["weights"])[1, query],
        strict=True,
    ):
        assert float(product) == pytest.approx(theirs, abs=1e-3)
        assert float(score) == pytest.approx(theirs * each["scale"], abs=1e-3)
        assert float(score) == pytest.approx(scaled, abs=1e-3)
        assert close(float(weight), float(ours))
    assert close(float(total[5]), 1.0)


def test_words_look_by_the_mean_and_are_looked_at_by_the_sum(watched: Any, trace: Any) -> None:
    each = next(m for m in trace["attention"] if (m["stack"], m["layer"]) == ("encoder", 1))
    words = [token["word"] for token in trace["source"]["tokens"]]
    query, key = 4, 1
    rows = [i for i, word in enumerate(words) if word == query]
    columns = [i for i, word in enumerate(words) if word == key]
    wanted = unpack(each["weights"])[0][np.ix_(rows, columns)].sum(1).mean()
    names = {"unit": "words", "kind": "encoder.self", "layer": 1, "row": query, "column": key}
    page = watched().open(address("attention", **names))
    wait(page, "attention")
    assert close(shown(page, "cell"), float(wanted))


def test_numbers_of_decoding(watched: Any, site: Any) -> None:
    wishes = {"beam_size": 3, "length_penalty": 0.5, "detail": {"layers": "none", "top": 10}}
    trace = site.ask("api/v1/explain", {"text": SENTENCE, **PAIR, **wishes})
    last = len(trace["steps"]) - 1
    page = watched().open(address("decoding", step=last, beam=3, alpha=0.5))
    wait(page, "decoding")
    step = trace["steps"][last]
    for name in ("probability", "log_prob", "entropy"):
        assert close(shown(page, name), step[name]), name
    for candidate in step["top"]:
        assert close(shown(page, f"top:{candidate['id']}"), candidate["probability"])
    assert page.locator("svg.beam .node").count() == len(trace["beam"]["nodes"])
    assert page.locator("svg.beam .node.pruned").count() > 0
    done = [node for node in trace["beam"]["nodes"] if node["fate"] == "finished"][:8]
    for node in sorted(done, key=lambda node: -node["score"])[:3]:
        assert close(shown(page, f"score:{node['id']}"), node["score"])


def test_numbers_of_an_intervention(watched: Any, site: Any) -> None:
    off = {"kind": "heads_off", "stack": "decoder", "layer": 1, "attention": "cross", "heads": [0]}
    hide = {"kind": "hide", "stack": "encoder", "attention": "self", "keys": [1, 2]}
    wishes = {"interventions": [off, hide], "detail": {"layers": "none"}}
    change = site.ask("api/v1/explain", {"text": SENTENCE, **PAIR, **wishes})["change"]
    page = watched().open(address("intervene", off="decoder.1.cross.0", hide="encoder.self:1,2"))
    page.wait_for_selector('[data-number="now"]')
    assert close(shown(page, "before"), change["baseline"]["log_prob"])
    assert close(shown(page, "now"), change["baseline_now"])
    page.locator('[data-key="reset"]').click()
    until(page, "!document.querySelector('[data-number=now]')")


def test_numbers_of_positions(watched: Any) -> None:
    page = watched().open(address("positions"))
    wait(page, "positions")
    for layout, frequencies in itertools.product(get_args(WaveLayout), get_args(Frequencies)):
        waves = sinusoid(torch.arange(64), 32, layout, frequencies)
        for row, column in [(3, 0), (17, 5), (63, 31)]:
            names = {"variant": f"{layout}.{frequencies}", "size": 32, "row": row, "column": column}
            go(page, address("positions", **names))
            until(
                page,
                "text => document.querySelector('.readout').textContent.startsWith(text)",
                f"position {row}, dimension {column} ",
            )
            assert close(shown(page, "position"), float(waves[row, column]))


def test_numbers_of_the_model_itself(watched: Any, site: Any) -> None:
    model = site.ask("api/v1/models/tiny")
    vectors = unpack(site.ask("api/v1/models/tiny/positions")["vectors"])
    view = watched()
    page = view.open(address("architecture"))
    wait(page, "architecture")
    assert shown(page, "parameters") == model["parameters"]
    page.locator('[data-part="decoder.layers.1.cross_attention"]').click()
    until(page, "document.querySelector('.part h2').textContent.endsWith('cross_attention')")
    decoder = next(part for part in model["tree"]["parts"] if part["name"] == "decoder")
    layers = next(part for part in decoder["parts"] if part["name"] == "layers")["parts"]
    cross = next(part for part in layers[1]["parts"] if part["name"] == "cross_attention")
    assert shown(page, "parameters") == cross["parameters"]
    page = view.open(address("positions", row=9, column=4))
    wait(page, "positions")
    assert close(shown(page, "position"), float(vectors[9, 4]))


# Hands.


def test_by_keyboard_alone(watched: Any) -> None:
    page = watched().open("")
    page.wait_for_selector(".source-text")
    page.wait_for_selector('[data-key="source"]')
    focus = "document.activeElement.matches({})"

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(focus.format(repr(selector))):
                return
        raise AssertionError(f"no way to {selector} by the keyboard")

    tab_to(".source-text")
    page.keyboard.type(SENTENCE)
    page.wait_for_selector(".target-text .word")
    tab_to(".target-text .word")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-key^="instead:"]')
    tab_to('[data-key^="instead:"]')
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('prefix=')")
    page.wait_for_selector(".chip.is")
    prefix = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('prefix')")
    assert page.locator(".target-text").inner_text().strip().startswith(prefix.strip())
    page.evaluate("document.querySelector('.brand').focus()")
    tab_to('.views a[href^="#attention"]')
    page.keyboard.press("Enter")
    wait(page, "attention")
    tab_to("svg.matrix")
    before = page.locator(".readout").inner_text()
    page.keyboard.press("ArrowUp")
    until(page, "text => document.querySelector('.readout').innerText !== text", arg=before)
    assert page.evaluate(focus.format("'svg.matrix'")), "the focus was lost"
    page.evaluate("document.querySelector('.brand').focus()")
    tab_to('.views a[href^="#decoding"]')
    page.keyboard.press("Enter")
    wait(page, "decoding")
    tab_to("svg.beam .node")
    page.keyboard.press("ArrowDown")  # hypotheses that lost are reached, too
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('node=')")
    assert page.evaluate(focus.format("'svg.beam .node:not(.path)'"))


def test_a_word_shows_its_source(watched: Any) -> None:
    page = watched().open(address("translate"))
    wait(page, "translate")
    page.locator(".target-text .word").first.hover()
    page.wait_for_selector(".mirror mark")
    assert "%" in page.locator("#tip").inner_text()


def test_the_length_penalty_is_felt_while_it_is_dragged(watched: Any) -> None:
    page = watched().open(address("decoding"))
    wait(page, "decoding")
    slider = page.locator("input[type=range]").nth(1)
    slider.evaluate("input => { input.value = 0; input.dispatchEvent(new Event('input')); }")
    assert "α = 0.00" in page.locator("table").last.inner_text()
    assert "alpha" not in page.url
    slider.dispatch_event("change")
    until(page, "location.hash.includes('alpha=0')")


def test_files(watched: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(SENTENCE + "\n")
    view = watched()
    page = view.open(address("translate"))
    wait(page, "translate")
    page.set_input_files("#files", file)
    link = page.locator(".files a")
    link.wait_for()
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "a.txt"
    assert download.value.path().read_text().strip()
    dropped = page.evaluate_handle(
        "() => { const drop = new DataTransfer(); "
        "drop.items.add(new File(['a'], 'b.xyz')); return drop; }"
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    page.wait_for_selector(".files .error")  # nobody knows such files
    view.errors.clear()  # browsers log every answer with an error's status


# Any text.


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text(watched: Any, text: str) -> None:
    page = watched(390).open(address("translate", text=text))
    wait(page, "translate")
    assert page.locator(".source-text").input_value() == text
    for view in ("attention", "decoding"):
        page.locator(f'.views a[href^="#{view}"]').click()
        wait(page, view)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_no_text(watched: Any) -> None:
    page = watched().open(address("translate", text=""))
    page.wait_for_selector('[data-key="example"]')
    assert page.locator(".target-text .word").count() == 0
    for view in ("attention", "decoding", "intervene"):
        page.locator(f'.views a[href^="#{view}"]').click()
        until(page, "document.querySelector('.sentence .status')?.textContent")
        assert page.locator(".status.error").count() == 0


def test_text_never_becomes_script(watched: Any) -> None:
    view = watched()
    page = view.open(address("translate", text=HOSTILE, prefix="<b>x</b>", glossary="a=<i>b"))
    wait(page, "translate")
    outcome = {
        "number": 1, "status": "met", "seconds": 1, "verdict": "holds", "figures": [],
        "reason": {"en": HOSTILE}, "measurements": [],
    }  # fmt: skip
    outcome["figures"] = [
        {
            "caption": {"en": HOSTILE},
            "svg": {"en": f'<svg xmlns="http://www.w3.org/2000/svg">{HOSTILE}</svg>'},
        }
    ]
    view.context.route("**/api/v1/lab/1", lambda route: route.fulfill(json=outcome))
    for name in ("attention", "intervene", "training", "lab"):
        page.locator(f'.views a[href^="#{name}"]').click()
        wait(page, name)
    page.locator('[data-key="run:1"]').click()
    page.wait_for_selector(".picture img")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main iframe, main img:not(.picture img)").count() == 0
    page = view.open(f"#{HOSTILE}?text=%3Cscript%3E&lang={HOSTILE}")
    page.wait_for_selector("h1")
    assert page.evaluate("window.hacked") is None


def test_what_the_service_refuses_is_told(watched: Any) -> None:
    view = watched()
    page = view.open(address("attention", text="x" * 600))
    page.wait_for_selector(".status.error")
    assert "500" in page.locator(".status.error").inner_text()
    view.errors.clear()  # browsers log every answer with an error's status


def test_a_key_is_asked_for(watched: Any) -> None:
    view = watched()

    def locked(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=403, json={"error": "Please contact the server operator"})

    view.context.route("**/api/v1/*", locked)
    page = view.open(address("decoding"))
    page.locator("input[type=password]").fill("secret")
    page.keyboard.press("Enter")
    wait(page, "decoding")
    assert "secret" not in page.url
    view.errors.clear()  # as above


# The saved file.


TEXTS_OF_A_VIEW = (
    "[...document.querySelectorAll('main :is(h1, h2, td, dd, .word, .output, [data-number])')]"
    ".filter(each => each.checkVisibility() && !each.closest('.drop'))"
    ".map(each => each.textContent).join('|')"
)


def test_every_state_works_from_a_file(watched: Any, tmp_path: Path) -> None:
    page = watched().open(address("translate"))
    offline = watched()
    offline.home = "file:"  # nothing else may be asked for
    for view in VIEWS:
        names = {"off": "decoder.0.cross.1"} if view == "intervene" else {"word": 0}
        go(page, address(view, text=SENTENCE + " </script>", lang="zh", **names))
        wait(page, view)
        if view == "intervene":
            page.wait_for_selector(".pronoun svg")
        with page.expect_download() as download:
            page.locator('[data-key="save"]').click()
        path = tmp_path / f"{view}.html"
        download.value.save_as(path)
        file = offline.open(path.as_uri())
        wait(file, view)
        until(file, f"texts => {TEXTS_OF_A_VIEW} === texts", page.evaluate(TEXTS_OF_A_VIEW))
        assert file.locator(".status.error").count() == 0
        if view == "attention":  # what needs no service works there too
            file.locator(".thumb").first.click()
            until(file, "document.querySelector('.thumb').ariaPressed === 'true'")
