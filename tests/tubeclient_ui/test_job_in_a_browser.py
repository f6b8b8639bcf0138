"""The view of an ingest job in Chromium, with a job, Spark and Delta; the job is killed while the page is open.

With TUBECLIENT_PICTURES=1 in the environment it writes the pictures of docs/ui.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from playwright.sync_api import Browser, Page, expect

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_ui.test_command import running
from tests.tubeclient_ui.test_in_a_browser import PICTURED, PICTURES, Visit, browser
from tests.waiting import wait_for

__all__ = ["browser"]

pytestmark = pytest.mark.nightly

SECONDS = 180_000
"""Of Spark's start on a small machine."""
BAD = [b"{'id': %d, 'name': 'of quotes'}", b'{"id": "%d"}', b'{"id": %d, "name": "<b>cut']
"""The first is good once the format takes single quotes."""
VIEWS = {
    "job": ("/job", r"\d messages behind.*rows per second.*bad records, %"),
    "bad": ("/bad", "the text is not JSON.*The newest.*1:clicks:0"),
    "retry": ("/retry?dry=1", "Dry run. Bad records that would move"),
    "streams": ("/streams", "this job writes one table"),
}
"""Path, and what shows that it is there."""


class Job(NamedTuple):
    """A job that runs, and the page of it."""

    tube: EmbeddedTubeMQ
    file: Path
    process: subprocess.Popen[bytes]
    page: subprocess.Popen[str]
    link: str

    def rows(self) -> int:
        try:
            return int(DeltaTable(str(self.file.parent / "clicks")).to_pyarrow_table().num_rows)
        except TableNotFoundError:
            return 0

    def reach(self, rows: int) -> None:
        """Wait until the job has written so many."""
        wait_for(lambda: self.rows() == rows, "the job's rows", seconds=180.0)


def send(tube: EmbeddedTubeMQ, first: int, count: int) -> None:
    """Numbered records; every fifth is bad, in one of three ways."""
    good = [json.dumps({"id": n, "name": "x" * (n % 7)}).encode() for n in range(first, first + count)]
    bodies = [body if n % 5 else BAD[n // 5 % 3] % n for n, body in enumerate(good, first)]
    tube.load("clicks", [NewMessage(0, body) for body in bodies])


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Several rounds, and more to come."""
    folder = tmp_path_factory.mktemp("job")
    patch = pytest.MonkeyPatch()
    patch.setenv("SPARK_DRIVER_MEMORY", "1g")
    with EmbeddedTubeMQ(folder / "tube", [TopicConfig("clicks")]) as tube:
        file = folder / "ingest.toml"
        file.write_text(
            f'[ingest]\nmaster-servers = "{tube.master_address}"\nconsumer-group = "etl"\ntopics = ["clicks"]\n'
            f'target = "{folder}/clicks"\nbad-records = "{folder}/bad"\nformat = "json"\n'
            'schema = "id BIGINT, name STRING"\ntrigger = "500ms"\n'
            f'[source]\nmasterWebPort = {tube.master_web_port}\n[format-options]\nallowSingleQuotes = "false"\n'
        )
        command = [sys.executable, "-m", "tubeclient_cli", "ingest", "--settings", str(file)]
        command += ["--spark-master", "local[1]"]
        with (folder / "job.out").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            with running(tube, "--settings", str(file), "--allow-changes") as (page, link):
                made = Job(tube, file, process, page, link)
                for number in range(4):
                    send(tube, number * 50, 20 + 10 * number)
                    wanted = 16 + sum(16 + 8 * n for n in range(1, number + 1))
                    made.reach(wanted)
                yield made
        finally:
            process.kill()
            process.wait()
            patch.undo()


def opened(browser: Browser, job: Job, theme: str, width: int) -> Visit:
    context = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light", viewport={"width": width, "height": 750}, locale="en-US"
    )
    return Visit(context.new_page(), job.link)


def shown(page: Page, shows: str) -> None:
    expect(page.locator("#view")).to_contain_text(re.compile(shows, re.DOTALL), timeout=SECONDS)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("look", ["light-1200", "dark-1200", "light-390", "dark-390"])
def test_a_view_of_a_job_is_well(browser: Browser, job: Job, name: str, look: str) -> None:
    """Axe finds nothing, the browser has nothing to complain of, and no page is wider than its screen."""
    theme, _, width = look.partition("-")
    visit = opened(browser, job, theme, int(width))
    page = visit.page
    page.goto(visit.base + VIEWS[name][0])
    shown(page, VIEWS[name][1])
    for number in range(12) if name == "job" and PICTURED and width == "1200" else ():
        send(job.tube, 10_000 + 100 * number, 10 + 7 * (number % 4))
        page.wait_for_timeout(3_000)
    if name == "job":
        expect(page.locator(".line canvas")).to_have_count(3, timeout=30_000)
    if name == "bad":
        row = page.locator(".found li").filter(has_text="not JSON").first
        row.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(row.locator("mark")).to_be_visible(timeout=SECONDS)
        row.get_by_role("button", name="hex").click()
        expect(row.locator("pre")).to_contain_text("000000  7b", timeout=SECONDS)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visit.faults == []
    if PICTURED and width == "1200" and name in ("job", "bad"):
        page.evaluate("document.querySelector('.lang').remove()")  # this machine may lack letters for it
        target = page.locator(".facts span").last  # the folder of a test says nothing to readers
        if name == "job":
            target.evaluate("(at, text) => { at.textContent = text; }", "etl → /lake/clicks")
        kind = "" if name == "job" else f"{name}-"
        page.screenshot(path=PICTURES / f"ui-job-{kind}{theme}.png")
    page.context.close()


def test_a_job_is_killed_and_its_records_retried(browser: Browser, job: Job) -> None:
    """The page shows its rounds, and how it falls behind; the retry moves what its dry run showed, once. Then Spark is
    killed too: the page says so, and the other views go on."""
    visit = opened(browser, job, "light", 1200)
    page = visit.page
    page.goto(f"{visit.base}/job")
    shown(page, "^\\s*0 messages behind")
    job.process.kill()
    job.process.wait()
    rows = job.rows()
    send(job.tube, 1_000, 40)
    shown(page, "^\\s*40 messages behind")

    page.goto(f"{visit.base}/retry")
    page.get_by_role("button", name="Show what would move").click()
    shown(page, "would move: 0")
    job.file.write_text(job.file.read_text().replace('"false"', '"true"'))
    page.goto(f"{visit.base}/bad")
    page.get_by_role("link", name="the text is not JSON").click()
    page.get_by_role("link", name="Retry …").click(timeout=SECONDS)
    page.get_by_role("button", name="Show what would move").click()
    shown(page, r"would move: \d*[1-9]")
    moved = int(re.findall(r"would move: (\d+)", page.locator("#view").inner_text())[0])
    assert job.rows() == rows
    page.get_by_role("button", name="Move these records").click()
    shown(page, f"moved: {moved}")
    assert job.rows() == rows + moved
    page.goto(f"{visit.base}/job")
    shown(page, "a retry")
    page.goto(f"{visit.base}/retry?dry=1")
    shown(page, "would move: 0")

    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(job.page.pid)], capture_output=True, text=True, check=True
    )
    subprocess.run(["kill", "-9", *found.stdout.split()], check=True)
    page.goto(f"{visit.base}/bad?reason=JSON")
    shown(page, "Spark's process ended")
    page.goto(f"{visit.base}/cluster")
    shown(page, "clicks")
    assert job.page.poll() is None
    began = time.monotonic()
    job.page.terminate()
    assert job.page.wait(30) == 0
    assert time.monotonic() - began < 15
    page.context.close()
