"""The page in a real browser: Chromium, from $CHROMIUM or PATH; `make setup-all` installs it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

from tests.tubeclient_cli.dashboard.world import NOW_MS, broker, cluster, commit, facts, group, key, member, read
from tubeclient_cli.dashboard.facts import Facts, Source
from tubeclient_cli.dashboard.server import PageServer

pytestmark = pytest.mark.browser

NARROW = ViewportSize(width=360, height=740)
ONE = facts(group(read(key(0), 3, 10), commits=[commit(NOW_MS - 5_000, 28, 7), commit(NOW_MS - 9_000, 5, 30)]))


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
        page.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
        page.on("request", lambda asked: None if asked.url.startswith(server.url) else faults.append(asked.url))
        try:
            page.goto(f"{server.url}{fragment}")
            expect(page.locator("#age")).to_contain_text("Read:", timeout=30_000)
            yield page
        finally:
            page.close()
            server.shutdown()
            thread.join(30)
    assert faults == []


def is_fault(message: ConsoleMessage) -> bool:
    return message.type == "error" and "400 (Bad Request)" not in message.text


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


def test_one_partition(browser: Browser) -> None:
    with opened(browser, ONE) as page:
        expect(page.locator("#headline")).to_contain_text("clicks_etl on clicks")
        expect(page.locator("#partitions tbody tr")).to_have_count(1)
        expect(page.locator("#lag-chart canvas")).to_have_count(1)
        assert "newest 7, highest 30" in str(page.locator("#lag-chart").get_attribute("aria-label"))
        expect(page.locator("#events li")).to_contain_text("2 commits read 33 messages at most")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ten_thousand_partitions_on_a_narrow_screen(browser: Browser, scheme: str) -> None:
    rows = [read(key(n, b), n, 1_000 + b, n % 16) for b in range(1, 11) for n in range(1_000)]
    some = facts(group(*rows, commits=[commit(NOW_MS - n * 1_000, 5, n) for n in range(900)]))
    with opened(browser, some, viewport=NARROW, color_scheme=scheme) as page:
        assert fits(page)
        expect(page.locator("#partitions tbody tr")).to_have_count(50)
        expect(page.locator("#found")).to_contain_text("10,000 found")
        expect(page.locator("#legend li")).to_have_count(4)
        page.locator("#search").fill("7:clicks:99")
        expect(page.locator("#found")).to_have_text("11 found")
        expect(page.locator("#partitions tbody tr").first).to_contain_text("7:clicks:99")


def test_a_table_that_is_wider_than_the_screen_scrolls_and_shows_that_it_does(browser: Browser) -> None:
    with opened(browser, ONE, viewport=NARROW) as page:
        assert fits(page)
        box = page.locator("#groups")
        last = box.locator("th").last
        expect(box).to_have_class("scroll after")
        expect(last).not_to_be_in_viewport()
        box.evaluate("(box) => box.scrollTo(box.scrollWidth, 0)")
        expect(last).to_be_in_viewport(ratio=0.9)
        expect(box).to_have_class("scroll before")
    with opened(browser, ONE, viewport=ViewportSize(width=1_280, height=740)) as page:
        expect(page.locator("#groups")).to_have_class("scroll")


@pytest.mark.parametrize("fragment", ["#%", "#%FF", "#1%20bad%0Aname%20on%20clicks", "#gone%20on%20clicks"])
def test_an_address_with_a_group_that_cannot_be_shows_the_sickest(browser: Browser, fragment: str) -> None:
    with opened(browser, ONE, fragment) as page:
        expect(page.locator("#detail-title")).to_have_text("clicks_etl on clicks")


def test_the_keyboard_alone_sorts_chooses_and_walks_the_map(browser: Browser) -> None:
    late = group(read(key(0), 3, 10), read(key(1), 9, 10, 1), name="late", at_ms=NOW_MS - 3_600_000)
    with opened(browser, facts(group(read(key(0), 10, 10), name="well"), late)) as page:
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#groups-part")).to_be_focused()
        head = page.locator("#groups th").first
        head.locator("button").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        expect(head).to_have_attribute("aria-sort", "descending")
        expect(page.locator("#groups tbody tr").first).to_contain_text("well on clicks")
        expect(page.locator("#detail-title")).to_have_text("late on clicks")
        page.locator("#map").focus()
        for pressed in ("ArrowRight", "ArrowRight", "ArrowRight"):
            page.keyboard.press(pressed)
        expect(page.locator("#map-says")).to_have_text("1:clicks:1: 1 to 9 messages behind, node 1")
        page.keyboard.press("Enter")
        expect(page.locator("#search")).to_have_value("1:clicks:1")
        expect(page.locator("#partitions tbody tr")).to_have_count(1)
        page.locator("#groups td button").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#detail-title")).to_have_text("well on clicks")
        expect(page.locator("#groups td button").first).to_be_focused()


def test_a_broker_that_is_down_is_seen_without_colour(browser: Browser) -> None:
    there = cluster(broker(1), broker(2, "http://10.0.0.2:8081 refused"), members={"clicks_etl": (member(0),)})
    with opened(browser, facts(group(read(key(0), 1, 1), read(key(0, 2), 1, 1)), of_cluster=there)) as page:
        expect(page.locator("#headline")).to_contain_text("WARN")
        expect(page.locator("#headline")).to_contain_text("Broker 2 does not answer")
        expect(page.locator("#brokers tbody tr").nth(1)).to_contain_text("no answer")
        expect(page.locator("#legend")).to_contain_text("broker does not answer")


def test_a_group_of_which_too_little_is_known_says_so_where_its_charts_are(browser: Browser) -> None:
    with opened(browser, facts(group(read(key(0), 1, 1)))) as page:
        expect(page.locator(".chart.unknown")).to_have_count(2)
        expect(page.locator("#events li")).to_have_text("nothing in the commits that are kept")
    with opened(browser, ONE) as page:
        expect(page.locator(".chart.unknown")).to_have_count(0)


def test_an_empty_table_and_one_that_does_not_answer_say_so(browser: Browser) -> None:
    with opened(browser, facts()) as page:
        expect(page.locator("#headline")).to_contain_text("has no group yet")
        expect(page.locator("#detail")).to_be_hidden()
    away = Facts(NOW_MS, (Source("offsets table", "s3://lake/o", None, "no answer for 12 s"),), None, None, None)
    with opened(browser, away) as page:
        expect(page.locator("#sources")).to_contain_text("no answer for 12 s. There is no data of it yet")
    old = facts(group(read(key(0), 1, 1)), failure="no answer for 40 s")
    with opened(browser, old) as page:
        expect(page.locator("#sources")).to_contain_text("What is shown of it is 0 s old")
        expect(page.locator("#partitions tbody tr")).to_have_count(1)


def test_names_and_errors_from_elsewhere_are_text(browser: Browser) -> None:
    script = "<img src=x onerror=document.title='owned'>"
    old = facts(group(read(key(0), 1, 1, 0)._replace(reason=script)), failure=script)
    with opened(browser, old) as page:
        expect(page.locator("#sources")).to_contain_text(script)
        expect(page.locator("#partitions td").last).to_have_text(script)
        assert page.locator("main img").count() == 0
        assert page.title() != "owned"


def test_new_data_come_by_themselves_and_an_ended_dashboard_is_said(browser: Browser) -> None:
    answers = iter([Facts(NOW_MS, (), None, None, None), ONE])
    with opened(browser, lambda: next(answers, ONE)) as page:
        expect(page.locator("#partitions tbody tr")).to_have_count(1, timeout=20_000)
