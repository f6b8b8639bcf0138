"""The offsets table kept by a listener in the driver, of real queries and beside their planners."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from offsets_store import GroupKey, OffsetsTable, OffsetsTableError, PartitionProgress
from offsets_store.delta_spark import DeltaSparkStorage
from spark_source.offsets.offsets import Offsets
from spark_source.progress.follower import Waits
from spark_source.progress.offsets_listener import OffsetsListener
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, run_available, running, stream
from tests.waiting import wait_for
from tubeclient.keys import PartitionKey

FIRST = PartitionKey(1, "t", 0)

_numbers = itertools.count()


# With a Spark session


class Watching(OffsetsListener):
    """Notes of each batch that is told whether Spark had committed it then, and how many queries have ended.

    Those that it saw begin count: Spark may still have to tell of the end of an earlier one.
    """

    def __init__(self, checkpoint: Path, table: OffsetsTable, **settings: Any) -> None:
        super().__init__(table, **settings)
        self.checkpoint = checkpoint
        self.committed: dict[int, bool] = {}
        self.ended = 0
        self._begun: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:
        self._begun.add(str(event.runId))
        super().onQueryStarted(event)

    def onQueryProgress(self, event: Any) -> None:
        number = event.progress.batchId
        self.committed[number] = (self.checkpoint / "commits" / str(number)).exists()
        super().onQueryProgress(event)

    def onQueryTerminated(self, event: Any) -> None:
        super().onQueryTerminated(event)
        self.ended += str(event.runId) in self._begun


def committed_ends(checkpoint: Path) -> list[Mapping[PartitionKey, int]]:
    """Where the batches ended that the checkpoint has as committed, the last one last."""
    numbers = sorted(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    texts = [(checkpoint / "offsets" / str(number)).read_text().splitlines()[-1] for number in numbers]
    return [Offsets.parse(text).as_dict() for text in texts]


@pytest.fixture
def attached(delta_spark: SparkSession) -> Iterator[list[OffsetsListener]]:
    """Listeners put in here are taken from the session at the end."""
    listeners: list[OffsetsListener] = []
    yield listeners
    for listener in listeners:
        delta_spark.streams.removeListener(listener)


@pytest.mark.spark
def test_it_closes_the_gap_that_the_planner_leaves(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, attached: list[OffsetsListener]
) -> None:
    feed.send(400)
    checkpoint, uri = tmp_path / "checkpoint", str(tmp_path / "offsets")
    key = GroupKey(f"{feed.topic}_group", [feed.topic])
    settings = {"query_name": feed.topic, "consumer_group": key.consumer_group, "topics": key.topics, "source_count": 2}
    listener = Watching(checkpoint, OffsetsTable(uri), **settings)
    attached.append(listener)
    delta_spark.streams.addListener(listener)

    def positions() -> Mapping[PartitionKey, int]:
        return OffsetsTable(uri).positions(key.consumer_group, key.topics)

    def run_batch(number: int) -> None:
        """Runs batch `number`; the query is stopped while it waits for its next trigger."""
        options = feed.options(startingOffsets="earliest", maxOffsetsPerTrigger=80, offsetsTable=uri)
        frame = stream(delta_spark, options)
        with running(frame, checkpoint, Batches(), name=feed.topic, processingTime="1 hour") as query:
            wait_for(lambda: any(one.batchId == number for one in query.recentProgress), f"batch {number}")
            if attached:
                wait_for(lambda: positions() == committed_ends(checkpoint)[-1], "the table to be where Spark is")
        assert query.exception() is None
        feed.wait_until_free()

    for number in (0, 1):
        run_batch(number)
        assert positions() == committed_ends(checkpoint)[-1]
    assert listener.committed == {0: True, 1: True}
    assert listener._last is not None
    assert listener._last.as_of is not None  # Spark says when a batch was complete
    latest = OffsetsTable(uri).latest(key)
    assert latest is not None
    assert all(row.end_offset is not None and row.end_offset > row.next_offset for row in latest.partitions)

    delta_spark.streams.removeListener(attached.pop())
    run_batch(2)
    ends = committed_ends(checkpoint)
    assert len(ends) == 3
    assert positions() == ends[1]  # the planner alone has not heard that batch 2 is complete


@pytest.mark.spark
def test_planner_and_listener_do_not_disturb_each_other_at_speed(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, attached: list[OffsetsListener]
) -> None:
    feed.send(400)
    checkpoint, table = tmp_path / "checkpoint", OffsetsTable(str(tmp_path / "offsets"))
    group = f"{feed.topic}_group"
    listener = OffsetsListener(table, query_name=feed.topic, consumer_group=group, topics=[feed.topic], source_count=2)
    attached.append(listener)
    delta_spark.streams.addListener(listener)
    options = feed.options(startingOffsets="latest", maxOffsetsPerTrigger=8, offsetsTable=tmp_path / "offsets")
    with running(stream(delta_spark, options), checkpoint, Batches(), name=feed.topic) as query:
        wait_for(lambda: table.latest(GroupKey(group, [feed.topic])) or not query.isActive, "the first batch")
        feed.send(160)
        wait_for(lambda: len(committed_ends(checkpoint)) >= 6 or not query.isActive, "six batches")
    assert query.exception() is None
    # The last batch's progress may be lost to the stop.
    wait_for(lambda: table.positions(group, [feed.topic]) in committed_ends(checkpoint)[-2:], "the table to follow")


@pytest.mark.spark
def test_a_group_kept_in_a_table_of_the_catalog_by_the_listener_alone(
    delta_spark: SparkSession, feed: Feed, tmp_path: Path, attached: list[OffsetsListener]
) -> None:
    name = f"spark_catalog.default.kept{next(_numbers)}"
    table = OffsetsTable(name, storage=DeltaSparkStorage(delta_spark, name))
    settings = {"query_name": "kept", "consumer_group": "kept", "topics": [feed.topic], "source_count": 2}
    listener = Watching(tmp_path / "1", table, **settings)
    attached.append(listener)
    delta_spark.streams.addListener(listener)

    def run(query: str, checkpoint: str, starting: Mapping[str, int]) -> list[bytes]:
        sink, ended = Batches(), listener.ended
        frame = stream(delta_spark, feed.options(query, startingOffsets=json.dumps(starting), maxOffsetsPerTrigger=20))
        run_available(frame, tmp_path / checkpoint, sink, name=query)
        wait_for(lambda: listener.ended > ended, "the listener to hear of the end")
        assert listener.flush(120)  # the first use of Delta in a session may take long
        return sink.all

    def positions() -> Mapping[PartitionKey, int]:
        return table.positions("kept", [feed.topic])

    try:
        feed.send(40)
        assert run("kept", "1", {"default": -2}) == feed.sent
        assert positions() == committed_ends(tmp_path / "1")[-1]
        news = feed.send(20)
        assert run("other", "other", {"default": -2}) == feed.sent
        assert positions() == committed_ends(tmp_path / "1")[-1]
        assert {row.tableType for row in delta_spark.catalog.listTables() if row.name in name} == {"MANAGED"}

        assert run("kept", "2", {str(partition): at for partition, at in positions().items()}) == news
        assert positions() == committed_ends(tmp_path / "2")[-1]
    finally:
        delta_spark.sql(f"DROP TABLE IF EXISTS {name}")


# Without


class Recorded:
    """Stands in for an offsets table: notes what its companion was told to record."""

    def __init__(self) -> None:
        self.ends: list[list[PartitionProgress]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.entered = threading.Event()
        self.error: Exception | None = None
        self.as_of: datetime | None = None

    def join_run(self, key: GroupKey, source_count: int) -> Recorded:
        return self

    def record(self, progress: list[PartitionProgress], as_of: datetime | None) -> bool:
        self.entered.set()
        assert self.go_on.wait(30)
        if self.error is not None:
            raise self.error
        self.ends.append(progress)
        self.as_of = as_of
        return True

    @property
    def offsets(self) -> list[int]:
        return [row.next_offset for [row] in self.ends]


def listen(recorded: Recorded, **more: Any) -> OffsetsListener:
    settings = {"query_name": "q", "consumer_group": "g", "topics": ["t"], "source_count": 1, **more}
    return OffsetsListener(recorded, **settings)  # type: ignore[arg-type]


def ours(offset: int, topic: str = "t", latest: int | None = 2800) -> dict[str, Any]:
    return {
        "endOffset": {f"1:{topic}:0": {"0": offset}, "version": 1},
        "latestOffset": None if latest is None else {f"1:{topic}:0": {"0": latest}, "version": 1},
    }


def progress(*sources: dict[str, Any], name: str | None = "q", run: str = "r", **more: object) -> SimpleNamespace:
    text = json.dumps({"id": "i", "runId": run, "name": name, "batchId": 7, "sources": sources, **more})
    return SimpleNamespace(progress=SimpleNamespace(json=text, batchId=7))


def started(run: str, name: str | None = "q") -> SimpleNamespace:
    return SimpleNamespace(id="i", runId=run, name=name)


def test_only_the_named_query_and_the_groups_topics_count() -> None:
    recorded = Recorded()
    listener = listen(recorded)
    for event in (
        progress(ours(28), name="other"),
        progress(ours(28), name=None),
        progress(ours(28, topic="u")),
        progress({"endOffset": 5, "latestOffset": 7}, {"endOffset": {"t": {"0": 10}}}, {"endOffset": None}),
    ):
        listener.onQueryProgress(event)
        assert listener.flush(30)
    assert recorded.ends == []
    listener.onQueryProgress(progress({"endOffset": 5}, ours(28, topic="u"), ours(56)))
    assert listener.flush(30)
    listener.onQueryProgress(progress({**ours(84, latest=None), "startOffset": {"1:t:0": {"0": 56}, "version": 1}}))
    assert listener.flush(30)
    assert recorded.ends == [
        [PartitionProgress(FIRST, 56, 2800)],
        [PartitionProgress(FIRST, 84, None, start_offset=56)],
    ]


def test_the_table_is_told_when_the_batch_was_complete() -> None:
    recorded = Recorded()
    listener = listen(recorded)
    began = {"timestamp": "2026-11-22T23:05:01.250Z"}
    for more, as_of in (
        ({**began, "batchDuration": 2500}, datetime(2026, 11, 22, 23, 5, 3, 750_000, tzinfo=UTC)),
        (began, None),
        ({"timestamp": "today", "batchDuration": 2500}, None),
    ):
        listener.onQueryProgress(progress(ours(28), **more))
        assert listener.flush(30)
        assert recorded.as_of == as_of


def test_a_pattern_names_topics_too() -> None:
    recorded = Recorded()
    listener = listen(recorded, topics=(), pattern="t.*")
    both = {"endOffset": {"1:t1:0": {"0": 28}, "1:u:0": {"0": 56}, "version": 1}, "latestOffset": None}
    listener.onQueryProgress(progress(both))
    assert listener.flush(30)
    assert recorded.ends == [[PartitionProgress(PartitionKey(1, "t1", 0), 28)]]


def test_two_sources_of_the_groups_topics_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded()
    listener = listen(recorded)
    listener.onQueryProgress(progress(ours(28), ours(56)))
    assert listener.flush(30)
    assert recorded.ends == []
    assert "query q has 2 sources that read topics of group 'g' on t" in caplog.text


def test_a_slow_table_holds_nobody_up_and_gets_the_newest_end() -> None:
    recorded = Recorded()
    listener = listen(recorded)
    recorded.go_on.clear()
    listener.onQueryProgress(progress(ours(28)))
    assert recorded.entered.wait(30)
    for step in range(2, 100):
        listener.onQueryProgress(progress(ours(28 * step)))
    assert listener.flush(0.0) is False
    recorded.go_on.set()
    assert listener.flush(30)
    assert recorded.offsets == [28, 28 * 99]


def test_the_last_end_is_written_again_when_the_query_has_ended() -> None:
    """The planner's last write, of a batch before, may have come late and set the table back."""
    recorded = Recorded()
    listener = listen(recorded)
    listener.onQueryProgress(progress(ours(28)))
    listener.onQueryProgress(progress(ours(56)))
    assert listener.flush(30)
    listener.onQueryTerminated(started("r"))
    assert listener.flush(30)
    assert recorded.offsets[-2:] == [56, 56]


