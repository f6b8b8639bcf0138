"""What OpenLineage is told of a run, by its own client, and that its server stops and delays no run. No Spark runs
here."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openlineage.client.serde import Serde
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType
from typer.testing import CliRunner

from spark_source.offsets.offsets import Offsets
from tests.tubeclient_ingest.lineage_server import LineageServer, check, lineage_server, own_environment
from tests.waiting import wait_for
from tubeclient.errors import ConfigurationError
from tubeclient.extras import MissingPackage
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app
from tubeclient_ingest import lineage
from tubeclient_ingest.lineage import Lineage, open_client, reported
from tubeclient_ingest.lineage_events import RunLineage, catalog_namespace, dataset_name
from tubeclient_ingest.rounds.writing import TableCommit
from tubeclient_ingest.run import Ranges, Round
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.tables.table_detail import TableDetail

KEYS = [PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000), PartitionKey(2, "views", 0)]
COLUMNS = StructType([
    StructField("id", LongType()),
    StructField("tubemq", StructType([StructField("topic", StringType()), StructField("tags", ArrayType(LongType()))])),
])  # fmt: skip
ROUND = Round("2026-11-23T10:00:00.000+00:00", 1, 10, 10, 1.5, 6.7, 30)
RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def settings(**more: Any) -> IngestSettings:
    given: dict[str, Any] = {
        "master_servers": "10.0.0.1:8715,10.0.0.2:8715",
        "consumer_group": "clicks_etl",
        "topics": ("clicks", "views"),
        "target": "s3://lake/clicks",
        "lineage": "shop",
    }
    return IngestSettings(**{**given, **more})


def wrote(
    name: str = "s3://lake/clicks", rows: int = 5, bad: int = 0, version: int = 3, location: str = ""
) -> TableCommit:
    own = TableDetail("id", location or name, COLUMNS, {})
    return TableCommit(name, own, version, rows, bad, TableDetail("bad", "/lake/bad", COLUMNS, {}))


@pytest.fixture(autouse=True)
def _nobodys_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with own_environment(tmp_path):
        yield


@pytest.fixture
def server(_nobodys_configuration: None, tmp_path: Path) -> Iterator[LineageServer]:
    with lineage_server(tmp_path) as running:
        yield running


def at(*ends: int) -> Offsets:
    return Offsets(dict(zip(KEYS, ends, strict=False)))


def event(run: RunLineage, state: str = "RUNNING", error: str | None = None) -> dict[str, Any]:
    found = Serde.to_dict(run.event(state, datetime(2026, 11, 23, tzinfo=UTC), error))
    check(found)
    return found


NO_SPARK: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))


def report(work: Callable[[Lineage], object], stop: threading.Event | None = None, **more: Any) -> None:
    with reported(NO_SPARK, settings(**more), stop or threading.Event()) as told:
        work(told)


def test_a_run_is_told_with_what_it_read_and_wrote(server: LineageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_EVERY_SECONDS", 0.0)

    def work(told: Lineage) -> None:
        told.take(Ranges(at(0, 28, 0), at(280, 28, 56)))
        told.wrote(wrote(rows=10, bad=2))
        told.take(ROUND)
        wait_for(lambda: len(server.events) == 2, "the event of the round")
        told.take(Ranges(at(280, 28, 56), at(560, 84, 56)))
        told.wrote(wrote(rows=7, version=4))

    report(work, trigger="10s")
    assert server.states == ["START", "RUNNING", "COMPLETE"]
    for one in server.events:
        check(one)
    first, running, last = server.events
    assert len({one["run"]["runId"] for one in server.events}) == 1
    assert {(one["job"]["namespace"], one["job"]["name"]) for one in server.events} == {("shop", "clicks_etl")}
    assert last["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    names = [("tubemq://10.0.0.1:8715", "clicks"), ("tubemq://10.0.0.1:8715", "views")]
    for one in server.events:
        assert [(each["namespace"], each["name"]) for each in one["inputs"]] == names
    assert first["outputs"] == []
    assert [each["inputFacets"] for each in first["inputs"]] == [{}, {}]
    ranges = [each["inputFacets"]["tubeclient_offsets"]["partitions"] for each in last["inputs"]]
    assert ranges == [
        [{"partition": "1:clicks:0", "start": 0, "end": 560}, {"partition": "1:clicks:10000", "start": 28, "end": 84}],
        [{"partition": "2:views:0", "start": 0, "end": 56}],
    ]
    assert [_output(one) for one in running["outputs"]] == [
        ("s3://lake", "clicks", 10, "3"),
        ("file", "/lake/bad", 2, None),
    ]
    assert [_output(one) for one in last["outputs"]] == [
        ("s3://lake", "clicks", 17, "4"),
        ("file", "/lake/bad", 2, None),
    ]
    fields = last["outputs"][0]["facets"]["schema"]["fields"]
    assert [(one["name"], one["type"], one["ordinal_position"]) for one in fields] == [
        ("id", "bigint", 1),
        ("tubemq", "struct", 2),
    ]
    assert [(one["name"], one["type"]) for one in fields[1]["fields"]] == [
        ("topic", "string"),
        ("tags", "array<bigint>"),
    ]


def _output(one: dict[str, Any]) -> tuple[str, str, int, str | None]:
    version = one["facets"].get("version", {}).get("datasetVersion")
    return one["namespace"], one["name"], one["outputFacets"]["outputStatistics"]["rowCount"], version


def test_rounds_within_a_minute_are_one_event(server: LineageServer) -> None:
    report(lambda told: [*map(told.take, [ROUND] * 5)])
    assert server.states == ["START", "COMPLETE"]
    assert server.events[1]["job"]["facets"]["jobType"]["processingType"] == "BATCH"


@pytest.mark.parametrize(
    ("error", "is_stopped", "state"),
    [
        (ConfigurationError("a\nb"), False, "FAIL"),
        (ConfigurationError("a\nb"), True, "ABORT"),
        (KeyboardInterrupt(), True, "ABORT"),
    ],
)
def test_how_a_run_ends(server: LineageServer, error: BaseException, is_stopped: bool, state: str) -> None:
    stop = threading.Event()

    def work(_: Lineage) -> None:
        if is_stopped:
            stop.set()
        raise error

    with pytest.raises(type(error)):
        report(work, stop)
    assert server.states == ["START", state]
    check(server.events[1])
    message = server.events[1]["run"]["facets"]["errorMessage"]
    said = "[INVALID_SETTING] a b" if isinstance(error, Exception) else "KeyboardInterrupt"
    assert (message["message"], message["programmingLanguage"]) == (said, "PYTHON")


def test_a_run_that_is_stopped_is_complete(server: LineageServer) -> None:
    stop = threading.Event()
    report(lambda _: stop.set(), stop)
    assert server.states == ["START", "COMPLETE"]


def test_no_secret_is_in_an_event(server: LineageServer, caplog: pytest.LogCaptureFixture) -> None:
    secrets: dict[str, Any] = {
        "offsets_table": "/offsets",
        "storage_options": {"AWS_SECRET_ACCESS_KEY": "canary-of-the-store"},
        "manager_options": {"key": "canary-of-manager"},
        "source_options": {"authUser": "alice", "authPassword": "canary-of-the-user"},
        "target": "s3a://clicks/x",
    }
    shown = " ".join(
        ("canary-of-the-store", "canary-of-manager", "canary-of-the-user", "s3a://me:canary-of-uri@lake/x")
    )
    server.status = 401  # of which the client says the whole URL
    os.environ["OPENLINEAGE_URL"] = server.url.replace("//", "//me:canary-of-url@")

    def work(told: Lineage) -> None:
        told.wrote(wrote(location="s3a://me:canary-of-location@lake/x?token=canary-of-query"))
        raise ConfigurationError(f"it failed: {shown}")

    with pytest.raises(ConfigurationError, match="it failed"):
        report(work, **secrets)
    assert server.states == ["START", "FAIL"]
    assert "canary" not in str(server.events)
    assert "401 Client Error" in caplog.text
    assert "canary" not in caplog.text
    assert server.events[-1]["outputs"][0]["namespace"] == "s3://lake"


def test_server_that_hangs(
    server: LineageServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that hangs ends no run, causes one warning, and later gets the newest round."""
    monkeypatch.setattr(lineage, "_LAST_SECONDS", 0.1)
    monkeypatch.setattr(lineage, "_EVERY_SECONDS", 0.0)
    server.goes_on.clear()

    def work(told: Lineage) -> None:
        assert server.asked.wait(30)
        for number in range(100):
            told.take(Ranges(at(0), at(28 * (number + 1))))
            told.take(ROUND)

    report(work)
    assert server.events == []  # none was answered, and the run is over
    [warning] = [one.getMessage() for one in caplog.records if one.name == lineage.__name__]
    assert "it did not answer within 0.1 s of the run's end" in warning
    server.goes_on.set()
    # Of the hundred rounds the newest waited.
    wait_for(lambda: "COMPLETE" in server.states, "what waited")
    assert server.states in (["START", "RUNNING", "COMPLETE"], ["START", "START", "RUNNING", "COMPLETE"])
    running = server.events[-2]["inputs"][0]["inputFacets"]["tubeclient_offsets"]["partitions"]
    assert running == [{"partition": "1:clicks:0", "start": 0, "end": 2800}]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://u:canary@127.0.0.1:1"])
