"""The page in a real headless browser: search, both views, expand, timeline, keyboard, size, hostile words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.core.records import Batch
from proxy.store.rows import write_batch
from proxy.store.sqlite_connection import connect_writer
from tests.bench.export_size import PREFIX, SUFFIX
from tests.proxy.store.rows import (
    make_body,
    make_branch,
    make_exchange,
    make_item,
    make_outcome,
    make_path,
    make_window,
)
from tests.support import builders
from tests.support.audited import WINDOW, _answer, copy_store, fill
from tests.support.serve import Served, served
from tests.support.session import post
from tests.support.upstream import ScriptedUpstream

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no browser here")]

SHOTS = os.environ.get("PAGE_SHOTS", "")
MANY = 10_000
HOSTILE = {
    "script": "<script>window.hit = 1</script>",
    "svg": "<svg onload='window.hit = 1'><animate onbegin=window.hit=1>",
    "image": '"><img src=x onerror="window.hit = 1">',
    "markdown": "[click](javascript:window.hit=1) ![x](https://evil.example/x.png)",
    "template": "{{ 7*7 }} {% raw %} ${window.hit=1}",
    "rtl": "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd",
    "ansi": "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "line": "x" * 300_000,
    "attributes": "hx-get='/ctx/metrics' hx-trigger='load' data-hx-on:load='window.hit=1'",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("page") / "ctx.db"
    fill(db)
    return db


@pytest.fixture
def site(filled: Path, tmp_path: Path) -> Iterator[Served]:
    db = copy_store(filled, tmp_path / "copy")
    models = {"*": {"window": 40_000, "cliff": WINDOW}}
    with ScriptedUpstream(_answer) as up, served(up.base_url, db, models=models) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: faults.append(request.url) if "127.0.0.1" not in request.url else None)
    yield page
    context.close()
    harmless = ("data:", "Failed to load resource: the server responded with a status of 404")
    assert not [fault for fault in faults if not fault.startswith(harmless)]


def shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def open_survey(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/ctx/")
    page.get_by_role("link", name="survey the harbour").first.click()
    page.wait_for_selector(".row")
    page.wait_for_selector("#timeline[data-drawn]")


def test_search_leads_to_the_message(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/ctx/")
    shot(page, "list")
    page.get_by_label("Search").fill("row 4: gauge")
    page.get_by_role("button", name="Show").click()
    hits = page.locator(".hits a")
    assert hits.count() == 1 and "row 4: gauge" in hits.first.inner_text()
    hits.first.click()
    here = page.locator(".row.here")
    here.wait_for()
    assert "row 4: gauge" in here.locator(".side.user pre").inner_text()
    page.goto(f"{site.url}/ctx/?model=other-2")
    assert page.locator("table.conversations tbody tr").count() == 1
    page.goto(f"{site.url}/ctx/?since=noon")
    assert page.get_by_role("alert").count() == 1


def test_both_views_beside_each_other(page: Any, site: Served) -> None:
    open_survey(page, site)
    shot(page, "conversation")
    forms = page.locator(".side.model .form").evaluate_all("all => all.map(e => e.className)")
    assert {"form full", "form folded"} <= set(forms)
    colours = page.locator(".side.model .form").evaluate_all(
        "all => Object.fromEntries(all.map(e => [e.className, getComputedStyle(e).color]))"
    )
    assert len(set(colours.values())) == len(colours)
    folded = page.locator(".row:has(.form.folded)").first
    assert (
        folded.locator(".side.user pre").inner_text()
        and "folded into" in folded.locator(".side.model pre").inner_text()
    )
    form = folded.locator(".form")
    form.hover()
    assert form.locator(".why").is_visible() and len(form.locator(".why").inner_text()) > 3
    assert form.get_attribute("title")


def test_expand_in_place(page: Any, site: Served) -> None:
    open_survey(page, site)
    row = page.locator(".row", has_text="row 0: gauge").first
    id = row.get_attribute("id")
    height = page.locator(f"#{id}").bounding_box()["height"]
    row.get_by_role("button").click()
    page.wait_for_selector(f"#{id}.open")
    assert builders.long_text(0, 2500).strip() in page.locator(f"#{id} .side.user pre").inner_text()
    assert page.locator(f"#{id}").bounding_box()["height"] > height * 1.5
    shot(page, "expanded")
    with page.expect_download() as download:
        page.locator(f"#{id} a", has_text="bytes as they came").click()
    assert Path(download.value.path()).read_text().startswith('{"role":"tool"')


def test_the_timeline_shows_breaks_folds_and_thresholds(page: Any, site: Served) -> None:
    open_survey(page, site)
    box = page.locator("#timeline")
    assert int(box.get_attribute("data-drawn")) >= 10
    marks = page.evaluate("JSON.parse(document.getElementById('timeline').dataset.marks)")
    assert len(marks["folds"]) >= 1 and len(marks["breaks"]) >= 1
    assert {name for name, _ in marks["lines"]} >= {"cliff", "compact_at", "guard"}
    assert page.locator("#timeline canvas").count() == 1 and "billed input" in box.inner_text()
    page.locator("summary").click()
    page.locator("details table a").first.click()
    page.locator("h1", has_text="Window").wait_for()
    assert page.locator("tbody .form").count() > 3
    shot(page, "window")


def test_keyboard(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/ctx/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "move"
    page.keyboard.press("Enter")
    page.wait_for_selector(".row")
    for _ in range(3):
        page.keyboard.press("j")
    page.wait_for_selector(".row.here[data-number='2']")
    page.keyboard.press("k")
    page.wait_for_selector(".row.here[data-number='1']")
    page.keyboard.press("e")
    page.wait_for_selector(".row.open.here")


def test_live_updates_keep_the_focus(page: Any, site: Served) -> None:
    page.goto(f"{site.url}/ctx/")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.id")
    assert post(site, [builders.system(), builders.user("a brand new question")]).status_code == 200
    page.get_by_role("link", name="a brand new question").wait_for(timeout=15_000)
    assert page.evaluate("document.activeElement.id") == focused


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_and_both_schemes(browser: Any, site: Served, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    open_survey(page, site)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sides = [page.locator(f".row .side.{name}").first.bounding_box() for name in ("user", "model")]
    assert sides[1]["y"] > sides[0]["y"] and abs(sides[1]["x"] - sides[0]["x"]) < 20
    red = int(page.evaluate("getComputedStyle(document.body).backgroundColor").split("(")[1].split(",")[0])
    assert (red < 80) == (scheme == "dark")
    shot(page, f"narrow-{scheme}")
    context.close()


def many(db: Path) -> None:
    """One conversation of very many messages, the last window holding all of them."""
    bodies = [make_body(f'{{"role":"user","content":"message {n} {"words " * (n % 40)}"}}') for n in range(MANY)]
    items = [
        replace(make_item(f"m{n}", conversation="many", branch="many", text=f"message {n}"), body=body.hash)
        for n, body in enumerate(bodies)
    ]
    ids = [item.id for item in items]
    tail = make_window("w", "e", ids).tail
    entries = tuple(replace(entry, body=body.hash, form=4) for entry, body in zip(tail, bodies, strict=True))
    window = replace(make_window("w", "e", []), branch="many", tail=entries, prefix=PREFIX.hash, suffix=SUFFIX.hash)
    connection = connect_writer(db, "NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    write_batch(connection, Batch(
        bodies=(*bodies, PREFIX, SUFFIX), items=tuple(items), windows=(window,),
        exchanges=(make_exchange("e", conversation="many", branch="many"),), outcomes=(make_outcome("e", cost=0.5),),
        branches=(make_branch("many", conversation="many", path="p", window="w"),),
        paths=(replace(make_path("p", ids), branch="many"),),
    ))  # fmt: skip
    connection.execute("COMMIT")
    connection.close()


def until_rows_are_seen(page: Any) -> None:
    """The page's own rules forbid that a test evaluates texts in it again and again; so this asks from outside."""
    for _ in range(200):
        if page.evaluate(
            "[...document.querySelectorAll('.row')].some(row => { const box = row.getBoundingClientRect();"
            " return box.top < innerHeight && box.bottom > 0; })"
        ):
            return
        page.wait_for_timeout(50)
    raise AssertionError("no row came into view")


