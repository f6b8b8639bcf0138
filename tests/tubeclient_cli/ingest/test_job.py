"""The ingest job on Spark, Delta and an embedded TubeMQ: each message once, whatever happens to the job."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from embedded_tubemq import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from spark_source.offsets.offsets import Offsets
from spark_source.session_confs import session_confs
from tests.tubeclient_cli.ingest.bench import KEYS, Bench
from tubeclient.wire.payload import encode_payload
from tubeclient_cli.bad_records.retry import retry_bad_records
from tubeclient_cli.ingest.batch_writer import BatchWriter
from tubeclient_cli.ingest.job import IngestSettings, run_ingest
from tubeclient_cli.ingest.progress import BatchEvent
from tubeclient_cli.ingest.sink import DeltaSink
from tubeclient_cli.ingest.sink_check import UnknownRows
from tubeclient_cli.ingest.sink_record import SinkRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def test_rows_and_their_end_offsets_are_in_one_commit(bench: Bench) -> None:
    bench.send(50)
    events = bench.run(max_offsets_per_trigger=20)
    assert [event.rows for event in events] == [20, 20, 10]
    assert [event.rows_behind for event in events] == [30, 10, 0]
    assert bench.repeated_or_missing() == {}
    query_id = json.loads((bench.folder / "checkpoint" / "metadata").read_text())["id"]
    written = [
        json.loads(commit["userMetadata"])["tubeclient"] for commit in DeltaTable(bench.settings.target).history()
    ]
    assert [(one["queryId"], one["batchId"]) for one in written] == [(query_id, 2), (query_id, 1), (query_id, 0)]
    ends = [Offsets.from_dict(one["endOffsets"]) for one in written]
    assert ends == [dict.fromkeys(KEYS, 28 * 25), dict.fromkeys(KEYS, 28 * 20), dict.fromkeys(KEYS, 28 * 10)]
    # AvailableNow asks once more after its last batch, which tells the table that the batch is complete.
    assert bench.table_positions() == ends[0]
    # A run that finds nothing new knows that nothing is behind.
    again = run_ingest(bench.spark, bench.settings)
    assert (again.batches, again.rows_behind) == (0, 0)


CODE_LIMIT = "spark.sql.codegen.hugeMethodLimit"


@pytest.mark.parametrize(("own", "within"), [(None, "8000"), ("9000", "8000"), ("7000", "7000")])
def test_java_compiles_what_spark_makes_of_a_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, own: str | None, within: str
) -> None:
    limits = []
    honest = DeltaSink.append

    def append(sink: DeltaSink, rows: DataFrame, record: SinkRecord) -> SinkRecord:
        limits.append(rows.sparkSession.conf.get(CODE_LIMIT))
        return honest(sink, rows, record)

    monkeypatch.setattr(DeltaSink, "append", append)
    monkeypatch.setattr(
        BatchWriter, "retry", lambda writer, *_, **__: limits.append(writer._spark.conf.get(CODE_LIMIT))
    )
    with session_confs(bench.spark, {} if own is None else {CODE_LIMIT: own}):
        before = bench.spark.conf.get(CODE_LIMIT)
        bench.send(4)
        bad_records = str(bench.folder / "bad")
        bench.run(bad_records=bad_records)
        retry_bad_records(bench.spark, replace(bench.settings, bad_records=bad_records), None)
        assert bench.spark.conf.get(CODE_LIMIT) == before
    assert limits == [within] * 2


def test_new_checkpoints_go_on_where_the_table_ends_and_their_batch_0_is_written(bench: Bench) -> None:
    for number in range(3):
        bench.send(20)
        events = bench.run(f"checkpoint-{number}")
        assert [(event.batch_id, event.rows) for event in events] == [(0, 20)]
        assert bench.repeated_or_missing() == {}


def test_the_sink_is_believed_where_the_offsets_table_is_gone_or_behind(bench: Bench) -> None:
    bench.send(20)
    bench.run("checkpoint-1")
    shutil.rmtree(bench.folder / "offsets")
    bench.send(20)
    bench.run("checkpoint-2")
    assert bench.repeated_or_missing() == {}
    # Behind by a batch, as after a kill: what it said after the first run.
    key = GroupKey("clicks_etl", ["clicks"])
    run = OffsetsTable(str(bench.folder / "offsets")).open_run(key, 2, force=True)  # the job has ended
    run.record([PartitionProgress(key, 28 * 10) for key in KEYS])
    bench.send(20)
    assert [event.rows for event in bench.run("checkpoint-3")] == [20]
    assert bench.repeated_or_missing() == {}
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 30)
    bench.run("checkpoint-3")
    by_table = "where the group's rows in the target end, in 2 partitions of clicks"
    query_id = json.loads((bench.folder / "checkpoint-3" / "metadata").read_text())["id"]
    assert bench.said.pop() == f"the checkpoint goes on after batch 0 of query {query_id}, by its own offsets"
    assert bench.said == [
        f"the checkpoint is new and begins {where}"
        for where in ("at earliest in clicks (as nothing is known of the group there)", by_table, by_table)
    ]


def test_the_offsets_table_is_believed_where_there_is_no_sink(bench: Bench) -> None:
    bench.send(20)
    bench.run("checkpoint-1")
    bench.send(20)
    bench.run("checkpoint-2", target=str(bench.folder / "second"))
    assert DeltaTable(str(bench.folder / "second")).count() == 20
    assert bench.said[1].endswith("begins where the offsets table has the group, in 2 partitions of clicks")


def test_a_batch_that_was_committed_is_not_written_again(bench: Bench) -> None:
    """Killed between the sink's commit and Spark's own: Spark runs the batch once more."""

    def forget_commit(batch_id: int) -> None:
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (bench.folder / "checkpoint" / "commits" / name).unlink()

    bench.send(20)
    bench.run()
    # Batch 0 is repeated from where this run says, batch 1 from where batch 0 ended.
    for batch_id in (0, 1):
        forget_commit(batch_id)
        bench.send(20)
        bench.run()
        assert f"goes on with batch {batch_id} of query" in bench.said[-1]
        assert bench.repeated_or_missing() == {}
    # The same kill, and then a new checkpoint instead.
    forget_commit(2)
    bench.send(20)
    bench.run("checkpoint-2")
    assert bench.repeated_or_missing() == {}


def test_sparks_logs_may_have_their_second_version(bench: Bench) -> None:
    """The commit log through the same kill. The offset log without: Spark 4.2.0 does not start again after one."""

    def versions(checkpoint: str, batch_id: int) -> list[str]:
        logs = [bench.folder / checkpoint / name / str(batch_id) for name in ("offsets", "commits")]
        return [path.read_text().partition("\n")[0] for path in logs]

    with session_confs(bench.spark, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}):
        for number in range(3):
            bench.send(20)
            bench.run()
            assert versions("checkpoint", number) == ["v1", "v2"]
            for name in (f"{number}", f".{number}.crc"):
                (bench.folder / "checkpoint" / "commits" / name).unlink()
    with session_confs(bench.spark, {"spark.sql.streaming.offsetLog.formatVersion": "2"}):
        for number in range(2):
            bench.send(20)
            bench.run("checkpoint-2")
            assert versions("checkpoint-2", number) == ["v2", "v1"]
    assert bench.repeated_or_missing() == {}


def test_a_batch_whose_commit_failed_is_written_by_the_next_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import StreamingQueryException

    def fail(*_: object) -> None:
        raise OSError("the lake is dry")

    bench.send(20)
    with monkeypatch.context() as patched:
        patched.setattr(DeltaSink, "append", fail)
        with pytest.raises(StreamingQueryException, match="the lake is dry"):
            bench.run()
    bench.send(20)
    bench.run()
    assert bench.repeated_or_missing() == {}


def test_an_old_checkpoint_is_refused_once_a_newer_one_has_written(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    bench.send(20)
    bench.run("old")
    bench.send(20)
    bench.run("new")
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"RowsWouldRepeat: .* Start with a new checkpoint"):
        bench.run("old")
    bench.run("new")
    assert bench.repeated_or_missing() == {}


def test_a_checkpoint_that_was_put_back_loses_and_repeats_nothing(bench: Bench) -> None:
    """Restored from an older copy: Delta would skip its next batch by the number, whatever is in it."""
    from pyspark.errors import StreamingQueryException

    bench.send(20)
    bench.run()
    shutil.copytree(bench.folder / "checkpoint", bench.folder / "copy")
    bench.send(20)
    bench.run()
    bench.send(20)
    with pytest.raises(StreamingQueryException, match=r"RowsWouldRepeat: .* Start with a new checkpoint"):
        bench.run("copy")
    assert [event.rows for event in bench.run("new")] == [20]
    assert bench.repeated_or_missing() == {}


def test_a_topic_that_was_left_out_for_a_while_goes_on_where_its_rows_end(bench: Bench) -> None:
    bench.tube.create_topic(TopicConfig("views"))
    runs = [(("clicks", "views"), 10), (("clicks",), 5), (("clicks", "views"), 15)]
    for number, (topics, added) in enumerate(runs):
        bench.send(5)
        bench.tube.load("views", [NewMessage(0, b"%d" % (1_000 + 5 * number + n)) for n in range(5)])
        # Without the offsets table: the sink alone has to know.
        events = bench.run(f"checkpoint-{number}", topics=topics, offsets_table=None)
        assert sum(event.rows for event in events) == added
    assert bench.repeated_or_missing() == {}


def test_a_table_whose_history_was_removed_is_not_guessed_about(bench: Bench) -> None:
    """Delta removes commits after 30 days, and with them what this group has written."""
    bench.send(20)
    bench.run("one")
    bench.run("other", consumer_group="other_group")
    table = DeltaTable(bench.settings.target)
    table.create_checkpoint()
    for version in range(table.version()):
        (Path(bench.settings.target) / "_delta_log" / f"{version:020}.json").unlink()
    bench.send(20)
    with pytest.raises(UnknownRows, match=r"its history does not say where they end.* --starting-offsets"):
        bench.run("two", offsets_table=None, starting_offsets="earliest")
    # The offsets table knows, and so does the user.
    assert [event.rows for event in bench.run("three")] == [20]


def restore(bench: Bench, version: int) -> None:
    """As somebody does it who finds the newest rows wrong."""
    bench.spark.sql(f"RESTORE TABLE delta.`{bench.settings.target}` TO VERSION AS OF {version}").collect()


def test_a_target_that_was_put_back_gets_the_rows_that_it_lost(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    bench.send(60)
    bench.run("one", max_offsets_per_trigger=20)
    restore(bench, 0)
    bench.send(20)
    # The checkpoint is past what the table has.
    with pytest.raises(StreamingQueryException, match=r"RowsWouldBeMissing: .* 1:clicks:0 would be read from 840, and"):
        bench.run("one")
    # A new one goes by the table, whatever the offsets table says.
    assert sum(event.rows for event in bench.run("two")) == 60
    assert "where the group's rows in the target end, in 2 partitions" in bench.said[-1]
    assert bench.repeated_or_missing() == {}


def test_a_target_that_is_put_back_while_the_job_runs_ends_it(bench: Bench) -> None:
    from pyspark.errors import StreamingQueryException

    def put_back(event: BatchEvent) -> None:
        if event.batch_id == 1:
            restore(bench, 0)
            bench.send(20)

    bench.send(40)
    settings = replace(bench.settings, max_offsets_per_trigger=20, trigger="0s")
    with pytest.raises(StreamingQueryException, match=r"RowsWouldBeMissing: .* Start with a new checkpoint"):
        run_ingest(bench.spark, settings, put_back)
    bench.run("two")
    assert bench.repeated_or_missing() == {}


def test_rows_that_somebody_deleted_are_for_the_user_to_judge(bench: Bench) -> None:
    bench.send(20)
    bench.run("one")
    bench.spark.sql(f"DELETE FROM delta.`{bench.settings.target}` WHERE CAST(value AS STRING) = '3'").collect()
    # A checkpoint goes on: it does not go by the table.
    bench.send(20)
    bench.run("one")
    assert bench.repeated_or_missing() == {3: 0}
    bench.spark.sql(f"DELETE FROM delta.`{bench.settings.target}`").collect()
    with pytest.raises(UnknownRows, match=r"\(DELETE\) removed rows .* --starting-offsets target: what it lacks"):
        bench.run("two")
    bench.send(20)
    assert sum(event.rows for event in bench.run("three", starting_offsets="target")) == 20
    bench.spark.sql(f"DELETE FROM delta.`{bench.settings.target}`").collect()
    assert sum(event.rows for event in bench.run("four", starting_offsets='{"default": "earliest"}')) == 60
    assert bench.repeated_or_missing() == {}


def test_a_first_run_begins_at_a_time(bench: Bench) -> None:
    for numbers, time in ((range(20), "202611211030"), (range(20, 30), "202611211031")):
        written = [(n, *encode_payload(b"%d" % n, f"$msgType$=a,$msgTime$={time}")) for n in numbers]
        bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), payload, flag) for n, payload, flag in written])
    begin, zoned = "2026-11-21T10:31Z", {**bench.settings.source_options, "messageTimeZone": "UTC"}
    assert sum(event.rows for event in bench.run("one", starting_offsets=begin, source_options=zoned)) == 10
    # For a later one the table counts.
    assert sum(event.rows for event in bench.run("two", starting_offsets=begin, source_options=zoned)) == 0
    assert bench.said[-1].endswith("where the group's rows in the target end, in 2 partitions of clicks")


def test_a_source_that_begins_elsewhere_than_it_was_told_is_found_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes it: the first batch is measured by where Spark's own plan begins."""
    from pyspark.errors import StreamingQueryException

    bench.send(40)
    bench.run("one")
    bench.send(40)
    options = IngestSettings.options
    ends = 28 * 20
    for offset, error in ((ends - 28, "RowsWouldRepeat"), (ends + 28, "RowsWouldBeMissing")):

        def begin_at(settings: IngestSettings, starting: str, offset: int = offset) -> dict[str, str]:
            return {**options(settings, starting), "startingOffsets": json.dumps({str(key): offset for key in KEYS})}

        with monkeypatch.context() as patched:
            patched.setattr(IngestSettings, "options", begin_at)
            with pytest.raises(
                StreamingQueryException, match=rf"{error}: .* 1:clicks:0 .* {offset}.* ends at {ends}\b"
            ):
                bench.run(f"at-{offset}", offsets_table=None)
    bench.run("two")
    assert bench.repeated_or_missing() == {}