def test_a_server_that_is_down_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", f'{{"type": "http", "url": "{url}", "retry": {{"total": 0}}}}')
    report(lambda _: None)
    [warning] = [one.getMessage() for one in caplog.records if one.name == lineage.__name__]
    assert warning.startswith("OpenLineage does not accept the run's events; the run continues without it: ")
    assert "canary" not in caplog.text


def test_the_clients_own_configuration_counts(server: LineageServer, tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text("tags:\n  job: {team: shop}\n")
    report(lambda _: None)
    assert server.events[0]["job"]["facets"]["tags"]["tags"][0]["value"] == "shop"


@pytest.mark.parametrize(
    ("transport", "said"),
    [
        ('{"type": "http"}', "`url` key not passed"),
        ('{"type": "http", "url": "nowhere"}', "valid url"),
        ('{"type": "pigeon"}', "pigeon"),
    ],
)
def test_a_wrong_configuration_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, transport: str, said: str) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", transport)
    with pytest.raises(
        ConfigurationError, match=f"OpenLineage's client cannot be created: .*{said}.*Correct openlineage.yml"
    ):
        open_client()


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command names the extra to install before Spark starts if the package is missing."""
    real = builtins.__import__

    def missing(name: str, *more: Any) -> Any:
        if name.startswith("openlineage"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="openlineage")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingPackage, match=r"pip install 'pyspark-tubeclient\[lineage\]'"):
        open_client()
    words = ["ingest", "--master-servers", "127.0.0.1:1", "--consumer-group", "g", "--topic", "t", "--target", "/t"]
    result = CliRunner().invoke(app, [*words, "--lineage", "shop"])
    assert result.exit_code == 2, result.output
    assert "install it with pip install 'pyspark-tubeclient[lineage]'" in result.output
    assert "Spark" not in result.stdout


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/lake/clicks", ("file", "/lake/clicks")),
        ("file:/lake/a b#1/", ("file", "/lake/a b#1")),
        ("file:///lake/x", ("file", "/lake/x")),
        ("s3a://lake/a/b/", ("s3://lake", "a/b")),
        ("s3://lake", ("s3://lake", "/")),
        ("s3a://key:secret@lake/a", ("s3://lake", "a")),
        ("gs://lake/a", ("gs://lake", "a")),
        ("abfs://c@acc.dfs.core.windows.net/a/b", ("abfss://c@acc.dfs.core.windows.net", "a/b")),
        ("wasbs://c@acc.blob.core.windows.net/a", ("wasbs://c@acc.blob.core.windows.net", "a")),
        ("hdfs://nn:8020/lake/a", ("hdfs://nn:8020", "/lake/a")),
        ("dbfs:/lake/a", ("dbfs", "/lake/a")),
    ],
)
def test_names_of_tables(location: str, name: tuple[str, str]) -> None:
    assert dataset_name(location) == name


@pytest.mark.parametrize(
    ("confs", "namespace"),
    [
        ({}, None),
        ({"spark.databricks.workspaceUrl": "dbc-1.cloud.databricks.com"}, "unitycatalog://dbc-1.cloud.databricks.com"),
        ({"spark.hadoop.hive.metastore.uris": "thrift://ms1:9083,thrift://ms2:9083"}, "hive://ms1:9083"),
        ({"hive.metastore.uris": "thrift://ms:9083"}, "hive://ms:9083"),
    ],
)
def test_a_table_of_a_catalog_is_named_there_too(confs: dict[str, str], namespace: str | None) -> None:
    catalog = catalog_namespace(confs.get)
    assert catalog == namespace
    run = RunLineage(settings(target="sales.`clicks`"), RUN_ID, catalog)
    run.wrote(wrote("sales.`clicks`", location="s3a://lake/wh/sales.db/clicks"))
    run.wrote(wrote("s3://lake/other"))
    first, second = event(run)["outputs"]
    assert (first["namespace"], first["name"]) == ("s3://lake", "wh/sales.db/clicks")
    own = None if namespace is None else [{"namespace": namespace, "name": "sales.clicks", "type": "TABLE"}]
    assert first["facets"].get("symlinks", {}).get("identifiers") == own
    assert "symlinks" not in second["facets"]


def test_outputs_of_a_group() -> None:
    """A group has an output for each table and one for all bad records."""
    run = RunLineage(settings(), RUN_ID, None)
    for name, rows, bad in (("/lake/a", 5, 1), ("/lake/b", 7, 0), ("/lake/a", 2, 3)):
        run.wrote(wrote(name, rows, bad))
    assert [_output(one)[1:3] for one in event(run)["outputs"]] == [("/lake/a", 7), ("/lake/b", 7), ("/lake/bad", 4)]


def test_offsets_that_went_back() -> None:
    """The range in a run's event starts at the lowest offset if the offsets go back."""
    run = RunLineage(settings(), RUN_ID, None)
    for start, end in ((280, 560), (0, 280), (280, 280)):
        run.read(at(start), at(end))
    [one] = event(run)["inputs"][0]["inputFacets"]["tubeclient_offsets"]["partitions"]
    assert (one["start"], one["end"]) == (0, 280)


def test_a_blank_namespace_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="lineage is blank; name a namespace"):
        settings(lineage=" ")
