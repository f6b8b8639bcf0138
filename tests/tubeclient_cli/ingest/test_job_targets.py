"""The ingest job and a target, a cluster, a topic or a broker that is not the one that it wrote or read before."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_cli.ingest.bench import KEYS, Bench
from tubeclient_cli.ingest.sink_check import OtherCluster, UnknownRows
from tubeclient_cli.ingest.target_table import SparkTargetTable

pytestmark = pytest.mark.spark


def test_one_checkpoint_with_one_target_then_another_then_the_first(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    other = str(bench.folder / "other")
    bench.send(20)
    bench.run("one")
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"\[ROWS_WOULD_BE_MISSING\] batch 1 .* Is it another table"):
        bench.run("one", target=other)
    bench.send(20)
    assert sum(event.rows for event in bench.run("one")) == 40
    assert bench.repeated_or_missing() == {}


def test_a_target_that_was_dropped_is_not_gone_on_with_by_an_old_checkpoint(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    bench.send(20)
    bench.run("one")
    shutil.rmtree(bench.settings.target)
    bench.send(20)
    with pytest.raises(
        StreamingQueryException, match=r"\[ROWS_WOULD_BE_MISSING\] batch 1 .* Start with a new checkpoint"
    ):
        bench.run("one")
    assert sum(event.rows for event in bench.run("two", starting_offsets="earliest")) == 40
    assert bench.repeated_or_missing() == {}


@pytest.mark.parametrize("when", ["between two batches", "in mid-batch"])
def test_a_target_that_is_made_anew_while_the_job_runs_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """At the same version: only its id is another one."""
    from pyspark.errors import StreamingQueryException

    target, write = bench.settings.target, SparkTargetTable.append
    numbers: list[int] = []

    def make_anew() -> None:
        schema = bench.spark.read.format("delta").load(target).schema
        shutil.rmtree(target)
        bench.spark.createDataFrame([], schema).write.format("delta").save(target)

    def append(table: SparkTargetTable, *given: Any, **named: Any) -> int | None:
        numbers.append(len(numbers))
        if numbers == [0, 1] and when == "in mid-batch":
            make_anew()
        written = write(table, *given, **named)
        if numbers == [0] and when == "between two batches":
            make_anew()
        return written

    bench.send(40)
    monkeypatch.setattr(SparkTargetTable, "append", append)
    with pytest.raises(StreamingQueryException) as caught:
        bench.run("one", max_offsets_per_trigger=10)
    monkeypatch.undo()
    assert DeltaTable(target).count() == (10 if when == "in mid-batch" else 0)
    condition = "TARGET_ROWS_UNKNOWN" if when == "in mid-batch" else "ROWS_WOULD_BE_MISSING"
    assert f"[{condition}]" in str(caught.value)
    if when == "in mid-batch":
        with pytest.raises(
            UnknownRows, match=r"version 1 of \S+ \(WRITE\) was meant for the table that was here before"
        ):
            bench.run("two")
        bench.spark.sql(f"RESTORE TABLE delta.`{target}` TO VERSION AS OF 0").collect()
        assert sum(event.rows for event in bench.run("two")) == 40
    else:
        assert sum(event.rows for event in bench.run("two", starting_offsets="earliest")) == 40
    assert bench.repeated_or_missing() == {}


def test_upkeep_of_the_target_stops_no_job(bench: Bench) -> None:
    """Whatever its name: no file with data goes."""
    name = f"delta.`{bench.settings.target}`"
    bench.send(20)
    bench.run("one")
    for mode in ("name", "none"):
        bench.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')").collect()
    bench.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')").collect()
    bench.spark.sql(f"ALTER TABLE {name} DROP FEATURE typeWidening").collect()
    rows = bench.spark.read.format("delta").load(bench.settings.target)
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(bench.settings.target)
    done = [commit["operation"] for commit in DeltaTable(bench.settings.target).history()]
    assert {"REMOVE COLUMN MAPPING", "Empty Commit", "DROP FEATURE"} < set(done)
    assert done[0] == "WRITE"
    for checkpoint in ("one", "two"):
        bench.send(20)
        assert sum(event.rows for event in bench.run(checkpoint)) == 20
    assert bench.repeated_or_missing() == {}


def test_a_copy_of_the_target_is_gone_on_with_from_where_the_user_says(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    first, copy = bench.settings.target, str(bench.folder / "copy")
    bench.send(20)
    bench.run("one")
    bench.spark.sql(f"CREATE TABLE delta.`{copy}` SHALLOW CLONE delta.`{first}`").collect()
    bench.send(20)
    bench.run("one")
    bench.send(20)
    bench.settings = replace(bench.settings, target=copy)
    # The offsets table has the group where the first table ends, which has more.
    for checkpoint in ("one", "two"):
        with pytest.raises(UnknownRows, match=rf"{copy} is a copy of another .* endOffsets in the userMetadata"):
            bench.run(checkpoint)
    with pytest.raises(
        StreamingQueryException, match=r"\[TARGET_ROWS_UNKNOWN\] batch 2 .* is a copy of another .* endOffsets in"
    ):
        bench.run("one", starting_offsets="group")
    copied = DeltaTable(first).history()[-1]
    ends = json.dumps(json.loads(copied["userMetadata"])["tubeclient"]["endOffsets"])
    assert sum(event.rows for event in bench.run("two", starting_offsets=ends)) == 40
    assert bench.repeated_or_missing() == {}
    # From then on the copy has a history of its own.
    bench.send(20)
    assert sum(event.rows for event in bench.run("three")) == 20
    assert bench.repeated_or_missing() == {}


def test_a_copy_has_all_that_the_group_has_read_where_the_user_says_so(bench: Bench) -> None:
    copy = str(bench.folder / "copy")
    bench.send(20)
    bench.run("one")
    bench.spark.sql(f"CREATE TABLE delta.`{copy}` SHALLOW CLONE delta.`{bench.settings.target}`").collect()
    bench.send(20)
    bench.settings = replace(bench.settings, target=copy)
    assert sum(event.rows for event in bench.run("two", starting_offsets="group")) == 20
    assert bench.repeated_or_missing() == {}


def test_another_cluster_is_refused_and_one_that_moved_is_gone_on_with(bench: Bench) -> None:
    east = bench.tube.master_address
    bench.send(20)
    bench.run("one")
    with EmbeddedTubeMQ(bench.folder / "west", [TopicConfig("clicks", 2, 1)]) as west:
        other = Bench(west, bench.spark, bench.folder)
        other.sent = bench.sent
        other.send(40)
        for checkpoint in ("one", "west"):
            with pytest.raises(OtherCluster, match=rf"group clicks_etl .* --former-masters {east}$"):
                other.run(checkpoint)
        assert sum(event.rows for event in other.run("west", consumer_group="clicks_west")) == 40
        assert other.repeated_or_missing() == {}
    bench.tube.stop()
    with EmbeddedTubeMQ(bench.folder / "tube") as tube:
        moved = Bench(tube, bench.spark, bench.folder)
        moved.sent = other.sent
        moved.send(20)
        with pytest.raises(OtherCluster):
            moved.run("one")
        for checkpoint in ("one", "two"):
            assert sum(event.rows for event in moved.run(checkpoint, former_masters=east)) == 20
            moved.send(20)
        # Its rows name the new masters by now.
        assert sum(event.rows for event in moved.run("two")) == 20
        assert moved.repeated_or_missing() == {}


def test_a_topic_that_was_made_anew_is_begun_anew_where_the_user_says_so(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    bench.send(60)
    bench.run("one")
    bench.tube.delete_topic("clicks")
    bench.tube.create_topic(TopicConfig("clicks", 2, 1))
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"DataLoss: .* deleted or created again"):
        bench.run("two")
    lossy = {**bench.settings.source_options, "failOnDataLoss": "false"}
    with pytest.raises(StreamingQueryException, match=r"RowsWouldRepeat: .* --begin-anew TOPIC"):
        bench.run("three", source_options=lossy)
    anew = ("clicks",)
    assert [event.rows for event in bench.run("four", begin_anew=anew, max_offsets_per_trigger=10)] == [10, 10]
    assert bench.said[-1].endswith("begins at earliest in clicks (which is begun anew)")
    assert bench.repeated_or_missing() == {}
    # The same command once more goes on; and without the word the table counts again.
    bench.send(20)
    assert sum(event.rows for event in bench.run("four", begin_anew=anew)) == 20
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 20)
    bench.send(20)
    assert sum(event.rows for event in bench.run("five")) == 20
    assert bench.repeated_or_missing() == {}


def leave_broker_away(bench: Bench) -> dict[str, str]:
    """Have checkpoint one read two brokers, and take broker 2 away; returns the source's options that accept that."""
    assert bench.tube.add_broker() == 2
    bench.send(20)
    bench.send(20, broker_id=2)
    bench.run("one")
    bench.tube.remove_broker(2)
    bench.send(20)
    return {**bench.settings.source_options, "failOnDataLoss": "false"}


def test_a_broker_that_is_away_is_gone_on_with_where_the_table_ends(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    lenient = leave_broker_away(bench)
    with pytest.raises(StreamingQueryException, match=r"\[DATA_LOSS\] partition 2:clicks:0 .* \(1 more of that broker"):
        bench.run("one")
    assert sum(event.rows for event in bench.run("one", source_options=lenient)) == 20
    assert bench.tube.add_broker() == 2
    bench.send(20, broker_id=2)
    assert sum(event.rows for event in bench.run("one")) == 20
    assert bench.repeated_or_missing() == {}


def test_a_checkpoint_that_begins_while_a_broker_is_away_goes_on_with_it(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    lenient = leave_broker_away(bench)
    with pytest.raises(StreamingQueryException, match=r"names 2:clicks:0, 2:clicks:10000, .* failOnDataLoss=false"):
        bench.run("two")
    assert sum(event.rows for event in bench.run("two", source_options=lenient)) == 20
    assert bench.tube.add_broker() == 2
    bench.send(20, broker_id=2)
    assert sum(event.rows for event in bench.run("two")) == 20
    assert sum(event.rows for event in bench.run("three")) == 0
    assert bench.repeated_or_missing() == {}
