"""Positions as rows: made of what brokers and table say, asked of embedded servers, and as Spark sees them."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from pyspark_tubeclient import DefaultSource
from spark_source.read.schema import OF_PARTITIONS
from spark_source.stream.positions_reader import POSITIONS, PositionsReader, rows_of
from tests.waiting import wait_for
from tubeclient import ClientSettings
from tubeclient.admin import Admin
from tubeclient.errors import ConfigurationError, ConnectError, TopicNotDeployed
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, StoreBounds, StoreKey

ENTRY = INDEX_ENTRY_BYTES
SECRET = "hunter2-hunter2"
KEYS = [PartitionKey(1, "clicks", number) for number in (0, 1, 10_000, 10_001)]


def test_sorted_rows_and_lag_of_each_position() -> None:
    """Before the store's first message, within, at the end, past it, and none."""
    keys = [*KEYS, PartitionKey(2, "clicks", 0)]
    bounds = {StoreKey(1, "clicks", 0): StoreBounds(2 * ENTRY, 10 * ENTRY)}
    bounds |= {store: StoreBounds(0, 5 * ENTRY) for store in (StoreKey(1, "clicks", 1), StoreKey(2, "clicks", 0))}
    at = {keys[0]: ENTRY, keys[1]: 7 * ENTRY, keys[2]: 5 * ENTRY, keys[3]: 6 * ENTRY, PartitionKey(9, "clicks", 0): 0}
    rows = [dict(zip(POSITIONS.names, row, strict=True)) for row in rows_of(keys[::-1], bounds, at)]
    assert [row["partitionKey"] for row in rows] == [str(key) for key in keys]
    assert [(row["brokerId"], row["partition"], row["storeId"]) for row in rows] == [
        *((1, 0, 0), (1, 1, 0), (1, 10_000, 1), (1, 10_001, 1), (2, 0, 0))
    ]
    assert {(row["earliestOffset"], row["latestOffset"]) for row in rows[:2]} == {(2 * ENTRY, 10 * ENTRY)}
    assert [row["groupOffset"] for row in rows] == [ENTRY, 7 * ENTRY, 5 * ENTRY, 6 * ENTRY, None]
    assert [row["messagesBehindAtMost"] for row in rows] == [8, 3, 0, 0, 5]


def test_partition_columns_match_messages() -> None:
    """Rows of positions have the same partition columns as rows of messages."""
    assert POSITIONS.names[: len(OF_PARTITIONS)] == list(OF_PARTITIONS)


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """20 messages in each of two stores with two partitions, and a topic without any."""
    topics = [TopicConfig("clicks", stores=2, partitions=2), TopicConfig("quiet", stores=1, partitions=1)]
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), topics) as running:
        running.load("clicks", [NewMessage(KEYS[n % 4].partition_id, b"x") for n in range(40)])
        yield running


def source(tube: EmbeddedTubeMQ, group: str, **more: object) -> DefaultSource:
    options = {
        "masterServers": tube.master_address,
        "masterWebPort": tube.master_web_port,
        "consumerGroup": group,
        "subscribe": "clicks,quiet",
        "retryLimit": "1s",
        "readPositions": "true",
        **more,
    }
    return DefaultSource({name: str(value) for name, value in options.items() if value is not None})


def reader_of(one: DefaultSource) -> PositionsReader:
    reader = one.reader(one.schema())
    assert isinstance(reader, PositionsReader)
    return reader


