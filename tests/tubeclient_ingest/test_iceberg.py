"""The job into Iceberg tables: each record once, whoever dies in between, typed and with bad records apart."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_ingest.bench import Bench
from tests.tubeclient_ingest.lake import Killed
from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import encode_attributes, encode_payload
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.run import Event
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.tables.iceberg_table import IcebergTable
from tubeclient_ingest.tables.spark_errors import IngestFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVERY = 7
"""Of numbers those that are bad are its multiples."""


class Lake:
    """Numbered JSON records, and a job that writes them to Iceberg."""

    def __init__(self, tube: EmbeddedTubeMQ, spark: SparkSession, folder: Path) -> None:
        self.tube, self.spark, self.warehouse = tube, spark, folder / "lake"
        self.sent = 0
        self.settings = IngestSettings(
            master_servers=tube.master_address,
            consumer_group="lake",
            topics=("clicks",),
            target="shop.orders",
            table_format="iceberg",
            warehouse=str(self.warehouse),
            bad_records="shop.bad",
            format="json",
            schema="id INT NOT NULL, part STRING, at TIMESTAMP",
            partition_by=("part",),
            source_count=2,
            source_options={"masterWebPort": str(tube.master_web_port)},
        )

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            known: dict[str, Any] = {"id": number, "part": f"p{number % 3}", "at": "2026-11-30 10:00:00"}
            text = json.dumps(known if number % EVERY else {**known, "id": f"no {number}"})
            self.tube.load("clicks", [NewMessage(10_000 * (number % 2), text.encode())])
        self.sent += count

    def job(self, **changes: Any) -> Ingest:
        return Ingest(self.spark, settings=replace(self.settings, **changes))

    def run(self, **changes: Any) -> list[Event]:
        seen: list[Event] = []
        self.job(**changes).run(seen.append)
        return seen

    def table(self, name: str = "shop.orders") -> Table:
        uri = f"sqlite:///{self.warehouse}/catalog.db"
        return load_catalog("default", type="sql", uri=uri, warehouse=f"file://{self.warehouse}").load_table(name)

    def good(self) -> list[int]:
        return sorted(self.table().scan().to_arrow().column("id").to_pylist())

    def bad(self, state: str = "bad", **changes: Any) -> list[int]:
        rows = self.job(**changes).bad_records().where(f"state = '{state}'").select("value").collect()
        return sorted(int(json.loads(row.value)["id"].removeprefix("no ")) for row in rows)

    def check(self) -> None:
        """Each record that was sent is in one of the two tables, once."""
        assert self.good() == [number for number in range(self.sent) if number % EVERY]
        assert self.bad() == [*range(0, self.sent, EVERY)]


@pytest.fixture
def lake(tmp_path: Path, delta_spark: SparkSession) -> Any:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", 2, 1)]) as tube:
        yield Lake(tube, delta_spark, tmp_path)


def test_raw_messages(bench: Bench) -> None:
    how = {"table_format": "iceberg", "warehouse": str(bench.folder / "lake"), "target": "shop.clicks"}
    bench.send(10)
    assert bench.rows(**how) == 10
    assert bench.rows(**how) == 0
    bench.send(7)
    assert bench.rows(**how) == 7
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{bench.folder}/lake/catalog.db")
    found = catalog.load_table("shop.clicks").scan().to_arrow()
    assert sorted(map(int, found.column("value").to_pylist())) == [*range(17)]


def test_driver_deaths_around_commits(lake: Lake) -> None:
    """A driver dies before or after one of its commits, at random."""
    rng = random.Random(20)
    real = IcebergTable.commit
    kills = 0

    def die(table: IcebergTable, files: Any, record: SinkRecord | None = None) -> None:
        nonlocal kills
        chance = rng.random()
        if chance < 0.2:
            kills += 1
            raise Killed
        real(table, files, record)
        if chance < 0.4:
            kills += 1
            raise Killed

    for _ in range(12):
        lake.send(rng.randrange(1, 20))
        with pytest.MonkeyPatch.context() as patched, suppress(Killed):
            patched.setattr(IcebergTable, "commit", die)
            lake.run(max_offsets_per_trigger=rng.choice((5, 1_000)))
    lake.run()
    lake.check()
    assert kills


def test_bad_records_that_can_be_read_by_now_move(lake: Lake) -> None:
    lake.send(20)
    lake.run()
    text = {"schema": "id STRING, part STRING, at TIMESTAMP", "target": "shop.texts"}
    lake.check()
    retried = lake.job().retry()
    assert (retried.moved, retried.still_bad) == (0, 3)
    lake.run(**text, bad_records="shop.bad2")
    with lake.table("shop.orders").update_schema() as change:
        change.make_column_optional("id")
    loose = {"schema": "part STRING, at TIMESTAMP"}
    retried = lake.job(**loose).retry()
    assert (retried.moved, retried.still_bad) == (3, 0)
    assert lake.table().scan().to_arrow().num_rows == 20
    assert (lake.bad(**loose), lake.bad("retried", **loose)) == ([], [0, 7, 14])
    retried = lake.job(**loose).retry()
    assert (retried.moved, retried.still_bad) == (0, 0)


def test_main_that_was_set_back_is_read_again(lake: Lake) -> None:
    for _ in range(3):
        lake.send(10)
        lake.run()
    table = lake.table()
    rounds = [one for one in table.snapshots() if one.summary and one.summary["added-records"] is not None]
    table.manage_snapshots().rollback_to_snapshot(rounds[0].snapshot_id).commit()
    lake.run()
    lake.check()


def test_rows_that_others_took_out_are_asked_about(lake: Lake) -> None:
    lake.send(10)
    lake.run()
    lake.table().delete("id = 1")
    lake.send(10)
    with pytest.raises((ConfigurationError, IngestFailed), match="main branch back to the snapshot before it"):
        lake.run()
    lake.run(starting_offsets="target")
    assert lake.good() == [number for number in range(20) if number % EVERY and number != 1]


def test_snapshots_that_expired_are_asked_about(lake: Lake) -> None:
    lake.send(10)
    lake.run()
    table = lake.table()
    row = {"id": [1000], "part": ["p0"], "at": [None], "tubemq": [None]}
    table.append(pa.Table.from_pydict(row, table.schema().as_arrow()))
    table = lake.table()
    current = table.current_snapshot()
    assert current is not None
    ids = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != current.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(ids).commit()
    lake.send(10)
    with pytest.raises((ConfigurationError, IngestFailed), match="starting-offsets"):
        lake.run()


def test_a_table_gets_the_columns_that_it_lacks(lake: Lake) -> None:
    lake.send(5)
    lake.run()
    more = {"schema": f"{lake.settings.schema}, extra DOUBLE"}
    with pytest.raises(ConfigurationError, match="extra"):
        lake.run(**more)
    lake.send(5)
    lake.run(**more, evolve=True)
    assert "extra" in lake.table().schema().column_names
    lake.check()
    # Spark tells no two columns apart that differ in case.
    other = {"schema": "ID INT NOT NULL, part STRING, at TIMESTAMP, extra DOUBLE, more INT"}
    with pytest.raises(ConfigurationError, match="the table has ID in another form"):
        lake.run(**other, evolve=True)
    assert "ID" not in lake.table().schema().column_names


def test_many_tables_with_counts_and_a_rest(tmp_path: Path, delta_spark: SparkSession) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("mixed")]) as tube:
        lake = Lake(tube, delta_spark, tmp_path)
        settings = replace(
            lake.settings,
            topics=("mixed",),
            table_by="attribute.kind",
            target="shop.{stream}",
            streams=("a", "b"),
            partition_by=(),
            schema="id INT",
        )
        for number in range(30):
            kind = "abc"[number % 3]
            body = encode_payload(json.dumps({"id": number}).encode(), encode_attributes({"kind": kind}, "", ""))
            tube.load("mixed", [NewMessage(0, *body)])
        Ingest(delta_spark, settings=settings).run(lambda _: None)
        Ingest(delta_spark, settings=settings).run(lambda _: None)
        for name, first in (("a", 0), ("b", 1)):
            found = lake.table(f"shop.{name}").scan().to_arrow()
            assert sorted(found.column("id").to_pylist()) == [*range(first, 30, 3)]
        counts = lake.table("shop._counts").scan().to_arrow().to_pylist()
        assert sum(one["received"] for one in counts) == 20  # nobody chose the third
