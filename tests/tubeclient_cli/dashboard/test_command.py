"""`tubeclient dashboard` as a shell runs it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable
from tests.tubeclient_cli.dashboard.world import key, read
from tests.waiting import wait_for
from tubeclient_cli.app import app
from tubeclient_cli.dashboard.gather import Gatherer
from tubeclient_cli.dashboard.model import dashboard_json
from tubeclient_cli.dashboard.server import PageServer


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "offsets")
    OffsetsTable(uri).open_run(GroupKey("clicks_etl", ["clicks"]), 1).record([read(key(0), 3, 5)])
    return uri


@pytest.fixture
def silent_store() -> Iterator[str]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["dashboard", *arguments])
    return done.exit_code, done.output


def test_json_is_printed_once_with_the_lag_of_now(uri: str, tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"x") for _ in range(10)])
        cluster = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]
        code, printed = run("--offsets-table", uri, *cluster, "--json")
    document = json.loads(printed)
    assert code == 0
    assert [(group["name"], group["rowsBehind"]) for group in document["groups"]] == [("clicks_etl on clicks", 7)]
    assert [source["failure"] for source in document["sources"]] == [None, None]
    assert document["brokers"][0]["answers"]


def test_what_cannot_be_reached_is_in_the_json_and_exit_code_3(uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, printed = run(
        "--offsets-table", uri, "--master-servers", f"127.0.0.1:{port}", "--option", f"masterWebPort={port}", "--json"
    )
    document = json.loads(printed)
    assert code == 3
    assert document["groups"][0]["rowsBehind"] == 2
    assert document["sources"][1]["failure"]


def test_a_table_of_bad_records_that_is_not_there_is_said(uri: str, tmp_path: Path) -> None:
    code, printed = run("--offsets-table", uri, "--bad-records", str(tmp_path / "none"), "--json")
    assert code == 3
    assert "there is no Delta table" in json.loads(printed)["sources"][1]["failure"]


def test_a_table_that_is_not_there_is_said_and_may_still_come(tmp_path: Path) -> None:
    uri = str(tmp_path / "later")
    code, printed = run("--offsets-table", uri, "--json")
    document = json.loads(printed)
    assert (code, document["groups"]) == (3, [])
    for text in (document["headline"]["text"], document["sources"][0]["failure"]):
        assert "there is no Delta table; check --offsets-table" in text
    command = [sys.executable, "-m", "tubeclient_cli.app", "dashboard", "--offsets-table", uri, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert found is not None
            warning = process.stderr.readline()
            OffsetsTable(uri).open_run(GroupKey("clicks_etl", ["clicks"]), 1).record([read(key(0), 3, 5)])

            def names() -> list[str]:
                with urllib.request.urlopen(f"{found[0]}data.json", timeout=60) as answer:
                    return [group["name"] for group in json.load(answer)["groups"]]

            wait_for(lambda: names() == ["clicks_etl on clicks"], "the group")
        finally:
            process.kill()
    assert warning.startswith(f"warning: offsets table {uri}: there is no Delta table")


def test_a_group_is_shown_with_its_verdict_before_its_first_batch(tmp_path: Path) -> None:
    uri = str(tmp_path / "offsets")
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"x") for _ in range(10)])
        OffsetsTable(uri).open_run(GroupKey("clicks_etl", ["clicks"]), 1).keep_initial("latest", {key(0): 28})
        cluster = ["--master-servers", tube.master_address, "--option", f"masterWebPort={tube.master_web_port}"]
        code, printed = run("--offsets-table", uri, *cluster, "--json")
    [group] = json.loads(printed)["groups"]
    assert (code, group["name"], group["verdict"], group["rowsBehind"]) == (0, "clicks_etl on clicks", "OK", 9)


def test_a_port_that_is_taken_is_exit_code_2(uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, printed = run("--offsets-table", uri, "--port", str(port))
    assert code == 2
    assert f"port {port}" in printed
    assert "--port" in printed


@pytest.mark.parametrize("address", ["", " "])
def test_an_empty_address_is_not_all_of_them(uri: str, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(PageServer, "serve_forever", lambda _: None)
    code, printed = run("--offsets-table", uri, "--port", "0", "--bind", address)
    assert (code, "--bind is empty" in printed) == (2, True), printed


@pytest.mark.parametrize("look", ["--offsets-table", "--bad-records"])
def test_a_store_that_never_answers_neither_hangs_the_dashboard_nor_shows_its_secret(
    uri: str, silent_store: str, look: str
) -> None:
    options = {
        "AWS_ENDPOINT_URL": silent_store,
        "AWS_ACCESS_KEY_ID": "geheimname",
        "AWS_SECRET_ACCESS_KEY": "geheimnisvoll",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "timeout": "3s",
        "max_retries": "0",
    }
    away = "s3://lake/table"
    tables = (away, None) if look == "--offsets-table" else (uri, away)
    gatherer = Gatherer(tables[0], options, None, bad_records=tables[1], history_s=1, deadline_s=0)
    beats: list[int] = []
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.01):
            beats.append(1)

    thread = threading.Thread(target=beat)
    thread.start()
    document = dashboard_json(gatherer.facts(0.5))
    waited = len(beats)
    source = next(source for source in document["sources"] if source["place"] == away)
    assert str(source["failure"]).startswith("no answer for")
    look_at = gatherer.table if look == "--offsets-table" else gatherer.bad_records
    assert look_at is not None
    look_at.wait(60)
    done.set()
    thread.join(30)
    assert waited >= 5, "another thread stood still while the store did not answer"
    last = json.dumps(dashboard_json(gatherer.facts(0)))
    assert "geheim" not in last
    assert look_at.source.failure
    if look == "--bad-records":
        assert document["groups"] or dashboard_json(gatherer.facts(0))["groups"]


def test_it_serves_at_the_printed_address_until_ctrl_c(uri: str) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "dashboard", "--offsets-table", uri, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(f"{found[0]}data.json", timeout=60) as answer:
                sources = json.load(answer)["sources"]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert sources[0]["name"] == "offsets table"
    assert (process.returncode, said) == (0, "ended\n")


def test_options_of_the_cluster_need_the_cluster(uri: str) -> None:
    code, printed = run("--offsets-table", uri, "--option", "masterWebPort=1")
    assert code == 2
    assert "--master-servers" in printed


def test_help_says_what_it_is_and_how_to_reach_it() -> None:
    done = CliRunner().invoke(app, ["dashboard", "--help"], env={"COLUMNS": "100"})
    assert done.exit_code == 0
    for words in ("ssh -L", "--host-name", "changes nothing", "--bad-records", "Exit codes"):
        assert words in done.output