def test_a_table_that_fails_is_warned_of_once_and_tried_again_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spark_source.progress.offsets_listener.WAITS", Waits(retry=3600.0))
    recorded = Recorded()
    listener = listen(recorded)
    recorded.error = OffsetsTableError("disk full")
    for offset in (28, 56):
        listener.onQueryProgress(progress(ours(offset)))
        assert listener.flush(30) is False
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "query q: the offsets table was not written and stays behind; trying again: disk full")
    ]
    recorded.error = None
    listener.onQueryTerminated(started("other"))
    assert recorded.offsets == []
    listener.onQueryTerminated(started("r"))
    assert listener.flush(30)
    assert recorded.offsets == [56]
    recorded.error = RuntimeError("the secret")
    listener.onQueryProgress(progress(ours(84)))
    assert listener.flush(30) is False
    assert "RuntimeError" in caplog.text
    assert "the secret" not in caplog.text


def test_a_flush_tries_again_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_source.progress.offsets_listener.WAITS", Waits(retry=3600.0))
    recorded = Recorded()
    listener = listen(recorded)
    assert listener.flush(30)
    recorded.error = OffsetsTableError("disk full")
    listener.onQueryProgress(progress(ours(28)))
    assert listener.flush(30) is False
    recorded.error = None
    assert listener.flush(30)
    assert recorded.offsets == [28]


