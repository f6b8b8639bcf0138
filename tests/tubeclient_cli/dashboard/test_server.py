"""`tubeclient dashboard` as a shell runs it, and what its server gives to whom."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsets_store import GroupKey, OffsetsTable
from tests.tubeclient_cli.dashboard.world import facts, group, key, read
from tubeclient_cli.app import app
from tubeclient_cli.dashboard.server import PageServer, is_own_host


@pytest.fixture
def server() -> Iterator[PageServer]:
    some = facts(group(read(key(0), 3, 10)))
    with PageServer(("127.0.0.1", 0), lambda wait_s: some) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join(30)


def ask(server: PageServer, path: str, host: str = "localhost") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_page_and_all_that_it_names_are_served_here(server: PageServer) -> None:
    status, headers, page = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    named = re.findall(rb'(?:src|href)="([^"]+)"', page)
    assert len(named) == 5
    for name in named:
        assert ask(server, f"/{name.decode()}")[0] == 200
    for path in ("/", "/data.json", "/nothere"):
        assert "default-src 'none'" in ask(server, path)[1]["Content-Security-Policy"]


def test_data_are_the_model(server: PageServer) -> None:
    status, headers, body = ask(server, "/data.json?group=a%20on%20b")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/json", "no-store")
    assert json.loads(body)["groups"][0]["rowsBehind"] == 7


@pytest.mark.parametrize("path", ["/../setup.py", "/command.py", "/page/main.js", "/%2e%2e/model.py", "//etc/passwd"])
def test_only_the_pages_files_are_served(server: PageServer, path: str) -> None:
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    ("header", "own"),
    [
        ("localhost:8717", True),
        ("127.0.0.1:9", True),
        ("[::1]:8717", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:8717", False),
        ("[", False),
        (None, False),
    ],
)
def test_a_foreign_name_for_this_machine_is_refused(server: PageServer, header: str | None, own: bool) -> None:
    assert is_own_host(header) is own
    if header:
        assert ask(server, "/data.json", host=header)[0] == (200 if own else 421)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "offsets")
    OffsetsTable(uri).open_run(GroupKey("clicks_etl", ["clicks"]), 1).record([read(key(0), 3, 5)])
    return uri


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["dashboard", *arguments])
    return done.exit_code, done.output


def test_json_is_printed_once(uri: str, tmp_path: Path) -> None:
    code, printed = run("--offsets-table", uri, "--json")
    assert (code, json.loads(printed)["groups"][0]["rowsBehind"]) == (0, 2)
    code, printed = run("--offsets-table", str(tmp_path / "none"), "--json")
    assert (code, "there is no Delta table" in json.loads(printed)["failures"][0]["failure"]) == (3, True)


def test_what_is_wrong_is_exit_code_2(uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, printed = run("--offsets-table", uri, "--port", port)
    assert (code, f"port {port}" in printed) == (2, True)
    code, printed = run("--offsets-table", uri, "--option", "masterWebPort=1")
    assert (code, "--master-servers" in printed) == (2, True)
    code, printed = run("--offsets-table", uri, "--bind", " ")
    assert (code, "--bind is empty" in printed) == (2, True), printed


def test_it_serves_at_the_printed_address_until_ctrl_c(uri: str) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "dashboard", "--offsets-table", uri, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            assert found is not None
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
            connection.request("GET", "/data.json")
            document = json.load(connection.getresponse())
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert document["failures"] == []
    assert (process.returncode, said) == (0, "")
