"""`tubeclient ui` in Chromium, on Apache's master and brokers."""

from __future__ import annotations

import contextlib

import pytest
from playwright.sync_api import Browser, expect

from tests.apache.server import ApacheTubeMQ
from tests.tubeclient_ui.test_command import running_alone
from tests.tubeclient_ui.test_in_a_browser import Visit, browser
from tests.waiting import wait_for
from tubeclient import Admin, ClientSettings, PartitionKey, Producer, PullConsumer, UnknownGroup

__all__ = ["browser"]

pytestmark = pytest.mark.apache

TOPIC = "apache_ui"
KEYS = [PartitionKey(broker, TOPIC, number) for broker in (1, 2) for number in (0, 1, 10_000, 10_001)]


def test_the_views_in_a_browser(
    apache: ApacheTubeMQ, settings: ClientSettings, producer: Producer, browser: Browser
) -> None:
    """Cluster, groups and messages show what Apache's servers have, and the browser has nothing to complain of."""
    admin = Admin(settings)
    producer.publish([TOPIC])
    for number in range(12):
        producer.send(TOPIC, b'{"id": %d}' % number, tag=("even", "odd")[number % 2], attributes={"n": str(number)})
    wait_for(lambda: sum(it.max_offset for it in admin.store_bounds([TOPIC]).values()) == 12 * 28, "the messages")
    admin.set_offsets("ui_reads", dict.fromkeys(KEYS, 0))

    def behind() -> int | None:
        with contextlib.suppress(UnknownGroup):
            return admin.group_offsets("ui_reads", [TOPIC]).rows_behind
        return None

    wait_for(lambda: behind() == 12, "the brokers to tell the positions", seconds=60)
    where = "--master-servers", apache.master_address, "--option", f"masterWebPort={apache.master_web_port}"
    with running_alone(*where) as (_, link), PullConsumer(settings, "ui_live", [TOPIC]) as consumer:
        assert consumer.wait_ready(30_000)
        visit = Visit(browser.new_context(locale="en-US").new_page(), link)
        page = visit.page

        visit.open("/cluster", "All is well.")
        for address in (apache.master_address, *apache.broker_addresses):
            expect(page.locator("#view")).to_contain_text(address)
        expect(page.get_by_role("row", name=f"{TOPIC} 2 4 8 12")).to_be_visible()
        page.get_by_role("link", name=TOPIC).click()
        expect(page.locator("#view")).to_contain_text("messages, at most: 12")

        visit.open("/groups", "ui_reads")
        expect(page.get_by_role("row", name=f"ui_live 1 {TOPIC}")).to_be_visible()
        page.get_by_role("link", name="ui_reads").click()
        expect(page.locator("#view")).to_contain_text("12 messages behind, at most")
        visit.open("/group?name=ui_live", "clients online: 1")
        expect(page.get_by_role("row").filter(has_text=str(KEYS[0]))).to_have_count(1)

        visit.open(f"/messages?topic={TOPIC}", "12 found")
        expect(page.locator(".found li")).to_have_count(12)
        visit.open(f"/messages?topic={TOPIC}&tag=odd&path=id+%3D+7&order=oldest", "1 found")
        page.locator(".found summary").click()
        expect(page.locator(".found pre")).to_have_text('{"id": 7}')
        expect(page.locator(".found dl")).to_contain_text("7")
        assert visit.faults == []
    assert behind() == 12


def test_servers_that_hang(apache: ApacheTubeMQ, browser: Browser) -> None:
    """A broker, then the master, does nothing for a moment: the page says which, and shows the others."""
    where = "--master-servers", apache.master_address, "--option", f"masterWebPort={apache.master_web_port}"
    with running_alone(*where) as (_, link):
        visit = Visit(browser.new_context(locale="en-US").new_page(), link)
        with apache.standing_still(0):
            visit.open("/cluster", f"Broker 1:{apache.broker_addresses[0]}.* does not answer")
            expect(visit.page.get_by_role("row").filter(has_text=TOPIC)).to_be_visible()
        visit.open("/cluster", "All is well.")
        with apache.standing_still(None):
            visit.open("/cluster", f"Master {apache.master_address} does not answer")
            visit.open("/groups", "MASTER_UNREACHABLE")
            visit.open("/messages?topic=apache_ui", "MASTER_UNREACHABLE")
        visit.open("/cluster", "All is well.")
        assert visit.faults == []
