"""The ingest job and a target, a cluster, a topic or a broker that is not the one that it wrote or read before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import KEYS, Bench, Seen
from tests.tubeclient_ingest.lake import cut_history, each_commit
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.beginning import OtherCluster, UnknownRows
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.rounds import group_table
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.run import Round
from tubeclient_ingest.tables.spark_table import SparkTable

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("writer", ["spark", "tasks"])
@pytest.mark.parametrize("when", ["between two rounds", "in mid-round"])
def test_target_recreated_during_a_run(bench: Bench, when: str, writer: str) -> None:
    """At the same version: only its id is another one."""
    target = bench.settings.target
    numbers: list[int] = []

    def make_anew() -> None:
        schema = bench.spark.read.format("delta").load(target).schema
        shutil.rmtree(target)
        empty = bench.spark.createDataFrame([], schema).write.format("delta")
        empty.save(target)
        empty.mode("append").save(target)

    def around(_: Any, __: object, commit: Callable[[], None]) -> None:
        numbers.append(len(numbers))
        if numbers == [0, 1, 2] and when == "in mid-round":
            make_anew()
        commit()
        if numbers == [0, 1] and when == "between two rounds":
            make_anew()

    bench.send(40)
    if when == "in mid-round" and writer == "tasks":
        # Nothing of the round comes into the other table: the run begins there as in a new one.
        with each_commit(around):
            bench.job(max_offsets_per_trigger=10, writer=writer).run()
        assert bench.repeated_or_missing() == {}
        return
    with each_commit(around), pytest.raises(ConfigurationError) as caught:
        bench.run(max_offsets_per_trigger=10, writer=writer)
    assert caught.value.condition == "TARGET_ROWS_UNKNOWN"
    if when == "in mid-round":
        text = r"version \d of \S+ \(WRITE\) was meant for the table that was here before"
        with pytest.raises(UnknownRows, match=text):
            bench.run()
    shutil.rmtree(target)
    assert bench.rows(starting_offsets="earliest") == 40
    assert bench.repeated_or_missing() == {}


def test_upkeep_of_the_target_stops_no_job(bench: Bench) -> None:
    """Whatever its name: no file with data goes."""
    name = f"delta.`{bench.settings.target}`"
    bench.send(20)
    bench.run()
    for mode in ("name", "none"):
        bench.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')").collect()
    bench.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')").collect()
    bench.spark.sql(f"ALTER TABLE {name} DROP FEATURE typeWidening").collect()
    rows = bench.spark.read.format("delta").load(bench.settings.target)
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(bench.settings.target)
    done = [commit["operation"] for commit in DeltaTable(bench.settings.target).history()]
    assert {"REMOVE COLUMN MAPPING", "Empty Commit", "DROP FEATURE"} < set(done)
    assert done[0] == "WRITE"
    for _ in range(2):
        bench.send(20)
        assert bench.rows() == 20
    assert bench.repeated_or_missing() == {}


def test_copied_target(bench: Bench) -> None:
    """A copy of the target resumes from the offsets that the user gives."""
    first, copy = bench.settings.target, str(bench.folder / "copy")
    bench.send(20)
    bench.run()
    bench.spark.sql(f"CREATE TABLE delta.`{copy}` SHALLOW CLONE delta.`{first}`").collect()
    copied = DeltaTable(first).history()[0]
    bench.send(20)
    bench.run()
    bench.send(20)
    bench.settings = replace(bench.settings, target=copy)
    # The offsets table has the group where the first table ends, which has more.
    with pytest.raises(UnknownRows, match=rf"{copy}` is a copy of another .* endOffsets in the userMetadata"):
        bench.run()
    ends = json.dumps(json.loads(copied["userMetadata"])["tubeclient"]["endOffsets"])
    bench.job(starting_offsets=ends).reset_offsets(["clicks"])
    assert bench.rows() == 40
    assert bench.repeated_or_missing() == {}
    # From then on the copy has a history of its own.
    bench.send(20)
    assert bench.rows() == 20
    assert bench.repeated_or_missing() == {}


def test_a_catalog_that_is_not_there_is_named(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="has no catalog named nocat; SHOW CATALOGS"):
        bench.run(target="nocat.lake.clicks")


@pytest.mark.parametrize("how", ["partition_by", "cluster_by"])
def test_layout_column_that_rows_lack(bench: Bench, how: Any) -> None:
    """The job names a partition-by or cluster-by column that rows lack, and makes no table."""
    setting = how.replace("_", "-")
    with pytest.raises(ConfigurationError, match=rf"^{setting} names nope; the rows have id, tubemq$"):
        bench.run(format="json", schema="id BIGINT", **{how: ("ID", "nope")})
    assert not DeltaTable.is_deltatable(bench.settings.target)


def test_table_forgotten_by_the_catalog(bench: Bench) -> None:
    """As it is in the next process, if the catalog is in memory."""
    name = f"forgotten_{bench.folder.name}"
    bench.spark.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    place = bench.spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    kept = bench.folder / "kept"
    shutil.move(place.removeprefix("file:"), kept)
    bench.spark.sql(f"DROP TABLE {name}")
    shutil.move(kept, place.removeprefix("file:"))
    with pytest.raises(
        IngestFailed, match=rf"/{name}'\) is not empty .*\. If it is a Delta table, the catalog forgot it"
    ):
        bench.run(target=f"default.{name}")


def test_name_moved_to_another_table(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks write to a folder. The other table gets all rows, as a new one."""
    monkeypatch.setattr("tubeclient_ingest.tables.log_table._ASK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("tubeclient_ingest.rounds.group_table.READ_AGAIN_SECONDS", 0.0)
    name = f"given_{bench.folder.name}"
    bench.send(60)

    def give(place: str, columns: str) -> None:
        bench.spark.sql(f"DROP TABLE IF EXISTS {name}").collect()
        bench.spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{bench.folder / place}' AS {columns}").collect()

    bench.run(target=str(bench.folder / "columns"), consumer_group="other")
    none = f"SELECT * FROM delta.`{bench.folder / 'columns'}` LIMIT 0"
    give("first", none)
    seen = Seen(bench, lambda _: give("second", none) if len(seen.rounds) == 1 else None)
    bench.job(target=f"default.{name}", max_offsets_per_trigger=20, writer="tasks").run(seen)
    bench.settings = bench.job(target=str(bench.folder / "second")).settings
    assert bench.repeated_or_missing() == {}
    bench.spark.sql(f"DROP TABLE {name}").collect()


def test_concurrent_table_creation(bench: Bench) -> None:
    """No job fails if several make the same table at the same moment."""
    columns = bench.spark.createDataFrame([], "id BIGINT").schema
    start = Barrier(4)

    def make(number: int) -> None:
        start.wait(60)
        SparkTable(bench.spark, str(bench.folder / f"made{number // 4}")).create(columns)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(40)))


