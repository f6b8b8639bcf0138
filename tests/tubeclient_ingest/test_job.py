"""The ingest job on Spark, Delta and an embedded TubeMQ: each message once, whatever happens to the job."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from spark_source.offsets.offsets import Offsets
from spark_source.session_confs import session_confs
from tests.tubeclient_ingest.bench import KEYS, Bench, Seen
from tests.tubeclient_ingest.lake import each_commit
from tests.waiting import wait_for
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import encode_payload
from tubeclient_ingest.commits.beginning import OvertakenRun, UnknownRows
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.rounds.one_table import OneTable
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.run import Engine, Event, Reading, Round, Run

pytestmark = pytest.mark.spark


def records(bench: Bench) -> list[dict[str, Any]]:
    """Those of the target's commits, newest first."""
    texts = [commit.get("userMetadata") for commit in DeltaTable(bench.settings.target).history()]
    return [json.loads(text)["tubeclient"] for text in texts if text]


@pytest.mark.merge
def test_rows_and_their_end_offsets_are_in_one_commit(bench: Bench) -> None:
    bench.send(50)
    rounds = bench.run(max_offsets_per_trigger=20)
    assert [(one.rows, one.rows_behind, one.sequence) for one in rounds] == [(20, 30, 2), (20, 10, 3), (10, 0, 4)]
    assert bench.repeated_or_missing() == {}
    written = records(bench)
    assert [one["sequence"] for one in written] == [4, 3, 2, 1]
    assert len({one["runId"] for one in written}) == 1
    ends = [Offsets.from_dict(one["endOffsets"]) for one in written]
    assert ends == [dict.fromkeys(KEYS, 28 * number) for number in (25, 20, 10, 0)]
    assert bench.table_positions() == ends[0]
    # A run that finds nothing new writes nothing, and knows that nothing is behind.
    again = bench.job().run()
    assert (again.rounds, again.rows_behind, len(records(bench))) == (0, 0, 4)


def test_runs_go_on_where_the_table_ends(bench: Bench) -> None:
    for number in range(3):
        bench.send(20)
        assert [one.rows for one in bench.run()] == [20]
        assert bench.repeated_or_missing() == {}
        if number == 1:
            shutil.rmtree(bench.folder / "offsets")
    # Behind by a round, as after a kill.
    key = GroupKey("clicks_etl", ["clicks"])
    run = OffsetsTable(str(bench.folder / "offsets")).open_run(key, 2, force=True)  # the job has ended
    run.record([PartitionProgress(key, 28 * 10) for key in KEYS])
    bench.send(20)
    assert bench.rows() == 20
    assert bench.repeated_or_missing() == {}
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 40)
    by_table = "begins where the group's rows in the target end, in 2 partitions of clicks"
    assert bench.said[:2] == ["begins at earliest in clicks", by_table]


def test_replacement_of_a_running_job(bench: Bench) -> None:
    """It waits until the running one has ended, and goes on where that one's rows end."""
    bench.send(20)
    old, new = bench.job(trigger="200ms").start(), bench.job(trigger="200ms")
    wait_for(lambda: old.lastProgress is not None, "a round", seconds=60)
    new.start()
    wait_for(lambda: new.status.startswith("begins"), "its look at the target", seconds=60)
    bench.send(20)
    wait_for(lambda: old.summary.rows == 40, "its last rows", seconds=60)
    time.sleep(2.5)  # a younger look would not be taken again
    old.stop()
    assert old.exception() is None
    bench.send(20)
    wait_for(lambda: new.summary.rows == 20 or not new.isActive, "the other one's rows", seconds=60)
    new.stop()
    assert new.exception() is None
    assert bench.repeated_or_missing() == {}


@pytest.mark.parametrize("changes", [{}, {"partition_by": ("topic",)}])
def test_tables_whose_maker_died(bench: Bench, changes: dict[str, Any]) -> None:
    """The job makes the tables of a run that was killed before their first commit."""
    bench.send(20)
    for name in ("table", "bad"):
        (bench.folder / name / "_delta_log").mkdir(parents=True)
    assert bench.rows(bad_records=str(bench.folder / "bad"), **changes) == 20
    assert bench.repeated_or_missing() == {}


