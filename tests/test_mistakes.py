"""The likeliest mistakes of users, and the one line that each of them sees first: what is wrong, and its stable name.

Those that need no Spark to be met. `tests/spark_source/test_bad_input.py` meets others in Spark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from pyspark.util import handle_worker_exception
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from pyspark_tubeclient import DefaultSource
from tests.ports import held_port
from tubeclient_cli.app import app

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "errors.md").read_text(encoding="utf-8")

READ = {"masterServers": "MASTER", "masterWebPort": "WEB", "consumerGroup": "etl", "subscribe": "clicks"}
WRITE = {"masterServers": "MASTER", "topic": "clicks"}
VALUES = StructType([StructField("value", StringType())])

OF_READS: list[tuple[str, dict[str, str | None], str, str]] = [
    # What the user did, changes of options, the error's name, a part of its text.
    ("a misspelt option", {"sourceCuont": "2"}, "UNKNOWN_OPTION", "did you mean sourceCount?"),
    ("an option of Kafka's", {"kafka.bootstrap.servers": "b:9"}, "UNKNOWN_OPTION", "here it is masterServers"),
    ("a path", {"path": "/lake"}, "UNKNOWN_OPTION", "call .load(), .save() or .start() without one"),
    ("no masters", {"masterServers": None}, "MISSING_OPTION", "option masterServers is required"),
    ("no group", {"consumerGroup": None}, "MISSING_OPTION", "option consumerGroup is required"),
    ("no topic", {"subscribe": None}, "INVALID_SETTING", "give exactly one of subscribe"),
    ("the writer's option", {"topic": "t"}, "MISPLACED_OPTION", "did you mean subscribe?"),
    ("a checkpoint as an option", {"checkpointLocation": "/c"}, "MISPLACED_OPTION", "belongs to writeStream"),
    ("a master without a number", {"masterServers": "a:port"}, "INVALID_OPTION_VALUE", "is not host:port"),
    ("a topic with a blank", {"subscribe": "a b"}, "INVALID_OPTION_VALUE", "is not a topic name"),
    ("a bad pattern", {"subscribe": None, "subscribePattern": "("}, "INVALID_OPTION_VALUE", "regular expression"),
    ("a time without a unit", {"rpcTimeout": "8"}, "INVALID_OPTION_VALUE", "write a number and a unit"),
    ("an unknown start", {"startingOffsets": "middle"}, "INVALID_OPTION_VALUE", "write earliest, latest, group"),
    ("a file that is not there", {"authUser": "m", "authPasswordFile": "/no"}, "FILE_NOT_READABLE", "cannot be read"),
    ("a batch's end", {"endingOffsets": "latest"}, "INVALID_SETTING", "is for batch reads only"),
    ("a topic that is misspelt", {"subscribe": "clikcs"}, "TOPIC_NOT_FOUND", "clikcs"),
    ("a master that is not there", {"masterServers": "NOBODY"}, "MASTER_UNREACHABLE", "Check masterServers"),
]

OF_WRITES: list[tuple[str, dict[str, str | None], StructType, bool, str, str]] = [
    ("no topic", {"topic": None}, StructType([StructField("v", StringType())]), False, "INVALID_SETTING", "topic"),
    ("the reader's option", {"subscribe": "t"}, VALUES, False, "MISPLACED_OPTION", "did you mean topic?"),
    ("overwrite", {}, VALUES, True, "APPEND_ONLY", 'use mode("append")'),
    ("no value", {}, StructType([StructField("v", StringType())]), False, "INVALID_SETTING", "value"),
    ("a number as value", {}, StructType([StructField("value", LongType())]), False, "INVALID_SETTING", "value"),
]

INGEST = "ingest --master-servers MASTER --consumer-group g --topic t --target TMP/t"

OF_COMMANDS: list[tuple[str, str, int, str]] = [
    ("nothing given", "ingest", 2, "[INVALID_SETTING] these settings are missing"),
    ("a settings file that is not there", "ingest --settings TMP/no.toml", 2, "cannot be read"),
    ("an unknown trigger", f"{INGEST} --trigger soon", 2, "available-now"),
    ("a misspelt option of the source", f"{INGEST} --option masterWebProt=1", 2, "did you mean masterWebPort?"),
    ("a format without a schema", f"{INGEST} --format json", 2, "schema"),
    ("the target as table of bad records", f"{INGEST} --bad-records TMP/t", 2, "the same folder"),
    ("a topic that is misspelt", "topics show clikcs --master-servers MASTER --option masterWebPort=WEB", 2, "clikcs"),
    ("a master that is not there", "topics list --master-servers NOBODY --option masterWebPort=NOWEB", 3, "] "),
    ("an offsets table that is not there", "offsets show --offsets-table TMP/none --consumer-group g", 2, "] "),
]


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), [TopicConfig("clicks", partitions=2)]) as cluster:
        yield cluster


@pytest.fixture
def places(tube: EmbeddedTubeMQ, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What stands for addresses and folders in the tables above."""
    with held_port() as port:
        yield {
            "MASTER": tube.master_address,
            "NOBODY": f"127.0.0.1:{port}",
            "NOWEB": str(port),
            "WEB": str(tube.master_web_port),
            "TMP": str(tmp_path),
        }