def positions(tube: EmbeddedTubeMQ, group: str, **more: object) -> dict[str, tuple[Any, ...]]:
    """Earliest, latest and the group's offset, in entries, and the messages behind, by partition; each arrives as in a
    task."""
    reader = reader_of(source(tube, group, **more))
    [partition] = reader.partitions()
    task = pickle.loads(cloudpickle.dumps(reader))  # type: ignore[no-untyped-call]
    rows = [dict(zip(POSITIONS.names, row, strict=True)) for row in task.read(partition)]
    offsets = ("earliestOffset", "latestOffset", "groupOffset")
    return {
        row["partitionKey"]: (
            *(None if row[name] is None else row[name] // ENTRY for name in offsets),
            row["messagesBehindAtMost"],
        )
        for row in rows
    }


def commit(tube: EmbeddedTubeMQ, group: str, at: dict[PartitionKey, int]) -> None:
    """At the broker, which shows it some seconds later."""
    admin = Admin(ClientSettings((tube.master_address,), master_web_port=tube.master_web_port))
    admin.set_offsets(group, at)

    def shown() -> bool:
        with contextlib.suppress(Exception):
            return admin.group_offsets(group).committed == at
        return False

    wait_for(shown, "the group's position")


UNREAD = {**{str(key): (0, 20, None, 20) for key in KEYS}, "1:quiet:0": (0, 0, None, 0)}


def test_a_group_that_is_nowhere_has_all_messages_left(tube: EmbeddedTubeMQ) -> None:
    assert positions(tube, "nobody") == UNREAD


def test_a_group_is_where_the_brokers_have_it(tube: EmbeddedTubeMQ) -> None:
    commit(tube, "consumer", {KEYS[0]: 5 * ENTRY, KEYS[3]: 20 * ENTRY})
    assert positions(tube, "consumer") == {**UNREAD, str(KEYS[0]): (0, 20, 5, 15), str(KEYS[3]): (0, 20, 20, 0)}


def test_topic_comes_from_one_place(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """A topic's positions all come from the offsets table if it has any of them."""
    commit(tube, "both", {KEYS[0]: 5 * ENTRY, KEYS[1]: 5 * ENTRY})
    table = OffsetsTable(str(tmp_path / "offsets"))
    table.open_run(GroupKey("both", ["clicks"]), 1).record([PartitionProgress(KEYS[0], 12 * ENTRY)])
    assert positions(tube, "both", offsetsTable=tmp_path / "offsets") == {**UNREAD, str(KEYS[0]): (0, 20, 12, 8)}
    other = positions(tube, "both", offsetsTable=tmp_path / "offsets", subscribe="quiet")
    assert other == {"1:quiet:0": (0, 0, None, 0)}


def test_only_the_partitions_that_are_read_are_rows(tube: EmbeddedTubeMQ) -> None:
    assert list(positions(tube, "g", subscribe=None, assign='["1:clicks:10001"]')) == ["1:clicks:10001"]
    assert positions(tube, "g", subscribe=None, subscribePattern="no-such-topic") == {}
    with pytest.raises(TopicNotDeployed, match="no-such-topic"):
        positions(tube, "g", subscribe="clicks,no-such-topic")


def test_unreachable_broker_or_web_port(tmp_path: Path) -> None:
    """A read of positions fails if a broker or a web port does not answer."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", stores=2)], brokers=2) as tube:
        assert len(positions(tube, "g", subscribe="clicks")) == 4
        with pytest.raises(ConnectError, match=r"^\[SERVER_UNREACHABLE\] broker 1:.* web port is unknown: no master"):
            positions(tube, "g", subscribe="clicks", masterWebPort=1)
        tube.stop_broker(2, clean=False)
        with pytest.raises(ConnectError, match="needs all brokers of its partitions, but one does not answer: http://"):
            positions(tube, "g", subscribe="clicks")


def test_a_task_is_sent_the_rows_and_nothing_else() -> None:
    one = DefaultSource(
        {
            "masterservers": "127.0.0.1:1",
            "consumergroup": "g",
            "subscribe": "t",
            "readpositions": "true",
            "offsetstable": "/nowhere",
            "storageoption.aws_secret_access_key": SECRET,
            "authuser": "u",
            "authpassword": SECRET,
        }
    )
    for sent in (reader_of(one), one):
        pickled: bytes = cloudpickle.dumps(sent)  # type: ignore[no-untyped-call]
        assert SECRET.encode() not in pickled
        assert SECRET not in repr(sent) + repr(vars(sent))


def test_a_stream_of_positions_is_refused(tube: EmbeddedTubeMQ) -> None:
    one = source(tube, "g")
    with pytest.raises(
        ConfigurationError, match=r"readPositions is for batch reads only; read positions with spark.read"
    ):
        one.streamReader(one.schema()).initialOffset()
