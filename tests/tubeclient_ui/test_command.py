"""`tubeclient ui`, as a process."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient_cli.app import app

SECONDS = 30


@contextmanager
def running(tube: EmbeddedTubeMQ, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the link that it printed."""
    with running_alone(*words, *ClusterCommands.of(tube).where) as found:
        yield found


@contextmanager
def running_alone(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same, with no more than these words."""
    command = [sys.executable, "-m", "tubeclient_cli", "ui", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, re.findall(r"http\S+", process.stdout.readline())[0]
        finally:
            process.kill()


def asked(link: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection(link.split("/")[2], timeout=SECONDS)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "")


def test_the_link_opens_the_page(tube: EmbeddedTubeMQ) -> None:
    """On this machine alone; the token is in no log; Ctrl-C ends it cleanly."""
    with running(tube) as (process, link):
        assert link.startswith("http://127.0.0.1:")
        path = "/" + link.partition("//")[2].partition("/")[2]
        assert asked(link, "/cluster")[0] == 403
        status, _, cookie = asked(link, path)
        assert status == 200
        assert asked(link, path, Host="evil.example")[0] == 400
        status, text, _ = asked(link, "/cluster", Cookie=cookie.partition(";")[0], **{"HX-Request": "true"})
        assert (status, "clicks</a>" in text) == (200, True)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=SECONDS)
        assert (process.returncode, log) == (0, "")


@pytest.mark.parametrize(
    ("words", "change", "messages", "card"),
    [
        ([], "--allow-changes lets it", 200, True),
        (["--allow-changes", "--mask", "card"], "this dry run is done or forgotten", 200, False),
        (["--without-messages"], "--allow-changes lets it", 404, False),
    ],
)
def test_what_the_page_may_do(tube: EmbeddedTubeMQ, words: list[str], change: str, messages: int, card: bool) -> None:
    """By default it changes nothing, and shows all messages."""
    with running(tube, *words) as (_, link):
        cookie = asked(link, "/" + link.partition("//")[2].partition("/")[2])[2].partition(";")[0]
        known = {"Cookie": cookie, "HX-Request": "true", "Origin": link.partition("/cluster")[0]}
        assert change in asked(link, "/moves?plan=x", "POST", **known)[1]
        status, text, _ = asked(link, "/messages?topic=clicks&most=1", **known)
        assert status == messages
        for key in re.findall(r"search=([\w-]+)", text)[:1]:
            text = asked(link, f"/messages/more?search={key}", **known)[1]
        assert ("4111" in text) is card


def test_an_address_may_be_long(tube: EmbeddedTubeMQ) -> None:
    """All that a view shows is in it, also pasted records."""
    with running(tube) as (_, link):
        cookie = asked(link, "/" + link.partition("//")[2].partition("/")[2])[2].partition(";")[0]
        status, text, _ = asked(link, f"/schema?records={quote('中' * 20_000)}", Cookie=cookie)
        assert (status, text.count("中")) == (200, 20_001)  # and that of the other language


def test_behind_a_proxy(tube: EmbeddedTubeMQ) -> None:
    """Links begin with the proxy's path; its headers count only if it is named."""
    with running(tube, "--public-url", "https://tube.example.com/ui") as (_, link):
        assert link.startswith("https://tube.example.com/ui/cluster?token=")
    with running(tube, "--host", "0.0.0.0") as (_, link):
        assert asked(link, "/cluster", Host="any.example")[0] == 403
    with running(tube, "--host", "localhost") as (_, link):
        assert asked(link, "/cluster", Host="any.example")[0] == 400


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--mask", ""], "--mask is ''; name a field"),
        (["--mask", "/(/"], "--mask has a pattern that RE2 does not take"),
        (["--public-url", "tube.example.com"], "--public-url is 'tube.example.com'; write it as https://"),
        (["--host", ""], "--host is empty"),
        (["--time-zone", "Moon"], "Moon"),
        (["--audit", "http://audit:10080"], "--audit needs the --settings of a job"),
    ],
)
def test_what_is_wrong_is_one_line(tube: EmbeddedTubeMQ, words: list[str], fault: str) -> None:
    """With what to write."""
    assert fault in ClusterCommands.of(tube).error("ui", *words)


def test_the_masters_of_a_job(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """Its settings file names them, and so its cluster is shown; what is wrong with it is told before any page."""
    file = tmp_path / "ingest.toml"
    masters = f'master-servers = "{tube.master_address}"'
    own = 'consumer-group = "etl"\ntopics = ["clicks"]\ntarget = "/t"'
    file.write_text(f"[ingest]\n{masters}\n{own}\n[source]\nmasterWebPort = {tube.master_web_port}\n")
    with running_alone("--settings", str(file)) as (_, link):
        _, _, cookie = asked(link, "/" + link.partition("//")[2].partition("/")[2])
        known = {"Cookie": cookie.partition(";")[0]}
        assert '<a href="/job">Job</a>' in asked(link, "/cluster", **known)[1]
        assert "clicks</a>" in asked(link, "/cluster", **known, **{"HX-Request": "true"})[1]
    with running(tube) as (_, link):
        path = "/" + link.partition("//")[2].partition("/")[2]
        known = {"Cookie": asked(link, path)[2].partition(";")[0]}
        assert "/job" not in asked(link, "/cluster", **known)[1]
        assert asked(link, "/job", **known)[0] == 404
    file.write_text("[ingest]\nfarmat = 1\n")
    assert "farmat" in ClusterCommands.of(tube).error("ui", "--settings", str(file))
    done = CliRunner().invoke(app, ["ui"], env={"TUBECLIENT_MASTER_SERVERS": ""})
    assert (done.exit_code, "--master-servers is missing; give it" in done.stderr) == (2, True)


def test_a_missing_package_is_one_line(tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    fault = ClusterCommands.of(tube).error("ui")
    assert (
        "[PACKAGE_MISSING] the package uvicorn is missing; install it with pip install 'pyspark-tubeclient[ui]'"
        in fault
    )


def test_a_port_in_use_is_one_line(tube: EmbeddedTubeMQ) -> None:
    """With another port to give."""
    with running(tube) as (_, link):
        port = link.split("/")[2].partition(":")[2]
        assert f"127.0.0.1:{port} is not free" in ClusterCommands.of(tube).error("ui", "--port", port)
