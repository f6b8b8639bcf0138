"""Positions as rows, asked of real servers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from spark_source.progress.progress_table import ProgressTable
from spark_source.stream.positions import POSITIONS, look
from tubeclient.errors import TopicNotDeployed
from tubeclient.keys import PartitionKey

ENTRY = 28


def rows(tube: EmbeddedTubeMQ, **more: object) -> dict[str, dict[str, Any]]:
    """The rows without what the key says, by partition key."""
    options = parse_options(
        {
            "masterServers": tube.master_address,
            "masterWebPort": str(tube.master_web_port),
            "consumerGroup": "g",
            "subscribe": "t",
            "read": "positions",
            "retryLimit": "1s",
            **{name: str(value) for name, value in more.items()},
        }
    )
    with contextlib.closing(ProgressTable(options)) as progress:
        found = look(options, TubeCluster(client_settings(options), options), progress)
    named = [dict(zip(POSITIONS.names, row, strict=True)) for row in found]
    assert [(one.pop("topic"), one.pop("brokerId"), one.pop("partition"), one.pop("storeId")) for one in named] == [
        ("t", key.broker_id, key.partition_id, key.store.store_id)
        for key in (PartitionKey.parse(one["partitionKey"]) for one in named)
    ]
    return {one.pop("partitionKey"): one for one in named}


def test_the_offsets_table_comes_before_the_brokers_and_a_silent_broker_is_told(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("t", stores=2)], brokers=2) as tube:
        for broker_id in (1, 2):
            tube.load("t", [NewMessage(10_000 * (n % 2), b"x") for n in range(20)], broker_id=broker_id)
        ends = {"beginOffset": 0, "endOffset": 10 * ENTRY, "failure": None}
        unread = {**ends, "groupOffset": None, "lag": 10}
        keys = ("1:t:0", "1:t:10000", "2:t:0", "2:t:10000")
        assert rows(tube) == dict.fromkeys(keys, unread)

        table = OffsetsTable(str(tmp_path / "offsets"))
        table.open_run(GroupKey("g", ["t"]), 1).record([PartitionProgress(PartitionKey(1, "t", 0), 4 * ENTRY)])
        found = rows(tube, offsetsTable=tmp_path / "offsets")
        assert found == {**dict.fromkeys(keys, unread), "1:t:0": {**ends, "groupOffset": 4 * ENTRY, "lag": 6}}

        tube.stop_broker(2, clean=False)
        found = rows(tube, offsetsTable=tmp_path / "offsets")
        assert (found["1:t:0"]["lag"], found["1:t:10000"]["lag"]) == (6, 10)
        failure = found["2:t:0"].pop("failure")
        assert "127.0.0.1" in failure
        assert found["2:t:0"] == dict.fromkeys(("beginOffset", "endOffset", "groupOffset", "lag"))


def test_what_was_never_written_to_is_empty(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("t")]) as tube:
        empty = {"beginOffset": 0, "endOffset": 0, "groupOffset": None, "lag": 0, "failure": None}
        assert rows(tube) == {"1:t:0": empty}


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube") as tube, pytest.raises(TopicNotDeployed, match="topics t: "):
        rows(tube)
