"""`tubeclient ui`, as a process."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.tubeclient_cli.clusters import ClusterCommands

SECONDS = 30


@contextmanager
def running(tube: EmbeddedTubeMQ, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the link that it printed."""
    command = [sys.executable, "-m", "tubeclient_cli", "ui", "--port", "0", *words, *ClusterCommands.of(tube).where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, re.findall(r"http\S+", process.stdout.readline())[0]
        finally:
            process.kill()


def asked(link: str, path: str, **headers: str) -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection(link.split("/")[2], timeout=SECONDS)) as connection:
        connection.request("GET", path, headers=headers)
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
    ],
)
def test_what_is_wrong_is_one_line(tube: EmbeddedTubeMQ, words: list[str], fault: str) -> None:
    """With what to write."""
    assert fault in ClusterCommands.of(tube).error("ui", *words)


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