def test_a_table_that_fails_is_tried_again_though_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_source.progress.offsets_listener.WAITS", Waits(retry=0.001))
    recorded = Recorded()
    recorded.error = OffsetsTableError("disk full")
    listener = listen(recorded)
    listener.onQueryProgress(progress(ours(28)))
    assert listener.flush(30) is False
    recorded.error = None
    wait_for(lambda: recorded.offsets == [28], "the end")


SLOW_TABLE = """
import threading
from tests.spark_source.progress.test_offsets_listener import Recorded, listen, ours, progress

class Slow(Recorded):
    def record(self, rows, as_of):
        threading.Event().wait(0.5)
        print("written", flush=True)

listen(Slow()).onQueryProgress(progress(ours(28)))
"""


def test_a_driver_that_ends_waits_for_the_last_end() -> None:
    found = subprocess.run([sys.executable, "-c", SLOW_TABLE], capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stdout) == (0, "written\n"), found.stderr


def test_a_new_run_of_the_query_makes_the_old_ones_end_no_news() -> None:
    recorded = Recorded()
    listener = listen(recorded)
    for new, offset, written in ((started("s", name="other"), 28, [28, 56]), (started("s"), 84, [28, 56, 84])):
        recorded.go_on.clear()
        recorded.entered.clear()
        listener.onQueryProgress(progress(ours(offset)))
        assert recorded.entered.wait(30)
        listener.onQueryProgress(progress(ours(offset + 28)))
        listener.onQueryStarted(new)
        recorded.go_on.set()
        assert listener.flush(30)
        assert recorded.offsets == written
    for run in ("r", "s"):
        listener.onQueryTerminated(started(run))
    assert listener.flush(30)
    assert recorded.offsets == [28, 56, 84]
