"""The page in Chromium: each view on a desk and on a phone, light and dark, and with messages that attack it.

With TUBECLIENT_PICTURES=1 in the environment it writes the pictures of docs/ui.md.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, Request, expect, sync_playwright

from embedded_tubemq import EmbeddedTubeMQ
from tests.tubeclient_ui.conftest import HOSTILE
from tests.tubeclient_ui.test_command import running
from tests.tubeclient_ui.viewer import settings_of
from tubeclient import Admin, PartitionKey

pytestmark = pytest.mark.nightly

PICTURED = bool(os.environ.get("TUBECLIENT_PICTURES"))
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
RECORDS = (
    '{"id": 1, "name": "Ada", "price": 19.90, "at": "2026-11-21T10:31:00Z", "tags": ["new", "gift"]}',
    '{"id": 2, "name": "Bo", "price": 5, "at": "2026-11-21 10:32:10.5"}',
    '{"id": "three", "name": "Cy", "price": 7.25, "at": "2026-11-21T10:33:00Z"}',
    '{"id": 4, "name": null, "price": 3.5, "at": "21.11.2026"}',
    '{"id": 5, "name": "Eve", "price": 12.00, "at": "2026-11-21T10:35:00Z", "tags": []}',
)
SCHEMA = "id BIGINT NOT NULL, name STRING, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>"
TRIAL = urlencode({"records": "\n".join(RECORDS), "format": "json", "schema": SCHEMA})
VIEWS = {
    "cluster": ("/cluster", "clicks"),
    "topic": ("/topic?name=views", "2:views:0|1:views:0"),
    "groups": ("/groups", "reads"),
    "group": ("/group?name=reads", "1:clicks:0"),
    "move": ("/move?name=reads&to=latest", "Move these positions"),
    "messages": ("/messages?topic=clicks&text=user", "10 found"),
    "schema": (f"/schema?{TRIAL}", "3 good, 2 bad"),
}
"""Path, and what shows that it is there."""


def chromium() -> str:
    """TUBECLIENT_CHROMIUM, or what PATH has."""
    found = os.environ.get("TUBECLIENT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert found is not None, "these tests need Chromium: apt-get install chromium, or set TUBECLIENT_CHROMIUM"
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def link(tube: EmbeddedTubeMQ) -> Iterator[str]:
    with running(tube, "--allow-changes", "--mask", "password") as (_, printed):
        yield printed


class Visit:
    """A page with the cookie, and what its browser complained of."""

    def __init__(self, page: Page, link: str) -> None:
        self.page, self.base = page, link.partition("/cluster")[0]
        self.faults: list[str] = []
        page.on("console", lambda message: self.faults.append(message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", self._asked)
        page.on("requestfailed", self._failed)
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.on("request", self._own)

    def _asked(self, dialog: Dialog) -> None:
        self.faults.append(dialog.message)
        dialog.dismiss()

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by the next address
            self.faults.append(f"{request.url}: {request.failure}")

    def _own(self, request: Request) -> None:
        if not request.url.startswith(self.base):
            self.faults.append(f"asked {request.url}")

    def open(self, path: str, shows: str) -> None:
        self.page.goto(self.base + path)
        expect(self.page.locator("#view")).to_contain_text(
            re.compile(shows), timeout=120_000
        )  # Spark may have to start


@pytest.fixture(params=["light-desk", "dark-desk", "light-phone", "dark-phone"])
def visit(browser: Browser, link: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    theme, _, place = str(request.param).partition("-")
    width = 1200 if place == "desk" else 390
    context = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light", viewport={"width": width, "height": 750}, locale="en-US"
    )
    yield Visit(context.new_page(), link)
    context.close()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_well(visit: Visit, name: str, tube: EmbeddedTubeMQ, request: pytest.FixtureRequest) -> None:
    """Axe finds nothing, the browser has nothing to complain of, and no page is wider than its screen."""
    visit.open(*VIEWS[name])
    page = visit.page
    if name == "messages":
        page.locator(".found summary").first.click()
        page.get_by_role("button", name="json").click()
        expect(page.locator(".found pre").first).to_contain_text("\n")
    for offset in range(0, 168, 28) if name == "group" and PICTURED else ():
        Admin(settings_of(tube)).set_offsets("reads", {PartitionKey(1, "clicks", 0): offset})
        page.wait_for_timeout(5_000)
    if name == "group":
        expect(page.locator(".line canvas")).to_be_visible(timeout=30_000)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visit.faults == []
    key = request.node.callspec.id
    if PICTURED and "desk" in key:
        page.evaluate("document.querySelector('.lang').remove()")  # this machine may lack letters for it
        page.screenshot(path=PICTURES / f"ui-{name}-{'dark' if 'dark' in key else 'light'}.png")


@pytest.fixture
def desk(browser: Browser, link: str) -> Iterator[Visit]:
    context = browser.new_context(locale="en-US")
    yield Visit(context.new_page(), link)
    context.close()


def test_hostile_messages_do_nothing(desk: Visit) -> None:
    """Opened and shown in each form, they are text: no script ran, nothing was fetched, no policy was broken."""
    desk.open("/messages?topic=hostile", f"{len(HOSTILE)} found")
    title = desk.page.title()
    for number in range(len(HOSTILE)):
        row = desk.page.locator(".found li").nth(number)
        row.locator("summary").click()
        for kind in ("text", "json", "hex"):
            row.get_by_role("button", name=kind, exact=True).click()
            expect(row.get_by_role("button", name=kind, exact=True)).to_have_attribute("aria-pressed", "true")
    assert desk.page.title() == title
    assert desk.page.locator(".found script, .found img, .found iframe, .found svg").count() == 0
    assert desk.faults == []


def test_the_keyboard_is_enough(desk: Visit) -> None:
    """To skip to the content, to search, and to open a message."""
    page = desk.page
    desk.open("/messages?topic=clicks", "10 found")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.type('"id": 7')
    page.keyboard.press("Enter")
    expect(page.locator("#view")).to_contain_text("1 found")
    page.locator(".found summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".found pre")).to_contain_text('"id": 7')


def test_a_link_opens_the_same_view(desk: Visit) -> None:
    """The address has all of it: filters and form of one message too."""
    desk.open("/messages?topic=clicks&path=id+%3D+3", "1 found")
    desk.page.locator(".found summary").click()
    desk.page.get_by_role("button", name="hex").click()
    desk.page.get_by_role("link", name="Link to this message").click()
    expect(desk.page.locator(".found pre")).to_contain_text("000000  7b 22 69 64")
    assert desk.page.get_by_label("Topic", exact=True).input_value() == "clicks"


def test_a_download_is_json_lines(desk: Visit) -> None:
    """A file of what is shown."""
    desk.open("/messages?topic=clicks&tag=odd", "5 found")
    with desk.page.expect_download() as started:
        desk.page.get_by_role("link", name="Download").click()
    assert started.value.suggested_filename == "messages.jsonl"
    assert Path(started.value.path()).read_text().count('"tag": "odd"') == 5


def test_a_move_by_hand(desk: Visit, tube: EmbeddedTubeMQ) -> None:
    """A dry run, the button, and what the brokers have then."""
    admin = Admin(settings_of(tube))
    admin.set_offsets("by_hand", {PartitionKey(1, "clicks", 0): 56})
    desk.open("/group?name=by_hand", "1:clicks:0")
    desk.page.get_by_role("link", name="Move …").click()
    desk.page.get_by_label("To", exact=True).fill("140")
    desk.page.get_by_role("button", name="Show what would move").click()
    desk.page.get_by_role("button", name="Move these positions").click()
    expect(desk.page.locator("#view")).to_contain_text("The group was moved.")
    assert admin.group_offsets("by_hand").committed == {PartitionKey(1, "clicks", 0): 140}
    assert desk.faults == []


def test_a_schema_is_tried_while_it_is_typed(desk: Visit) -> None:
    """The address is what is typed, in the other language too, and what works is a file for ingest."""
    page = desk.page
    desk.open("/schema", "Nothing is written")
    page.get_by_label("Records, one per line").fill('{"id": 7}\n{"id": "x"}')
    page.get_by_label("schema", exact=True).focus()
    page.keyboard.type("id BIGI")
    expect(page.locator("#view .problem")).to_contain_text("BIGI", timeout=120_000)
    page.keyboard.type("NT")
    expect(page.locator("#view")).to_contain_text("1 good, 1 bad", timeout=30_000)
    expect(page.locator("mark")).to_have_text('"')
    with page.expect_download() as started:
        page.get_by_role("link", name="Download settings").click()
    assert 'schema = "id BIGINT"' in Path(started.value.path()).read_text()
    page.get_by_role("link", name="中文").click()
    expect(page.locator("#view")).to_contain_text("1 条正确")
    assert page.locator("[name=schema]").input_value() == "id BIGINT"
    assert desk.faults == []


def test_messages_have_types(desk: Visit) -> None:
    """In a search with a schema, and from there the view that tries it on all of them."""
    desk.open(
        f"/messages?{urlencode({'topic': 'clicks', 'schema': 'id BIGINT, user INT', 'format': 'json'})}", "10 found"
    )
    desk.page.locator(".found summary").first.click()
    expect(desk.page.locator(".found .fault mark")).to_have_text("{", timeout=120_000)
    desk.page.get_by_role("link", name="Try a schema with these").click()
    expect(desk.page.locator("#view")).to_contain_text("0 good, 10 bad", timeout=30_000)
    desk.page.locator("[name=schema]").fill("id BIGINT, user STRUCT<id: INT>")
    expect(desk.page.locator("#view")).to_contain_text("10 good, 0 bad", timeout=30_000)
    assert desk.faults == []


def test_a_page_whose_program_ended_says_so(browser: Browser, tube: EmbeddedTubeMQ) -> None:
    """And does not show old numbers as if they were new."""
    context = browser.new_context(locale="en-US")
    with running(tube) as (process, link):
        visit = Visit(context.new_page(), link)
        visit.open("/cluster", "clicks")
        process.kill()
        expect(visit.page.locator("#lost")).to_be_visible(timeout=30_000)
    context.close()