def test_other_and_moved_clusters(bench: Bench) -> None:
    """The job refuses another cluster, but goes on if former-masters says that it moved."""
    east = bench.tube.master_address
    bench.send(20)
    bench.run()
    with EmbeddedTubeMQ(bench.folder / "west", [TopicConfig("clicks", 2, 1)]) as west:
        other = Bench(west, bench.spark, bench.folder)
        other.sent = bench.sent
        other.send(40)
        with pytest.raises(OtherCluster, match=rf"group clicks_etl .* former-masters to {east}$"):
            other.run()
        assert other.rows(consumer_group="clicks_west") == 40
        assert other.repeated_or_missing() == {}
    bench.tube.stop()
    with EmbeddedTubeMQ(bench.folder / "tube") as tube:
        moved = Bench(tube, bench.spark, bench.folder)
        moved.sent = other.sent
        moved.send(20)
        with pytest.raises(OtherCluster):
            moved.run()
        assert moved.rows(former_masters=east) == 20
        moved.send(20)
        # Its rows name the new masters by now.
        assert moved.rows() == 20
        assert moved.repeated_or_missing() == {}


def test_recreated_topic(bench: Bench) -> None:
    """The job reads a recreated topic from its beginning once the user resets its offsets."""
    bench.send(60)
    bench.run()
    before = DeltaTable(bench.settings.target).version()
    bench.tube.delete_topic("clicks")
    bench.tube.create_topic(TopicConfig("clicks", 2, 1))
    bench.send(20)
    with pytest.raises(IngestFailed, match=r"recreated.* reset its offsets once .--reset-offsets TOPIC, or"):
        bench.run()
    with pytest.raises(ConfigurationError, match="cannot reset the offsets of views, which the job does not read"):
        bench.job().reset_offsets(["views"])
    assert bench.job().reset_offsets(["clicks"]) == "begins at earliest in clicks"
    assert [one.rows for one in bench.run(max_offsets_per_trigger=10)] == [10, 10]
    assert bench.repeated_or_missing() == {}
    bench.send(20)
    assert bench.rows() == 20
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 20)
    assert bench.repeated_or_missing() == {}
    bench.send(60)
    bench.run()
    # The offsets of that version are those of the first topic.
    bench.restore(before)
    with pytest.raises(UnknownRows, match=r"end at offsets from before clicks was reset .* Or reset the offsets"):
        bench.run()
    bench.job().reset_offsets(["clicks"])
    assert bench.rows() == 100
    assert bench.repeated_or_missing() == {}


