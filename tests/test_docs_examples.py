"""What the documents show is run: Python on a Spark session and embedded servers, and the commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from spark_source.options.given import parse_options
from tests.test_docs import PAGES
from tests.test_packaging import run_python
from tests.waiting import wait_for
from tubeclient import ClientSettings, Producer
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app

PYTHON = re.compile(r"(?P<mark><!--[^\n]*-->\n)?```python\n(?P<code>.*?)```", re.DOTALL)
ON_SPARK = (*("running.md", "spark-source.md", "offsets-table.md", "assignment.md", "operate.md", "ingest.md"),)
"""The client's page is a program of its own: see test_docs.py. For the tutorials see test_tutorials.py."""
LEAST = {"masterServers": "127.0.0.1", "consumerGroup": "g", "subscribe": "clicks"}


class Given:
    """Stands for a reader or a writer, in front of lines that begin with a dot."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}

    def option(self, name: str, value: object) -> Given:
        self.options[name] = str(value)
        return self


class Place:
    """The examples' cluster and lake, and where they really are."""

    def __init__(self, master_address: str, lake: Path, web_port: int = 8080) -> None:
        self.master_address, self.web_port, self.lake = master_address, web_port, lake

    def real(self, text: str) -> str:
        text = re.sub(r"(10|127)\.0\.0\.1:8715(,10\.0\.0\.2:8715)?", self.master_address, text)
        text = text.replace("readPositions 'true'", f"readPositions 'true', masterWebPort '{self.web_port}'")
        text = text.replace("s3://lake/_offsets/tubemq", "s3://lake/_offsets")
        return re.sub(r"(s3:/|/tmp)?/lake/", f"{self.lake}/", text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    topics = [TopicConfig("clicks", stores=2, partitions=2), TopicConfig("clicks_clean"), TopicConfig("web_events")]
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), topics) as tube:
        settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
        with Producer(settings) as producer:
            producer.publish(["clicks"])
            for number in range(100):
                producer.send("clicks", b"click %d" % number, tag="web", time="202611211031", attributes={"k": "v"})
        yield Place(tube.master_address, tmp_path_factory.mktemp("lake"), tube.master_web_port)


def page_of(name: str) -> str:
    return next(path for path in PAGES if path.name == name).read_text(encoding="utf-8")


def run_examples(place: Place, names: dict[str, Any], text: str) -> int:
    """Run the Python of a page as one program; returns how many examples there were."""
    found = [match for match in PYTHON.finditer(text) if match["mark"] is None]
    for match in found:
        code = place.real(match["code"])
        if code.startswith("."):
            given = Given()
            exec(f"(given\n{code})", {"given": given})
            parse_options({**LEAST, **given.options})
        else:
            exec(code, names)
    return len(found)


def has_run(query: StreamingQuery) -> bool:
    """Whether a batch of a query is complete; its error is raised."""
    if (error := query.exception()) is not None:
        raise error
    return query.lastProgress is not None


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_the_python_of_a_page_runs(name: str, delta_spark: SparkSession, place: Place) -> None:
    """And so do the queries that it starts, and its SQL."""
    frame = delta_spark.sql("SELECT 'one' AS value")
    options = {**LEAST, "masterServers": place.master_address, "consumerGroup": "docs"}
    clicks = delta_spark.readStream.format("tubeclient").options(**options, startingOffsets="earliest").load()
    partitions = [PartitionKey(broker, "clicks", number) for broker in (1, 2, 3) for number in range(4)]
    names: dict[str, Any] = {
        "spark": delta_spark,
        "frame": frame,
        "clicks": clicks,
        "partitions": partitions,
        "storage_options": {},
    }
    text = page_of(name)
    try:
        assert run_examples(place, names, text) >= 1
        for query in [value for value in names.values() if isinstance(value, StreamingQuery)]:
            wait_for(partial(has_run, query), "the first batch", seconds=120)
        for match in re.finditer(r"```sql\n(.*?)```", text, re.DOTALL):
            *before, last = place.real(match[1].replace("VERSION AS OF 41", "")).split(";\n")
            for statement in before:
                delta_spark.sql(statement)
            assert delta_spark.sql(last).collect()
    finally:
        for query in delta_spark.streams.active:
            query.stop()
        with suppress(KeyError):
            delta_spark.streams.removeListener(names["listener"])


def commands_of(name: str) -> list[list[str]]:
    """The lines that call `tubeclient`, as words."""
    return [shlex.split(line) for line in indented_commands(page_of(name))]


def indented_commands(text: str, command: str = "tubeclient") -> list[str]:
    return re.findall(rf"^    {command} (.*)$", text.replace("\\\n", " "), re.MULTILINE)


COMMANDS = [(path.name, words) for path in PAGES for words in commands_of(path.name)]


@pytest.mark.parametrize(("name", "words"), COMMANDS, ids=lambda value: "-".join(value[:2]) if value else "")
def test_a_command_takes_what_the_page_gives_it(name: str, words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    assert command.make_context(name, words).args == []


@pytest.mark.spark
def test_the_tests_that_a_page_shows_pass(tmp_path: Path) -> None:
    """Each example is a file of its own, named in its first line; what both say of conftest.py goes into one."""
    for code in re.findall(r"```python\n(.*?)```", page_of("testing.md"), re.DOTALL):
        with (tmp_path / code.partition("\n")[0].removeprefix("# ")).open("a", encoding="utf-8") as file:
            file.write(code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conftest.py", "test_orders.py", "test_rows.py"]
    found = run_python("-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path), cwd=tmp_path)
    assert "2 passed" in found.stdout, found.stdout + found.stderr
