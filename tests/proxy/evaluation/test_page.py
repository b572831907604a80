"""The page: one file that loads nothing, opened in a real browser; every failed run opens by the keyboard."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.evaluation.page import page
from proxy.evaluation.results import TaskResult
from proxy.evaluation.statistics import summarize
from tests.proxy.evaluation.fakes import FakeTask, result_of

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
SHOTS = os.environ.get("PAGE_SHOTS", "")
HOSTILE = '<script>window.hit = 1</script><img src=x onerror="window.hit=1">{{ 7*7 }}'


def results() -> list[TaskResult]:
    found = [
        result_of(FakeTask(number, "code" if number % 2 else "desk", source), policy, budget)
        for source in ("recorded", "scripted")
        for number in range(8)
        for budget in ("full", "half", "quarter")
        for policy in ("sticky", "last_n", "greedy", "passthrough")
    ]
    item = replace(found[5].missing[0], what=HOSTILE, reason=HOSTILE, item="a" * 400)
    found[5] = replace(found[5], missing=(item,) * 50, error=HOSTILE)
    return found


def test_the_same_results_give_the_same_page() -> None:
    assert page(summarize(results()), results()) == page(summarize(results()), results())


def test_it_loads_nothing_and_takes_no_text_for_markup() -> None:
    whole = page(summarize(results()), results())
    assert not re.search(r"<\w[^>]*\s(src|href)=(?!.data:)|url\(|@import|<script|<img|http://|https://", whole)
    assert "&lt;script&gt;" in whole and "{{ 7*7 }}" in whole
    assert "and 10 more" in whole


def test_nothing_failed() -> None:
    fine = [replace(result, passed=True) for result in results()]
    assert "Every task was passed." in page(summarize(fine), fine)
    assert "Does it help?" in page(summarize([]), [])


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no browser here")
    path = tmp_path / "eval.html"
    path.write_text(page(summarize(results()), results()), encoding="utf-8")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        faults: list[str] = []
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("request", lambda request: faults.append(request.url) if not request.url.startswith("file:") else None)
        tab.goto(path.as_uri())
        yield tab
        browser.close()
        assert not [fault for fault in faults if not fault.startswith("data:")]


@pytest.mark.slow
def test_in_a_browser(opened: Any) -> None:
    assert opened.locator("svg[role=img]").count() == 2 * (4 + 3 + 3)
    boxes = opened.locator("svg[role=img]").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert min(boxes) > 60
    assert opened.locator("polyline").first.evaluate("e => e.getTotalLength()") > 50
    assert opened.locator("table.totals tbody tr").count() == 24
    assert opened.evaluate("window.hit") is None
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if SHOTS:
        opened.screenshot(path=str(Path(SHOTS) / "eval.png"), full_page=True)


@pytest.mark.slow
def test_a_failed_run_is_opened_by_the_keyboard(opened: Any) -> None:
    first = opened.locator("details.failed").first
    assert not first.locator("table").is_visible()
    first.locator("summary").focus()
    opened.keyboard.press("Enter")
    assert first.locator("table").is_visible()
    assert "older than the newest groups" in first.inner_text()


@pytest.mark.slow
def test_dark_and_on_paper_and_narrow(opened: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(ground)
    opened.emulate_media(color_scheme="dark")
    assert opened.evaluate(ground) != light
    opened.emulate_media(media="print", color_scheme="light")
    assert opened.evaluate(ground) == light and len(opened.pdf()) > 10_000
    opened.emulate_media(media="screen")
    opened.set_viewport_size({"width": 390, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