def test_absent_broker(bench: Bench) -> None:
    """With failOnDataLoss false the job goes on without a broker and reads its rows later."""
    assert bench.tube.add_broker() == 2
    bench.send(20)
    bench.send(20, broker_id=2)
    bench.run()
    bench.tube.remove_broker(2)
    bench.send(20)
    with pytest.raises(Exception, match=r"2:clicks:0, 2:clicks:10000, .* failOnDataLoss=false"):
        bench.run()
    lenient = {**bench.settings.source_options, "failOnDataLoss": "false"}
    assert bench.rows(source_options=lenient) == 20
    assert bench.tube.add_broker() == 2
    bench.send(20, broker_id=2)
    assert bench.rows() == 20
    assert bench.rows() == 0
    assert bench.repeated_or_missing() == {}


def test_overwritten_rows(bench: Bench) -> None:
    """As the error says to do."""
    name = f"delta.`{bench.settings.target}`"
    bench.send(20)
    bench.run()
    rows = bench.spark.read.format("delta").load(bench.settings.target).limit(3)
    rows.write.format("delta").mode("overwrite").save(bench.settings.target)
    bench.send(20)
    with pytest.raises(UnknownRows, match=rf"version 3 of {name} .* RESTORE TABLE {name} TO VERSION AS OF 2, and"):
        bench.run()
    assert bench.rows(starting_offsets="target") == 20
    assert DeltaTable(bench.settings.target).count() == 23
    bench.restore(2)
    assert bench.rows() == 20
    assert bench.repeated_or_missing() == {}


