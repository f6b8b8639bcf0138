"""The page in a real browser: Chromium, from $CHROMIUM or PATH; `make setup-all` installs it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.tubeclient_cli.dashboard.world import NOW_MS, broker, cluster, commits, facts, group, key, member, read
from tubeclient_cli.dashboard.looking import Facts, Source
from tubeclient_cli.dashboard.server import PageServer

pytestmark = pytest.mark.browser

NARROW = ViewportSize(width=360, height=740)
ONE = facts(group(read(key(0), 3, 10), commits=commits((9_000, read(key(0), 1, 10)), (5_000, read(key(0), 3, 10)))))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert found, "there is no Chromium; run `make setup-all`, or set CHROMIUM to one"
    with sync_playwright() as playwright:
        # The sandbox does not work for root, as build servers run. The page comes from this process.
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=60_000)
        yield chromium
        chromium.close()


@contextmanager
def opened(
    browser: Browser, some: Facts | Callable[[], Facts], fragment: str = "", **context: object
) -> Iterator[Page]:
    """The page with these facts, drawn. No script may fail, nothing may be asked of another place."""
    faults: list[str] = []
    with PageServer(("127.0.0.1", 0), lambda wait_s: some() if callable(some) else some) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        page = browser.new_page(**context)  # type: ignore[arg-type]
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith(server.url) else faults.append(asked.url))
        try:
            page.goto(f"{server.url}{fragment}")
            expect(page.locator("#age")).to_contain_text("nothing newer", timeout=30_000)
            yield page
        finally:
            page.close()
            server.shutdown()
            thread.join(30)
    assert faults == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


def test_one_partition(browser: Browser) -> None:
    with opened(browser, ONE) as page:
        expect(page.locator("#headline")).to_contain_text("clicks_etl on clicks")
        expect(page.locator("#partitions tbody tr")).to_have_count(1)
        expect(page.locator("#lag-chart canvas")).to_have_count(1)
        assert "newest 7" in str(page.locator("#lag-chart").get_attribute("aria-label"))
    with opened(browser, facts(group(read(key(0), 1, 1)))) as page:
        expect(page.locator(".chart.unknown")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ten_thousand_partitions_on_a_narrow_screen(browser: Browser, scheme: str) -> None:
    rows = [read(key(n, b), n, 1_000 + b, n % 16) for b in range(1, 11) for n in range(1_000)]
    with opened(browser, facts(group(*rows)), viewport=NARROW, color_scheme=scheme) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        expect(page.locator("#partitions tbody tr")).to_have_count(50)


@pytest.mark.parametrize("fragment", ["#%", "#%FF", "#1%20bad%0Aname%20on%20clicks", "#gone%20on%20clicks"])
def test_an_address_with_a_group_that_cannot_be_shows_the_sickest(browser: Browser, fragment: str) -> None:
    with opened(browser, ONE, fragment) as page:
        expect(page.locator("#detail-title")).to_have_text("clicks_etl on clicks")


def test_the_keyboard_chooses_a_group(browser: Browser) -> None:
    late = group(read(key(0), 3, 10), name="late", at_ms=NOW_MS - 3_600_000)
    with opened(browser, facts(group(read(key(0), 10, 10), name="well"), late)) as page:
        expect(page.locator("#detail-title")).to_have_text("late on clicks")
        page.locator("#groups td button").last.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#detail-title")).to_have_text("well on clicks")
        expect(page.locator("#groups td button").last).to_be_focused()


def test_a_broker_that_is_down_and_a_table_that_does_not_answer_say_so(browser: Browser) -> None:
    there = cluster(broker(1), broker(2, "http://10.0.0.2:8081 refused"), members={"clicks_etl": (member(0),)})
    with opened(browser, facts(group(read(key(0), 1, 1), read(key(0, 2), 1, 1)), of_cluster=there)) as page:
        expect(page.locator("#headline")).to_contain_text("WARN")
        expect(page.locator("#headline")).to_contain_text("Not answering: broker 2")
        expect(page.locator("#brokers tbody tr").nth(1)).to_contain_text("no answer")
    away = Facts(NOW_MS, None, 0, failures=(Source("offsets table", "s3://lake/o", "refused"),))
    with opened(browser, away) as page:
        expect(page.locator("#failures")).to_contain_text("offsets table s3://lake/o: refused")
        expect(page.locator("#detail")).to_be_hidden()


def test_names_and_errors_from_elsewhere_are_text(browser: Browser) -> None:
    script = "<img src=x onerror=document.title='owned'>"
    some = group(read(key(0), 1, 1, 0)._replace(reason=script))
    with opened(browser, facts(some, failures=(Source("offsets table", "/o", script),))) as page:
        expect(page.locator("#failures")).to_contain_text(script)
        expect(page.locator("#partitions td").last).to_have_text(script)
        assert page.locator("main img").count() == 0
        assert page.title() != "owned"


def test_new_data_come_by_themselves(browser: Browser) -> None:
    answers = iter([Facts(NOW_MS, None, 0), ONE])
    with opened(browser, lambda: next(answers, ONE)) as page:
        expect(page.locator("#partitions tbody tr")).to_have_count(1, timeout=20_000)
