"""The demonstration's proof: it holds where it should, and fails for each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from jobs.demo_proof import broker_ends, prove_offsets, prove_resume, prove_rows
from jobs.flights import flight_messages, tally
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.keys import PartitionKey

BODIES = [json.dumps({"seq": number}).encode() for number in range(40)]

Rows = list[dict[str, Any]]


def rows() -> Rows:
    # Two stores that give the same ids, as two stores of one broker may.
    return [
        {"partitionKey": f"1:flights:{10_000 * (n % 2) + n % 3}", "messageId": n // 2, "value": body}
        for n, body in enumerate(BODIES)
    ]


def failing(found: Rows, tmp_path: Path, held: int = len(BODIES)) -> list[str]:
    write_deltalake(str(tmp_path / "table"), pa.Table.from_pylist(found))
    # The partitions of a store share its index.
    ends = {"1:flights:0": 28 * 20, "1:flights:1": 28 * 20, "1:flights:10000": 28 * (held - 20)}
    return [check.statement for check in prove_rows(tmp_path / "table", tally(BODIES), ends) if not check.holds]


def test_a_table_of_all_messages_is_proven_in_whatever_order(tmp_path: Path) -> None:
    assert failing(rows()[::-1], tmp_path) == []


def test_a_message_that_the_brokers_hold_twice_is_in_the_table_twice(tmp_path: Path) -> None:
    sent_again = {**rows()[7], "messageId": 20}
    assert failing([*rows(), sent_again], tmp_path, held=41) == []


def test_a_tally_tells_heaps_of_equal_size_apart() -> None:
    assert tally([b"a", b"b"]) == tally([b"b", b"a"])
    assert len({tally(heap) for heap in ([b"a", b"a", b"b"], [b"c", b"c", b"b"], [b"a", b"b", b"b"])}) == 3


def lose(found: Rows) -> None:
    found.pop()


def double(found: Rows) -> None:
    found.append(found[7])


def lose_one_and_double_another(found: Rows) -> None:
    found[3] = found[4]


def change_bytes(found: Rows) -> None:
    found[5]["value"] = b'{"seq": 5 }'


def repeat_an_id(found: Rows) -> None:
    found[8]["messageId"] = found[6]["messageId"]


@pytest.mark.parametrize(
    ("damage", "noticed_by"),
    [
        (
            lose,
            ["as many rows as the brokers hold messages", "each flight is there, by its number", "the same bytes"],
        ),
        (double, ["as many rows as the brokers hold messages", "no message twice, by the broker's id"]),
        (
            lose_one_and_double_another,
            ["no message twice, by the broker's id", "each flight is there, by its number", "the same bytes"],
        ),
        (change_bytes, ["the same bytes"]),
        (repeat_an_id, ["no message twice, by the broker's id"]),
    ],
)
def test_every_damage_is_noticed(damage: Callable[[Rows], None], noticed_by: list[str], tmp_path: Path) -> None:
    found = rows()
    damage(found)
    assert failing(found, tmp_path) == noticed_by


def test_offsets_are_compared_partition_by_partition(tmp_path: Path) -> None:
    keys = [PartitionKey(1, "flights", 0), PartitionKey(2, "flights", 0)]
    run = OffsetsTable(str(tmp_path)).open_run(GroupKey("g", ["flights"]), 1)
    run.record([PartitionProgress(key, 280) for key in keys])
    run.keep_initial("latest", {keys[0]: 0})
    ends = {str(key): 280 for key in keys}
    assert prove_offsets(tmp_path, "g", ends).holds
    assert not prove_offsets(tmp_path, "g", {**ends, "2:flights:0": 308}).holds
    assert not prove_offsets(tmp_path, "g", {**ends, "3:flights:0": 0}).holds
    assert not prove_offsets(tmp_path, "g", {"1:flights:0": 280}).holds
    assert not prove_offsets(tmp_path, "g", {}).holds
    assert not prove_offsets(tmp_path, "nobody", {}).holds


def test_a_restart_goes_on_from_the_offsets_table_where_the_rows_end(tmp_path: Path) -> None:
    """The forty rows are of two stores, each with three partitions on one index."""
    write_deltalake(str(tmp_path / "table"), pa.Table.from_pylist(rows()))
    keys = [PartitionKey(1, "flights", 10_000 * store + n) for store in (0, 1) for n in range(3)]
    run = OffsetsTable(str(tmp_path / "offsets")).open_run(GroupKey("g", ["flights"]), 1)
    for entries, holds in ((20, True), (19, False), (21, False)):
        run.record([PartitionProgress(key, 28 * entries) for key in keys])
        assert prove_resume(tmp_path / "offsets", "g", tmp_path / "table").holds is holds


def test_brokers_are_asked_where_they_end(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("flights", 2, 1)], brokers=2) as tube:
        tube.load("flights", [NewMessage(10_000, b"one")], broker_id=2)
        addresses = {broker: f"127.0.0.1:{port}" for broker, port in tube.broker_web_ports.items()}
        ends = broker_ends(addresses, "flights")
    assert {key: end for key, end in ends.items() if end} == {"2:flights:10000": 28}


def test_the_flights_are_numbered_json_documents() -> None:
    bodies = flight_messages()
    assert len(bodies) == 336_776
    assert [json.loads(body)["seq"] for body in (bodies[0], bodies[-1])] == [0, 336_775]
    assert json.loads(bodies[0])["dest"] == "IAH"