def test_table_that_only_spark_can_make_again(bench: Bench) -> None:
    """The error says what to remove."""
    bench.send(20)
    (log := bench.folder / "table" / "_delta_log").mkdir(parents=True)
    with pytest.raises(IngestFailed, match=r"has a _delta_log without a commit.* Remove that _delta_log"):
        bench.run(cluster_by=("topic",))
    log.rmdir()
    assert bench.rows(cluster_by=("topic",)) == 20


def test_killed_first_round_from_latest(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """At `latest`, without an offsets table: the first commit says where that was."""
    bench.send(20)
    append = Sink.append

    def fail(sink: Sink, rows: Any, record: SinkRecord, state: SinkState, *write: Any) -> Any:
        if state.record is not None:
            raise OSError("the lake is dry")
        after = append(sink, rows, record, state, *write)
        bench.send(10)
        return after

    with monkeypatch.context() as patched:
        patched.setattr(Sink, "append", fail)
        with pytest.raises(IngestFailed, match="the lake is dry"):
            bench.run(starting_offsets="latest", offsets_table=None, trigger="0s")
    bench.send(10)
    assert bench.rows(starting_offsets="latest", offsets_table=None) == 20
    assert bench.repeated_or_missing() == dict.fromkeys(range(20), 0)


@pytest.mark.parametrize("after", [False, True])
def test_a_round_whose_run_died_is_read_again(bench: Bench, after: bool) -> None:
    def fail(_: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        assert record is not None
        if record.sequence == 1 or after:
            commit()
        if record.sequence > 1:
            raise KeyboardInterrupt

    bench.send(20)
    with each_commit(fail), pytest.raises(KeyboardInterrupt):
        bench.run()
    bench.send(20)
    assert bench.rows() == (20 if after else 40)
    assert bench.repeated_or_missing() == {}


def test_a_run_that_another_one_has_overtaken_ends(bench: Bench) -> None:
    """Whoever has the group at the master: of two runs that use one number, Delta takes one."""
    bench.send(20)
    bench.run()
    bench.send(20)
    settings = bench.settings
    engine = Engine(bench.spark)
    tables = Run(engine, settings).tables
    assert isinstance(tables, OneTable)
    late = tables.writer
    late.open()
    before = late.sink.read_state()
    assert bench.rows() == 20
    assert before.record is not None
    with pytest.raises(OvertakenRun, match=r"another run of group clicks_etl wrote commit 3 of run \w+ to .*table"):
        late.write(None, before.record, before)
    assert bench.repeated_or_missing() == {}


def test_topic_left_out_for_a_while(bench: Bench) -> None:
    """A topic that a run leaves out resumes where its rows end."""
    bench.tube.create_topic(TopicConfig("views"))
    runs = [(("clicks", "views"), 10), (("clicks",), 5), (("clicks", "views"), 15)]
    for number, (topics, added) in enumerate(runs):
        bench.send(5)
        bench.tube.load("views", [NewMessage(0, b"%d" % (1_000 + 5 * number + n)) for n in range(5)])
        # Without the offsets table: the target alone has to know.
        assert bench.rows(topics=topics, offsets_table=None) == added
    assert {n: count for n, count in bench.repeated_or_missing().items() if count != 1} == {}


def test_removed_history(bench: Bench) -> None:
    """Delta removes commits after 30 days, and with them what this group has written."""
    bench.send(20)
    bench.run()
    bench.run(consumer_group="other_group")
    table = DeltaTable(bench.settings.target)
    table.optimize.compact()
    table = DeltaTable(bench.settings.target)
    table.create_checkpoint()
    for version in range(table.version()):
        (Path(bench.settings.target) / "_delta_log" / f"{version:020}.json").unlink()
    bench.send(20)
    with pytest.raises(UnknownRows, match=r"its history does not say where they end.* starting-offsets"):
        bench.run(offsets_table=None, starting_offsets="earliest")
    with pytest.raises(UnknownRows):
        bench.run(starting_offsets="group")  # it may stand in the settings for good
    # The user knows that nothing was put back. A group that never wrote there begins.
    version = DeltaTable(bench.settings.target).version()
    for other in (str(bench.folder / "mistyped"), None):
        with pytest.raises(ConfigurationError, match=r"is group, but neither the offsets table nor the brokers have a"):
            bench.job(starting_offsets="group", offsets_table=other).reset_offsets(["clicks"])
    assert DeltaTable(bench.settings.target).version() == version
    bench.job(starting_offsets="group").reset_offsets(["clicks"])
    assert bench.rows() == 20
    assert bench.rows(consumer_group="third_group", offsets_table=None) == 40


def test_target_restored_between_runs(bench: Bench) -> None:
    """A restored target gets the rows it lost, whatever the offsets table says."""
    bench.send(60)
    bench.run(max_offsets_per_trigger=20)
    bench.restore(2)
    bench.send(20)
    # Whatever the offsets table says.
    assert bench.rows() == 60
    assert "where the group's rows in the target end, in 2 partitions" in bench.said[-1]
    assert bench.repeated_or_missing() == {}


@pytest.mark.parametrize("chosen", [None, '{"default": "earliest"}', "group"])
def test_target_restored_during_a_run(bench: Bench, chosen: str | None) -> None:
    """A target that somebody restores during a run gets the rows it lost."""
    job = bench.job(trigger="0s", max_offsets_per_trigger=20, starting_offsets=chosen)

    def put_back(round_: Round) -> None:
        if round_.sequence == 3:
            bench.restore(2)
            time.sleep(2.5)  # a look that is younger is believed
            bench.send(20)
        if round_.sequence == 5:
            job._stop.set()

    bench.send(40)
    seen = Seen(bench, put_back)
    job.run(seen)
    assert [one.sequence for one in seen.rounds] == [2, 3, 4, 5]
    assert bench.repeated_or_missing() == {}


def test_table_removed_during_a_run(bench: Bench) -> None:
    """The job fails and makes no table if somebody removes the target during a run."""
    bench.send(20)
    job = bench.job(trigger="0s").start()
    wait_for(lambda: job.lastProgress is not None and job.lastProgress.rows == 20, "the first round", seconds=60)
    time.sleep(3)  # the table's state is being read
    shutil.rmtree(bench.settings.target)
    time.sleep(2.5)  # a look that is younger is believed
    bench.send(20)
    with pytest.raises(ConfigurationError, match=r"there is no table at .*; start the job"):
        job.awaitTermination(60)
    assert not Path(bench.settings.target).exists()
    assert bench.rows() == 40
    assert bench.repeated_or_missing() == {}


def test_rows_that_somebody_deleted_stay_out(bench: Bench) -> None:
    name = f"delta.`{bench.settings.target}`"
    bench.send(20)
    bench.run()
    bench.spark.sql(f"DELETE FROM {name} WHERE CAST(value AS STRING) = '3'").collect()
    bench.send(20)
    assert bench.rows() == 20
    assert bench.repeated_or_missing() == {3: 0}
    bench.spark.sql(f"DELETE FROM {name}").collect()
    with pytest.raises(UnknownRows, match=r"\(DELETE\) removed rows .* starting-offsets target, once: missing rows"):
        bench.run()
    bench.send(20)
    assert bench.rows(starting_offsets="target") == 20
    assert bench.rows() == 0
    bench.spark.sql(f"DELETE FROM {name}").collect()
    by_json = {"starting_offsets": '{"default": "earliest"}'}
    with pytest.raises(UnknownRows, match="Or reset the offsets of topics"):
        bench.run(**by_json)
    bench.job(**by_json).reset_offsets(["clicks"])
    assert bench.rows() == 60
    assert bench.repeated_or_missing() == {}


def test_a_first_run_begins_at_a_time(bench: Bench) -> None:
    for numbers, at in ((range(20), "202611211030"), (range(20, 30), "202611211031")):
        written = [(n, *encode_payload(b"%d" % n, f"$msgType$=a,$msgTime$={at}")) for n in numbers]
        bench.tube.load("clicks", [NewMessage(10_000 * (n % 2), payload, flag) for n, payload, flag in written])
    begin, zoned = "2026-11-21T10:31Z", {**bench.settings.source_options, "messageTimeZone": "UTC"}
    assert bench.rows(starting_offsets=begin, source_options=zoned) == 10
    # For a later one the table counts.
    assert bench.rows(starting_offsets=begin, source_options=zoned) == 0
    assert bench.said[-1].endswith("where the group's rows in the target end, in 2 partitions of clicks")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nocatalog.default.clicks", "nocatalog"),
        ("noschema.clicks", "The schema `spark_catalog`.`noschema` cannot be found"),
        ("default.of_parquet", "format parquet, but the job writes Delta|is not a Delta table|Delta"),
    ],
)
def test_a_target_that_cannot_be_written_is_one_line(bench: Bench, target: str, reason: str) -> None:
    bench.spark.sql("CREATE TABLE IF NOT EXISTS default.of_parquet (id INT) USING parquet")
    try:
        with pytest.raises((IngestFailed, ConfigurationError), match=reason) as caught:
            bench.run(target=target)
        assert "\n" not in error_text(caught.value)
    finally:
        bench.spark.sql("DROP TABLE default.of_parquet")