def test_groups_share_a_table_and_other_commits_do_not_matter(bench: Bench) -> None:
    bench.send(20)
    bench.run("one")
    DeltaTable(bench.settings.target).optimize.compact()
    bench.run("other", consumer_group="other_group")
    assert DeltaTable(bench.settings.target).count() == 40
    bench.send(20)
    assert [event.rows for event in bench.run("one-again")] == [20]


def test_a_stop_waits_for_the_running_batch_and_the_rest_comes_later(bench: Bench) -> None:
    bench.send(60)
    stop = threading.Event()
    settings = replace(bench.settings, max_offsets_per_trigger=20, trigger="0s")
    order = []

    def on_batch(event: BatchEvent) -> None:
        order.append(event.batch_id)
        stop.set()

    summary = run_ingest(bench.spark, settings, on_batch, stop, on_first=lambda: order.append(-1))
    assert order[:2] == [-1, 0]  # it is told while the batch runs
    assert order.count(-1) == 1
    assert summary.stopped
    assert summary.rows in (20, 40)  # 40 where the second batch was under way
    bench.run("next")
    assert bench.repeated_or_missing() == {}


def test_a_stop_leaves_the_offsets_table_where_the_rows_end(bench: Bench) -> None:
    """Spark tells the planner of a batch with the next one, and that does not come."""

    def run_one_batch(checkpoint: str) -> int:
        stop = threading.Event()
        settings = replace(bench.settings, checkpoint=str(bench.folder / checkpoint), trigger="1h")
        return run_ingest(bench.spark, settings, lambda _: stop.set(), stop).rows

    for number in (1, 2):
        bench.send(20)
        assert run_one_batch(f"checkpoint-{number}") == 20
        assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 10 * number)
        kept = OffsetsTable(str(bench.folder / "offsets")).latest(GroupKey("clicks_etl", ["clicks"]))
        assert kept is not None
        assert kept.source_count == 2
    bench.send(20)
    assert [event.rows for event in bench.run("third")] == [20]
    assert bench.repeated_or_missing() == {}


def test_a_stop_while_nothing_comes_ends_at_once(bench: Bench) -> None:
    stop = threading.Event()
    threading.Timer(3.0, stop.set).start()
    summary = run_ingest(bench.spark, replace(bench.settings, trigger="0s"), stop=stop)
    # Spark runs a first batch even of no rows.
    assert (summary.stopped, summary.rows) == (True, 0)
    assert run_ingest(bench.spark, bench.settings, stop=stop).stopped