def test_properties_of_a_recreated_table(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table gets the job's properties and all rows if somebody recreates it during a run."""
    monkeypatch.setattr(group_table, "READ_AGAIN_SECONDS", 0.0)
    how: dict[str, Any] = {"format": "json", "schema": "id INT, v INT", "key": ("id",), "order_by": "arrival"}
    target, away = Path(bench.settings.target), bench.folder / "away"
    bench.tube.load("clicks", [NewMessage(0, b'{"id": %d, "v": 1}' % n) for n in range(4)])

    def swap(_: Round) -> None:
        if not away.exists():
            target.rename(away)
            made = f"CREATE TABLE delta.`{target}` USING delta AS SELECT * FROM delta.`{away}` LIMIT 0"
            bench.spark.sql(made).collect()

    bench.job(**how, max_offsets_per_trigger=2).run(Seen(bench, swap))
    names = set(DeltaTable(str(target)).metadata().configuration)
    assert names >= {"tubeclient.key", "tubeclient.deletes", "tubeclient.consumerGroup.clicks_etl"}
    assert bench.rows(**how) == 0
    assert sorted(row.id for row in bench.spark.table(f"delta.`{target}`").collect()) == [0, 1, 2, 3]


@pytest.mark.parametrize("key", [(), ("id",)])
def test_column_type_changed_during_a_run(bench: Bench, key: tuple[str, ...]) -> None:
    """The job ends if somebody changes the type of a column during a run."""
    how: dict[str, Any] = {"format": "json", "schema": "id INT, v DECIMAL(10, 2)", "key": key, "evolve": True}
    how |= {"order_by": "arrival" if key else None, "writer": "spark", "max_offsets_per_trigger": 2}
    where = f"delta.`{bench.settings.target}`"
    bench.tube.load("clicks", [NewMessage(0, b'{"id": %d, "v": 12.75}' % n) for n in range(4)])

    def swap(_: Round) -> None:
        bench.spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").collect()
        bench.spark.sql(f"ALTER TABLE {where} DROP COLUMN v").collect()
        bench.spark.sql(f"ALTER TABLE {where} ADD COLUMN v DECIMAL(10, 0)").collect()

    with pytest.raises(ConfigurationError, match=r"column v of .* has type decimal\(10,0\), but the job's rows have"):
        bench.job(**how).run(Seen(bench, swap))
    assert bench.spark.table(where).count() == 2


def test_target_as_it_is_after_an_undone_reset(bench: Bench) -> None:
    """Its own offsets are of the topic before that one."""
    bench.send(40)
    bench.run()
    bench.tube.delete_topic("clicks")
    bench.tube.create_topic(TopicConfig("clicks", 2, 1))
    bench.job().reset_offsets(["clicks"])
    bench.send(60)
    bench.run()
    bench.restore(1)
    bench.send(30)
    with pytest.raises(UnknownRows, match=r"before clicks was reset .* accept the table as it is, .* target, once"):
        bench.run()
    assert bench.rows(starting_offsets="target") == 30
    assert bench.rows() == 0


@pytest.mark.parametrize("how", ["target", "group", "restored", "cut"])
def test_bad_records_of_a_replaced_table(bench: Bench, how: str) -> None:
    """A retry moves bad records from before a CREATE OR REPLACE TABLE, and only once."""
    own: dict[str, Any] = {"format": "csv", "bad_records": str(bench.folder / "bad"), "schema": "id INT"}
    bench.tube.load("clicks", [NewMessage(0, one) for one in (b"1", b"two", b"3")])
    bench.run(**own)
    where = f"delta.`{bench.settings.target}`"
    before = DeltaTable(bench.settings.target).version()
    bench.spark.sql(f"CREATE OR REPLACE TABLE {where} USING delta AS SELECT * FROM {where}").collect()
    if how == "cut":
        cut_history(Path(bench.settings.target))
    asks = "its history does not say where they end" if how == "cut" else "starting-offsets target"
    with pytest.raises(UnknownRows, match=asks):
        bench.run(**own)
    if how in ("group", "cut"):
        bench.job(**own, starting_offsets="group").reset_offsets(["clicks"])
    else:
        bench.run(**own, starting_offsets="target")
    if how == "restored":
        bench.restore(before)
    bench.tube.load("clicks", [NewMessage(0, b"4")])
    bench.run(**own)
    job = bench.job(**own, format_options={"nullValue": "two"})
    assert (job.retry(), job.retry()) == (Retried(1, 0), Retried(0, 0))
    assert sorted(map(str, (row.id for row in bench.spark.table(where).collect()))) == ["1", "3", "4", "None"]