def test_stop_during_a_round(bench: Bench) -> None:
    """A stop waits for the running round, and the next run reads the rest."""
    bench.send(60)
    job = bench.job(max_offsets_per_trigger=20, trigger="0s").start()
    wait_for(lambda: job.lastProgress is not None, "the first round", seconds=60)
    job.stop()
    assert (job.isActive, job.exception(), job.status) == (False, None, "stopped")
    assert job.summary.stopped
    assert job.summary.rows in (20, 40, 60)
    # The offsets table is where the rows end.
    held = Offsets.from_dict(records(bench)[0]["endOffsets"])
    assert bench.table_positions() == held
    bench.run()
    assert bench.repeated_or_missing() == {}


def test_the_session_of_the_user_keeps_its_settings(bench: Bench) -> None:
    seen: list[str] = []

    def read_state(event: Event) -> None:
        if isinstance(event, Reading):
            seen.append(bench.spark.conf.get("spark.sql.ansi.enabled") or "")

    bench.send(4)
    with session_confs(bench.spark, {"spark.sql.ansi.enabled": "true"}):
        bench.job().run(read_state)
    assert seen == ["true"]


def test_failure_of_a_background_job(bench: Bench) -> None:
    """The method awaitTermination raises the error that ended a job in another thread."""
    job = bench.job(topics=("clicks", "nothing")).start()
    with pytest.raises(Exception, match="nothing"):
        job.awaitTermination(60)
    assert getattr(job.exception(), "condition", None) == "TOPIC_NOT_FOUND"
    assert threading.active_count() < 200


def test_a_table_by_name_is_made_as_the_user_says(bench: Bench) -> None:
    bench.send(20)
    name = f"default.clicks_{bench.folder.name.replace('-', '_')}"
    made = {"partition_by": ("partitionKey",), "table_properties": {"delta.logRetentionDuration": "interval 60 days"}}
    try:
        assert bench.rows(target=name, **made) == 20
        assert bench.rows(target=name, **made) == 0
        detail = bench.spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
        assert detail.partitionColumns == ["partitionKey"]
        assert detail.properties["delta.logRetentionDuration"] == "interval 60 days"
        assert bench.spark.table(name).count() == 20
    finally:
        bench.spark.sql(f"DROP TABLE IF EXISTS {name}")
    clustered = str(bench.folder / "clustered")
    bench.run(target=clustered, consumer_group="other", cluster_by=("topic",))
    assert bench.spark.sql(f"DESCRIBE DETAIL delta.`{clustered}`").collect()[0].clusteringColumns == ["topic"]