@pytest.fixture
def in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that Spark started."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setattr("spark_source.boundary.main_module", lambda: "pyspark.daemon")


def placed(text: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def lines_of(error: Exception) -> list[str]:
    """What a worker tells the JVM."""
    out = io.BytesIO()
    handle_worker_exception(error, out)
    return out.getvalue()[8:].decode().splitlines()


def test_each_name_has_a_place_in_the_documentation() -> None:
    names = {row[2] for row in OF_READS} | {row[4] for row in OF_WRITES}
    assert [name for name in names if f"\n| `{name}` |" not in PAGE] == []


@pytest.mark.usefixtures("in_spark")
@pytest.mark.parametrize(("mistake", "changes", "name", "part"), OF_READS, ids=[row[0] for row in OF_READS])
def test_a_read(places: dict[str, str], mistake: str, changes: dict[str, str | None], name: str, part: str) -> None:
    given = {**READ, **changes}
    options = {key: placed(text, places) for key, text in given.items() if text is not None}
    try:
        source = DefaultSource(options)
        reader = source.streamReader(source.schema())
        try:
            reader.initialOffset()
        finally:
            reader.stop()
    except Exception as error:
        [line] = lines_of(error)
    else:
        pytest.fail(f"{mistake}: nothing was wrong")
    assert f": [{name}] " in line
    assert part in line


@pytest.mark.usefixtures("in_spark")
@pytest.mark.parametrize(
    ("mistake", "changes", "schema", "overwrite", "name", "part"), OF_WRITES, ids=[row[0] for row in OF_WRITES]
)
def test_a_write(
    places: dict[str, str],
    mistake: str,
    changes: dict[str, str | None],
    schema: StructType,
    overwrite: bool,
    name: str,
    part: str,
) -> None:
    given = {**WRITE, **changes}
    options = {key: placed(text, places) for key, text in given.items() if text is not None}
    try:
        DefaultSource(options).writer(schema, overwrite)
    except Exception as error:
        [line] = lines_of(error)
    else:
        pytest.fail(f"{mistake}: nothing was wrong")
    assert f": [{name}] " in line
    assert part in line


@pytest.mark.parametrize(("mistake", "command", "code", "part"), OF_COMMANDS, ids=[row[0] for row in OF_COMMANDS])
def test_a_command(places: dict[str, str], mistake: str, command: str, code: int, part: str) -> None:
    arguments = [placed(word, places) for word in command.replace("a STRING", "a_STRING").split()]
    done = CliRunner().invoke(app, [word.replace("a_STRING", "a STRING") for word in arguments])
    assert done.exit_code == code, f"{mistake}: {done.output}"
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"tubeclient {arguments[0]}")
    assert ": [" in line
    assert part in line
