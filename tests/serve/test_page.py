"""The page in a real browser: every part is clicked through, in the light and in the dark, wide and narrow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from tests.serve.conftest import START_US, STATEMENTS, as_columns, trades
from tests.serve.test_folder import until
from tests.spark.log_writing import LogWriter

import panewise
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.folder_source import FolderSource
from panewise.serve.limits import Limits
from panewise.serve.server import running
from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.metrics_file import MetricsFile

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser to test with")

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
if BROWSER is None:
    pytest.skip("there is no Chromium here: install it (apt-get install chromium)", allow_module_level=True)

PICTURES = os.environ.get("PANEWISE_PICTURES")
"""A directory for pictures of each part, to be looked at."""
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, client: Any) -> Iterator[Any]:
    yield from opened(browser, str(client.base_url))


def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.faults = faults
    page.set_default_timeout(15_000)
    page.goto(url)
    yield page
    context.close()


def picture(page: Any, name: str) -> None:
    if PICTURES is not None:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


def push(source: EngineSource, first_s: int, last_s: int) -> None:
    source.push("trades", pa.table(as_columns(trades(first_s, last_s))), None)


def test_queries_with_live_values(page: Any, source: EngineSource) -> None:
    line = page.locator("#list tbody tr", has_text="all_trades")
    playwright.expect(line.locator("td").nth(3)).to_have_text("trades 30")
    source.push("trades", pa.table(as_columns(trades(310, 320) * 5)), None)
    playwright.expect(line.locator("td").nth(3)).to_have_text("trades 34")
    page.locator("#search").fill("lates")
    playwright.expect(page.locator("#list tbody tr")).to_have_count(1)
    page.locator("#search").fill("no such thing")
    playwright.expect(page.locator("#list-empty")).to_be_visible()
    page.locator("#search").fill("")
    page.locator("#list tbody tr", has_text="latest").click()
    playwright.expect(page.locator("#one-name")).to_have_text("latest")
    playwright.expect(page.locator("#rows tbody tr")).to_have_count(3)
    page.locator("#sort").select_option("best")
    best = source.engine.lookup("latest").column("best").to_pylist()
    playwright.expect(page.locator("#rows tbody tr td:last-child").first).to_have_text(f"{max(best):g}")
    page.locator("#descending").uncheck()
    playwright.expect(page.locator("#rows tbody tr td:last-child").first).to_have_text(f"{min(best):g}")
    assert "exact" in page.locator("#one-state").text_content()
    picture(page, "queries")
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator("#drop").click()
    playwright.expect(page.locator("#one")).to_be_hidden()
    assert "latest" not in source.workload.queries
    assert page.faults == []


def test_one_key_over_time(page: Any, source: EngineSource) -> None:
    page.locator("nav a", has_text="Keys").click()
    page.locator("#key-query").fill("latest")
    page.locator("#key-symbol").fill("AB")
    page.locator("#key-form button").click()
    playwright.expect(page.locator("#key-found")).to_be_visible()
    assert page.locator("#key-chart path").get_attribute("d").count("L") > 5
    before = page.locator("#key-rows tbody tr").first.text_content()
    push(source, 310, 400)
    playwright.expect(page.locator("#key-rows tbody tr").first).not_to_have_text(before)
    page.locator("#key-value").select_option("best")
    picture(page, "keys")
    page.locator("#key-chart svg").hover()
    playwright.expect(page.locator("#key-read")).to_contain_text("2026-01-05 ")
    page.locator("#key-symbol").fill("ZZ")
    page.locator("#key-form button").click()
    playwright.expect(page.locator("#key-empty")).to_contain_text("no events")
    # The address has the key: going back shows the one before, and a link to one shows it.
    page.go_back()
    playwright.expect(page.locator("#key-symbol")).to_have_value("AB")
    playwright.expect(page.locator("#key-found")).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#keys/latest/%5B%22CD%22%5D")
    playwright.expect(page.locator("#key-symbol")).to_have_value("CD")
    playwright.expect(page.locator("#key-found")).to_be_visible()
    assert page.faults == []


def test_a_mistake_stays_in_view(page: Any) -> None:
    """The heartbeat does not take it away; what is done next does."""
    page.locator("nav a", has_text="Keys").click()
    page.locator("#key-query").fill("nothing")
    page.locator("#key-form button").click()
    trouble = page.locator("#trouble")
    playwright.expect(trouble).to_have_text("There is no query nothing.")
    with page.expect_response("**/v1/streams"):
        pass
    with page.expect_response("**/v1/streams"):
        pass
    playwright.expect(trouble).to_be_visible()
    page.locator("nav a", has_text="Queries").click()
    playwright.expect(trouble).to_be_hidden()


def test_a_query_that_somebody_else_adds(page: Any, source: EngineSource) -> None:
    playwright.expect(page.locator("#list tbody tr")).to_have_count(4)
    source.add("CREATE QUERY fifth AS SELECT MAX(volume) AS most FROM trades [RANGE 1 MINUTE];")
    playwright.expect(page.locator("#list tbody tr", has_text="fifth")).to_be_visible()


def test_numbers_of_any_size(page: Any, source: EngineSource) -> None:
    event = {**trades(320, 330)[0], "price": 1.25e-5, "volume": 2**60 + 1}
    source.add("CREATE QUERY sizes AS SELECT MIN(price) AS least, MAX(volume) AS most FROM trades [RANGE 1 MINUTE];")
    source.push("trades", pa.table(as_columns([event])), None)
    newest = page.locator("#list tbody tr", has_text="sizes").locator("td").nth(3)
    playwright.expect(newest).to_have_text("least 0.0000125, most 1,152,921,504,606,846,977")


def test_the_plan(page: Any) -> None:
    page.keyboard.press("3")
    playwright.expect(page.locator("#work tbody tr")).to_have_count(1)
    playwright.expect(page.locator("#plan-cost")).to_contain_text("1 execution tree;")
    # The page's policy forbids `wait_for_function`, which evaluates text in the page.
    until(lambda: page.evaluate("document.getElementById('picture').naturalWidth") > 100)
    page.locator("summary").click()
    playwright.expect(page.locator("#plan-more")).to_be_hidden()
    assert "on demand" in page.locator("#plan-text").text_content()
    picture(page, "plan")
    assert page.faults == []


def test_the_health(page: Any, source: EngineSource) -> None:
    page.keyboard.press("4")
    push(source, 310, 400)
    playwright.expect(page.locator("#streams figure")).to_have_count(6)
    source.problem = "the folder is gone"
    playwright.expect(page.locator("#problem")).to_have_text("the folder is gone")
    source.problem = None
    playwright.expect(page.locator("#problem")).to_be_hidden()
    picture(page, "health")
    assert page.faults == []


def test_the_health_of_a_job(browser: Any, folder: Path, tmp_path: Path) -> None:
    LogWriter(folder, panewise.read(STATEMENTS)).run(trades(0, 310))
    sink = MetricsFile(tmp_path / "metrics.jsonl")
    for number in range(5):
        sink.put(BatchMetrics("job", "run", number, START_US + number, 1_000, 500.0 + number, counts={"fed": number}))
    with running(Application(FolderSource(folder, metrics=sink.path), can_add=False)) as url:
        for page in opened(browser, f"{url}/#health"):
            playwright.expect(page.locator("#batches figure").first).to_contain_text("504")
            playwright.expect(page.locator("#job-about")).to_contain_text("batch 4 began 2026-01-05")
            picture(page, "job")
            page.keyboard.press("5")
            playwright.expect(page.locator("#add")).to_be_disabled()
            assert page.faults == []


def test_a_statement_is_tried_and_added(page: Any, source: EngineSource) -> None:
    page.keyboard.press("5")
    page.locator("#statement").fill("CREATE QUERY q AS\n  SELECT SUM(prise) FROM trades [RANGE 1 MINUTE];")
    page.locator("#check").click()
    playwright.expect(page.locator("#mistake-text")).to_contain_text("Line 2, column 14")
    playwright.expect(page.locator("#mistake-hint")).to_contain_text("price")
    selected = page.locator("#statement").evaluate("text => text.value.slice(text.selectionStart, text.selectionEnd)")
    assert selected == "prise"
    picture(page, "try")
    page.locator("#statement").fill("CREATE QUERY q AS SELECT SUM(price) FROM trades [RANGE 1 MINUTE];")
    page.locator("#check").click()
    playwright.expect(page.locator("#verdict")).to_have_text("This is right: it adds q.")
    assert "q" not in source.workload.queries
    page.locator("#add").click()
    playwright.expect(page.locator("#verdict")).to_contain_text("Done: it adds q.")
    assert "q" in source.workload.queries
    assert all("422" in fault for fault in page.faults)


def test_the_keyboard(page: Any) -> None:
    playwright.expect(page.locator("#list tbody tr")).to_have_count(4)
    page.keyboard.press("5")
    page.keyboard.press("/")
    playwright.expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("#list tbody a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#one-name")).to_have_text("latest")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#one")).to_be_hidden()
    page.keyboard.press("5")
    page.locator("#statement").fill("DROP QUERY latest;")
    page.keyboard.press("Control+Enter")
    playwright.expect(page.locator("#verdict")).to_have_text("This is right: it drops latest.")


def test_narrow_and_dark(browser: Any, client: Any) -> None:
    options = {"viewport": {"width": 360, "height": 700}, "color_scheme": "dark"}
    for page in opened(browser, str(client.base_url), **options):
        newest = page.locator("#list tbody tr", has_text="all_trades").locator("td").nth(3)
        playwright.expect(newest).to_have_text("trades 30")
        seen = newest.bounding_box()
        assert seen["x"] + seen["width"] <= 360
        picture(page, "narrow-list")
        page.locator("#list tbody tr", has_text="latest").click()
        playwright.expect(page.locator("#rows tbody tr")).to_have_count(3)
        playwright.expect(page.locator("#one-name")).to_be_in_viewport()
        playwright.expect(page.locator("#rows tbody td", has_text="AB")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert max(red, green, blue) < 60
        picture(page, "narrow")


def test_a_server_that_goes_and_one_that_asks_for_a_token(browser: Any, source: EngineSource) -> None:
    with running(Application(source, token=TOKEN)) as url:
        pages = opened(browser, url)
        page = next(pages)
        playwright.expect(page.locator("#ask-token")).to_be_visible()
        page.locator("#token").fill(TOKEN)
        page.locator("#ask-token button").click()
        playwright.expect(page.locator("#list tbody tr")).to_have_count(4)
    playwright.expect(page.locator("#trouble")).to_contain_text("does not answer")
    picture(page, "offline")
    pages.close()  # type: ignore[attr-defined]


def test_an_empty_server(browser: Any) -> None:
    source = EngineSource(panewise.Engine(STATEMENTS.partition("CREATE QUERY")[0]))
    with running(Application(source)) as url:
        for page in opened(browser, url):
            playwright.expect(page.locator("#list-empty")).to_be_visible()
            playwright.expect(page.locator("#pulse")).to_contain_text("no events yet")
            page.keyboard.press("4")
            playwright.expect(page.locator("#streams h3")).to_have_text("trades")


def test_ten_thousand_queries(browser: Any) -> None:
    few = panewise.read(STATEMENTS)
    many = {f"q{place}": replace(few.queries["all_trades"], name=f"q{place}") for place in range(10_000)}
    workload = replace(few, queries={**few.queries, **many})
    with running(Application(EngineSource(panewise.Engine(workload)))) as url:
        for page in opened(browser, url):
            playwright.expect(page.locator("#found")).to_have_text("1 to 25 of 10,004")
            page.locator("#after").click()
            playwright.expect(page.locator("#found")).to_have_text("26 to 50 of 10,004")
            page.locator("#search").fill("q9999")
            playwright.expect(page.locator("#found")).to_have_text("1 to 1 of 1")
            page.locator("nav a", has_text="Plan").click()
            page.locator("summary").click()
            playwright.expect(page.locator("#plan-more")).to_contain_text("Show more")
            left = page.locator("#plan-more").text_content()
            page.locator("#plan-more").click()
            playwright.expect(page.locator("#plan-more")).not_to_have_text(left)


def test_many_keys(browser: Any) -> None:
    """All queries together would take longer than a request may; the page asks for each alone."""
    many = "".join(
        f"CREATE QUERY q{hours - 1} AS SELECT symbol, SUM(volume) AS volume FROM trades [RANGE {hours} HOURS] "
        "GROUP BY symbol;"
        for hours in range(1, 11)
    )
    source = EngineSource(panewise.Engine(STATEMENTS.partition("CREATE QUERY")[0] + many))
    size = 100_000
    events = {"at": [START_US] * size, "symbol": [f"s{place}" for place in range(size)], "price": [1.0] * size}
    source.push("trades", pa.table({**events, "volume": list(range(size))}), None)
    began_s = monotonic()
    source.read(lambda reader: reader.lookup("q0", None, None), wait=True)
    limits = Limits(lookup_s=max(5.0, 4 * (monotonic() - began_s)))
    with running(Application(source, limits=limits)) as url:
        for page in opened(browser, url):
            for place in range(10):
                value = page.locator("#list tbody tr td:nth-child(3)").nth(place)
                playwright.expect(value).to_have_text("100,000", timeout=60_000)
            page.locator("#list tbody tr", has_text="q3").click()
            playwright.expect(page.locator("#one-state")).to_contain_text("1 to 50 of 100,000 groups")
            page.locator("#rows-after").click()
            playwright.expect(page.locator("#one-state")).to_contain_text("51 to 100 of 100,000 groups")
            page.locator("#sort").select_option("volume")
            playwright.expect(page.locator("#rows tbody tr td:last-child").first).to_have_text("99,999")


def test_what_the_page_shows_is_text(page: Any, source: EngineSource) -> None:
    """A key that looks like HTML is shown, not run."""
    event = {**trades(320, 330)[0], "symbol": "<img src=x onerror=document.title='run'>"}
    source.push("trades", pa.table(as_columns([event])), None)
    page.locator("#list tbody tr", has_text="latest").click()
    playwright.expect(page.locator("#rows tbody")).to_contain_text("<img src=x")
    assert page.title() == "Queries – Panewise"
    page.locator("#rows tbody a", has_text="<img src=x").click()
    playwright.expect(page.locator("#key-symbol")).to_have_value(event["symbol"])
    playwright.expect(page.locator("#key-rows tbody tr")).not_to_have_count(0)
    assert page.title() == "Keys – Panewise"