def test_ten_thousand_messages_do_not_shift_and_stay_responsive(page: Any, tmp_path: Path) -> None:
    db = tmp_path / "ctx.db"
    many(db)
    with ScriptedUpstream(_answer) as up, served(up.base_url, db) as site:
        page.goto(f"{site.url}/ctx/c/many")
        page.evaluate(
            """() => { window.shift = 0; window.longest = 0;
            const watch = (type, see) =>
              new PerformanceObserver(list => list.getEntries().forEach(see)).observe({type, buffered: true});
            watch('layout-shift', entry => { window.shift += entry.hadRecentInput ? 0 : entry.value; });
            watch('longtask', entry => { window.longest = Math.max(window.longest, entry.duration); }); }"""
        )
        page.wait_for_selector(".row")
        height = page.evaluate("document.documentElement.scrollHeight")
        for share in (0.1, 0.5, 0.9, 1.0, 0.3):
            page.evaluate(f"scrollTo(0, document.documentElement.scrollHeight * {share})")
            until_rows_are_seen(page)
        assert abs(page.evaluate("document.documentElement.scrollHeight") - height) <= 2
        assert page.evaluate("window.shift") < 0.05
        assert page.evaluate("window.longest") < 2000  # a shared machine; a full render of all rows takes far longer
        assert page.evaluate("document.querySelectorAll('.row').length") < 2500
        page.goto(f"{site.url}/ctx/c/many?at=m7321")
        here = page.locator(".row.here")
        here.wait_for()
        assert here.get_attribute("data-number") == "7321" and here.is_visible()
        shot(page, "many")


def test_hostile_words_are_text(page: Any, tmp_path: Path) -> None:
    db = tmp_path / "ctx.db"
    with ScriptedUpstream(_answer) as up, served(up.base_url, db) as site:
        messages = [builders.system(), *(builders.user(text) for text in HOSTILE.values())]
        assert post(site, messages, model="<script>hit()</script>").status_code == 200
        page.goto(f"{site.url}/ctx/")
        page.locator("table.conversations a").first.click()
        page.wait_for_selector(".row")
        text = page.locator("#rows").inner_text()
        for name in ("script", "svg", "image", "markdown", "template", "attributes"):
            assert HOSTILE[name] in text, name
        assert "\x1b" not in text and "␛[31mred" in text and "\u202e" not in text and "שלום" in text
        assert page.evaluate("window.hit === undefined")
        assert page.locator("#rows script, #rows svg, #rows img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        page.goto(f"{site.url}/ctx/?q=<script>window.hit%3D1</script>")
        assert page.evaluate("window.hit === undefined") and page.title() == "undercliff"
        page.goto(f"{site.url}/ctx/c/<script>")
        assert "there is no" in page.content() and page.evaluate("window.hit === undefined")
