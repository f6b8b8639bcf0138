"""Jobs that tell OpenLineage what they do: what they tell is what is in the tables."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.exactly_once.processes import marked, send_signal
from tests.tubeclient_cli.ingest.command import hold_next_round, started
from tests.tubeclient_ingest.bench import Bench
from tests.tubeclient_ingest.lineage_server import LineageServer, check, lineage_server
from tests.tubeclient_ingest.test_streams import Shop
from tubeclient_ingest import lineage
from tubeclient_ingest.job import IngestFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = {"format": "json", "schema": "id BIGINT NOT NULL, name STRING", "lineage": "shop"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LineageServer]:
    with lineage_server(tmp_path) as running:
        yield running
        for one in [*running.events]:
            check(one)


def output(one: dict[str, Any]) -> tuple[str, int, str | None]:
    assert one["namespace"] == "file"
    version = one["facets"].get("version", {}).get("datasetVersion")
    return one["name"], one["outputFacets"]["outputStatistics"]["rowCount"], version


def offsets(event: dict[str, Any]) -> list[tuple[str, int, int]]:
    [topic] = event["inputs"]
    found = topic["inputFacets"].get("tubeclient_offsets", {"partitions": []})["partitions"]
    return [(one["partition"], one["start"], one["end"]) for one in found]


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_events_match_the_tables(bench: Bench, server: LineageServer, writer: str) -> None:
    """A run's events have the rows, versions, columns, and offsets of its tables."""
    target, bad = bench.settings.target, str(bench.folder / "bad")
    how = {**SCHEMA, "writer": writer, "bad_records": bad, "max_offsets_per_trigger": 8}
    good = [b'{"id": %d}' % n for n in range(10)]
    bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), one) for n, one in enumerate([*good, b"no", b"{"])])
    assert bench.rows(**how) == 10
    first, last = server.events
    assert (first["eventType"], last["eventType"]) == ("START", "COMPLETE")
    assert (first["outputs"], offsets(first)) == ([], [])
    assert [*map(output, last["outputs"])] == [(target, 10, str(DeltaTable(target).version())), (bad, 2, None)]
    names = [[one["name"] for one in each["facets"]["schema"]["fields"]] for each in last["outputs"]]
    assert names == [[one.name for one in DeltaTable(place).schema().fields] for place in (target, bad)]
    assert last["inputs"][0]["namespace"] == f"tubemq://{bench.tube.master_address}"
    assert offsets(last) == [(str(key), 0, end) for key, end in sorted(bench.table_positions().items())]
    # The next run tells of its own.
    bench.tube.load("clicks", [NewMessage(0, b'{"id": 10}')])
    assert bench.rows(**how) == 1
    [begin, _] = [end for _, _, end in offsets(last)]
    assert offsets(server.events[-1]) == [("1:clicks:0", begin, begin + 28)]
    assert [*map(output, server.events[-1]["outputs"])] == [(target, 1, str(DeltaTable(target).version()))]
    assert bench.rows(**how) == 0
    assert (server.events[-1]["outputs"], offsets(server.events[-1])) == ([], [])
    assert server.states == ["START", "COMPLETE"] * 3


def test_a_run_that_fails_says_why(bench: Bench, server: LineageServer) -> None:
    bench.tube.load("clicks", [NewMessage(0, b'{"id": 1}')])
    bench.run(**SCHEMA)
    bench.tube.load("clicks", [NewMessage(0, b'{"id": "canary"}')])
    with pytest.raises(IngestFailed):
        bench.run(**SCHEMA)
    assert server.states == ["START", "COMPLETE", "START", "FAIL"]
    failed = server.events[-1]
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert "[BAD_RECORD] bad record in topic clicks" in message
    assert "the value of id is not of type bigint" in message
    assert "\n" not in message
    assert (failed["outputs"], offsets(failed)) == ([], [])
    assert "canary" not in str(server.events)


def test_each_stream_of_a_group_is_an_output(tmp_path: Path, delta_spark: SparkSession, server: LineageServer) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("shop", 2, 1)]) as tube:
        shop = Shop(tube, delta_spark, tmp_path)
        how = {"lineage": "shop", "format": "json", "schema": "id BIGINT", "bad_records": str(tmp_path / "bad")}
        shop.send("orders", "clicks", bad=2)
        shop.run(**how)
        shop.send("orders")
        shop.run(**how)
    found = [sorted(map(output, one["outputs"])) for one in server.events if one["eventType"] == "COMPLETE"]
    rows = [[(Path(name).name, count) for name, count, _ in one] for one in found]
    assert rows == [[("bad", 4), ("clicks", 8), ("orders", 8)], [("orders", 10)]]
    newest = {Path(name).name: version for one in found for name, _, version in one if version is not None}
    assert newest == {one: str(DeltaTable(f"{shop.lake}/{one}").version()) for one in ("clicks", "orders")}


def test_a_server_that_hangs_delays_no_round(
    bench: Bench, server: LineageServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "_LAST_SECONDS", 0.1)
    server.goes_on.clear()
    bench.send(20)
    assert bench.rows(lineage="shop", max_offsets_per_trigger=4) == 20
    assert server.asked.is_set()
    assert server.events == []  # it has not answered yet
    assert bench.repeated_or_missing() == {}
    assert "it did not answer within 0.1 s of the run's end" in caplog.text


@pytest.mark.parametrize("hangs", [False, True])
def test_the_command_tells_of_a_run_that_a_signal_ends(
    tube: EmbeddedTubeMQ, tmp_path: Path, server: LineageServer, hangs: bool
) -> None:
    if hangs:
        server.goes_on.clear()
    with started(tube, tmp_path, "--lineage", "shop", rounds=3) as job:
        os.killpg(job.pid, signal.SIGTERM)
        assert job.wait(60) == 0, job.tail()
    said = job.log.read_text()
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1].startswith("stopped: 50 rows written in 3 rounds"), said
    if hangs:
        assert said.count("it did not answer within 5 s of the run's end") == 1
        return
    assert server.states == ["START", "COMPLETE"]
    assert [output(one)[1] for one in server.events[-1]["outputs"]] == [50]
    assert server.events[-1]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_the_command_tells_that_spark_died(tube: EmbeddedTubeMQ, tmp_path: Path, server: LineageServer) -> None:
    with started(tube, tmp_path, "--lineage", "shop", rounds=3) as job:
        hold_next_round(tube)
        [jvm] = [one for one in marked(job.mark) if "org.apache.spark.deploy.SparkSubmit" in one.command]
        send_signal(jvm, signal.SIGKILL)
        assert job.wait(60) != 0
    assert server.states == ["START", "FAIL"]
    assert server.events[-1]["run"]["facets"]["errorMessage"]["message"] in job.log.read_text()
    assert [output(one)[1] for one in server.events[-1]["outputs"]] == [50]
