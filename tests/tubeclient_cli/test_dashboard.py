"""`tubeclient dashboard` as a shell runs it, and what its page holds."""

from __future__ import annotations

import http.client
import itertools
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from offsets_store.health import Verdict
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app
from tubeclient_cli.dashboard.page import PageServer, is_own_host, page_of

SECRET = "geheimnisvoll"


@pytest.fixture
def server() -> Iterator[PageServer]:
    looks = itertools.count(1)
    with PageServer(("127.0.0.1", 0), lambda: f"look {next(looks)}") as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join(30)


def ask(port: int, path: str, host: str = "localhost") -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("host", "own"),
    [("localhost:8717", True), ("127.0.0.1", True), ("[::1]:8717", True), ("evil.example", False), ("", False)],
)
def test_a_name_that_points_here_reads_nothing(server: PageServer, host: str, own: bool) -> None:
    assert is_own_host(host) is own
    status, headers, page = ask(server.server_address[1], "/", host)
    assert (status, page) == (200, "look 1") if own else (421, "Use an address or localhost.\n")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")


def test_table_and_brokers_are_not_asked_for_each_request(server: PageServer) -> None:
    port = server.server_address[1]
    assert [ask(port, path)[::2] for path in ("/", "/", "/../setup.py")][:2] == [(200, "look 1")] * 2
    assert ask(port, "/../setup.py")[0] == 404


def test_names_and_errors_from_elsewhere_are_text() -> None:
    script = "<script>alert(1)</script>"
    row = {"partition": script, "verdict": Verdict.STOP, "why": script, "nextOffset": 28, "committedAt": None}
    group = {"consumerGroup": script, "topicSet": script, "verdict": Verdict.STOP, "rowsBehindAtMost": 7}
    page = page_of([{**group, "partitions": [{**row, "rowsBehindAtMost": 7}]}], [script], datetime.now(UTC))
    assert (page.count("<script"), page.count("&lt;script&gt;alert(1)")) == (0, 6)


def test_it_serves_until_ctrl_c_and_says_what_it_cannot_read(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"x")] * 5)
        uri = str(tmp_path / "offsets")
        for name, rows in (("well", 5), ("late", 2)):
            run = OffsetsTable(uri, clock_ms=lambda: 1_795_000_000_000).open_run(GroupKey(name, ["clicks"]), 1)
            run.record([PartitionProgress(PartitionKey(1, "clicks", 0), rows * 28, 5 * 28, 0)])
        command = [sys.executable, "-m", "tubeclient_cli.app", "dashboard", "--offsets-table", uri, "--port", "0"]
        command += ["--consumer-group", "well", "--consumer-group", "late", "--consumer-group", "gone"]
        command += ClusterCommands.of(tube).where
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
                assert found is not None
                _, _, page = ask(int(found[1]), "/")
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=60)
            finally:
                process.kill()
    assert (process.returncode, said) == (0, "")
    assert "gone: [INVALID_SETTING] the offsets table has nothing of group gone" in page
    cells = re.findall(r"<tr>(.*?)</tr>", page)
    groups = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in cells]
    assert [row for row in groups if row[1:2] == ["clicks"]] == [
        ["late", "clicks", "STOP", "3"],
        ["well", "clicks", "OK", "0"],
    ]
    assert "while 3 messages wait" in page


def test_what_is_wrong_is_exit_code_2(tmp_path: Path) -> None:
    words = ["dashboard", "--offsets-table", str(tmp_path), "--master-servers", "127.0.0.1:1"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, [*words, "--port", port])
    assert (done.exit_code, f"port {port}" in done.output) == (2, True)
    done = CliRunner().invoke(app, [*words, "--bind", " "])
    assert (done.exit_code, "--bind is empty" in done.output) == (2, True), done.output


def test_a_failure_shows_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pages: list[str] = []

    def fail(_: OffsetsTable) -> list[str]:
        raise OSError(f"refused, with the key {SECRET}")

    monkeypatch.setattr(OffsetsTable, "groups", fail)
    monkeypatch.setattr(PageServer, "serve_forever", lambda server: pages.append(server.page()))
    words = ["dashboard", "--offsets-table", str(tmp_path), "--master-servers", "127.0.0.1:1", "--port", "0"]
    done = CliRunner().invoke(app, [*words, "--storage-option", f"secret_key={SECRET}"])
    assert (done.exit_code, "refused, with the key ***" in pages[0]) == (0, True), done.output
    assert SECRET not in pages[0]
