"""The tutorials of docs/ run, step by step: their Python, their commands, and what they say is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.test_docs_examples import Place, indented_commands, page_of
from tests.tubeclient_cli.test_server import running
from tubeclient_cli.app import app
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.settings.ingest_settings import IngestSettings

pytestmark = pytest.mark.spark

STEP = re.compile(
    r"^```python\n(?P<python>.*?)^```"
    r"|^    (?P<command>(?:tubeclient|sed) [^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
SAID = re.compile(r"^print\((.*)\)  # (.*)$", re.MULTILINE)


class Reader:
    """Does what a tutorial says, on the cluster and the folder that stand for those it names."""

    def __init__(self, place: Place, web_port: int) -> None:
        self.place, self.web_port = place, web_port
        self.names: dict[str, Any] = {"expect": self._expect}
        self.compared = 0
        self.output = ""

    def read(self, name: str) -> None:
        for step in STEP.finditer(re.sub(r" \\\n +", " ", page_of(name))):
            if step["python"] is not None:
                code = SAID.sub(lambda said: f"expect({said[2]!r}, {said[1]})", self.place.real(step["python"]))
                exec(code, self.names)
            else:
                self._command(self.place.real(step["command"]))

    def _expect(self, wanted: str, *words: object) -> None:
        assert " ".join(map(str, words)) == wanted
        self.compared += 1

    def _command(self, line: str) -> None:
        words = shlex.split(line)
        if words[:2] == ["tubeclient", "server"]:
            return  # it runs
        if words[0] != "tubeclient":
            subprocess.run(line, shell=True, check=True, timeout=30)
            return
        if "--master-servers" in words:
            words += ["--option", f"masterWebPort={self.web_port}"]
        result = CliRunner().invoke(app, words[1:])
        self.output += result.output
        assert result.exit_code == 0, result.output


@pytest.fixture(autouse=True)
def ingest_in_this_session(delta_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tubeclient ingest` without a Spark of its own."""

    def run(settings: IngestSettings, *_: object, **__: object) -> None:
        Ingest(delta_spark, settings=settings).run()

    monkeypatch.setattr("tubeclient_cli.ingest.command._ingest", run)


def read_with_server(name: str, folder: Path, files: Mapping[str, str] | None = None) -> Reader:
    """Read a page that starts a TubeMQ with a command, which gets any free ports. `files` are those that a reader saves
    in the lake, by name: what the page shows as this language."""
    (folder / "lake").mkdir()
    [server] = indented_commands(page_of(name), "tubeclient server")
    line = Place("", folder / "lake").real(server.replace(" 8715 ", " 0 ").replace(" 8080 ", " 0 "))
    with running(folder, *shlex.split(line)) as (_, addresses):
        reader = Reader(Place(addresses["master"], folder / "lake"), addresses["masterWebPort"])
        for file, language in (files or {}).items():
            [text] = re.findall(rf"```{language}\n(.*?)```", page_of(name), re.DOTALL)
            web_port = f"[source]\nmasterWebPort = {addresses['masterWebPort']}"
            (folder / "lake" / file).write_text(reader.place.real(text).replace("[source]", web_port))
        reader.read(name)
    return reader


def test_the_first_rows(tmp_path: Path) -> None:
    reader = Reader(Place("", tmp_path), 0)
    try:
        reader.read("first-rows.md")
    finally:
        with suppress(KeyError):
            reader.names["producer"].close()
            reader.names["tube"].stop()
    assert reader.compared == 5


def test_an_inlong_stream_with_a_bad_record(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def this_session(*_: object, **__: object) -> Iterator[SparkSession]:
        yield delta_spark

    monkeypatch.setattr("tubeclient_cli.common.session.on_spark", this_session)
    name = "inlong-tutorial.md"
    reader = read_with_server(name, tmp_path, {"orders.json": "json", "orders.toml": "toml"})
    assert reader.compared == 2
    shown = re.findall(r"```text\n(.*?)```", page_of(name), re.DOTALL)
    assert len(shown) == 2
    for text in shown:
        for line in text.splitlines():
            assert line in reader.output
