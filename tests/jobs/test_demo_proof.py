"""The demonstration's proof: it holds where it should, and fails for each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from jobs.demo_proof import broker_ends, prove_offsets, prove_resume, prove_rows
from jobs.flights import CUT_EVERY, PACK_RECORDS, flight_records, flight_table, is_cut, packs_of
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tubeclient.inlong import records_of
from tubeclient.keys import PartitionKey

FLIGHTS = pa.table({"seq": pa.array(range(40), pa.int64()), "dest": [f"D{number}" for number in range(40)]})
COMMIT = {"sequence": 2, "runId": "run"}
BROKEN = {7: b'{"seq": 7, "de', 31: b'{"seq": 31, "d'}

Rows = list[dict[str, Any]]


def place(number: int) -> dict[str, Any]:
    """Four records to a message, in two stores that give the same ids, as two stores of one broker may."""
    message = number // 4
    key = f"1:flights:{10_000 * (message % 2) + message % 3}"
    return {"partitionKey": key, "messageId": message // 2, "recordIndex": number % 4}


class Tables:
    """The rows of the target and of the table of bad records, as they should be."""

    def __init__(self) -> None:
        self.rows: Rows = [
            {"seq": number, "dest": f"D{number}", "tubemq": place(number)}
            for number in range(40)
            if number not in BROKEN
        ]
        self.bad: Rows = [{**place(number), **COMMIT, "value": value} for number, value in BROKEN.items()]
        self.held = 10
        """Messages of the brokers."""

    def failing(self, folder: Path) -> list[str]:
        """What the proof finds wrong, by the first words."""
        record = CommitProperties(custom_metadata={"userMetadata": json.dumps({"tubeclient": COMMIT})})
        write_deltalake(str(folder / "table"), pa.Table.from_pylist(self.rows), commit_properties=record)
        write_deltalake(str(folder / "bad_records"), pa.Table.from_pylist(self.bad))
        # The partitions of a store share its index.
        ends = {"1:flights:0": 28 * 5, "1:flights:1": 28 * 5, "1:flights:10000": 28 * (self.held - 5)}
        checks = prove_rows(folder / "table", folder / "bad_records", FLIGHTS, BROKEN, ends)
        return [check.statement.split(",")[0] for check in checks if not check.holds]


def test_all_records_are_proven_in_whatever_order(tmp_path: Path) -> None:
    tables = Tables()
    tables.rows.reverse()
    assert tables.failing(tmp_path) == []


def test_a_message_that_the_brokers_hold_twice_is_there_twice(tmp_path: Path) -> None:
    tables = Tables()
    tables.rows += [{**row, "tubemq": {**row["tubemq"], "messageId": 20}} for row in tables.rows[:4]]
    tables.held = 11
    assert tables.failing(tmp_path) == []


MESSAGES = "the messages that the brokers hold"
ONCE = "each record once"
GOOD = "each good flight is in the table"
BAD = "each broken record is among the bad records"


def lose(tables: Tables) -> None:
    tables.rows.pop()


def lose_a_message(tables: Tables) -> None:
    del tables.rows[:4]


def double(tables: Tables) -> None:
    tables.rows.append(tables.rows[7])


def lose_one_and_double_another(tables: Tables) -> None:
    tables.rows[3] = tables.rows[4]


def change_a_value(tables: Tables) -> None:
    tables.rows[5]["dest"] = None


def take_another_flight(tables: Tables) -> None:
    tables.rows[5] = {**tables.rows[6], "tubemq": tables.rows[5]["tubemq"]}


def lose_a_bad_record(tables: Tables) -> None:
    tables.bad.pop()


def change_a_bad_record(tables: Tables) -> None:
    tables.bad[0]["value"] = b"{"


def have_a_bad_record_of_no_commit(tables: Tables) -> None:
    tables.bad[0]["runId"] = "another"


def have_a_bad_record_in_the_table_too(tables: Tables) -> None:
    tables.rows.append({"seq": 7, "dest": "D7", "tubemq": place(7)})


@pytest.mark.parametrize(
    ("damage", "noticed_by"),
    [
        (lose, [GOOD]),
        (lose_a_message, [MESSAGES, GOOD]),
        (double, [ONCE]),
        (lose_one_and_double_another, [ONCE, GOOD]),
        (change_a_value, [GOOD]),
        (take_another_flight, [GOOD]),
        (lose_a_bad_record, [BAD]),
        (change_a_bad_record, [BAD]),
        (have_a_bad_record_of_no_commit, [BAD]),
        (have_a_bad_record_in_the_table_too, [ONCE, GOOD]),
    ],
)
def test_every_damage_is_noticed(damage: Callable[[Tables], None], noticed_by: list[str], tmp_path: Path) -> None:
    tables = Tables()
    damage(tables)
    assert tables.failing(tmp_path) == noticed_by


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


def test_a_restart_goes_on_from_the_offsets_table_where_the_records_end(tmp_path: Path) -> None:
    """The ten messages are of two stores, each with three partitions on one index."""
    tables = Tables()
    assert tables.failing(tmp_path) == []
    keys = [PartitionKey(1, "flights", 10_000 * store + n) for store in (0, 1) for n in range(3)]
    run = OffsetsTable(str(tmp_path / "offsets")).open_run(GroupKey("g", ["flights"]), 1)
    for entries, holds in ((5, True), (4, False), (6, False)):
        run.record([PartitionProgress(key, 28 * entries) for key in keys])
        check = prove_resume(tmp_path / "offsets", "g", tmp_path / "table", tmp_path / "bad_records")
        assert check.holds is holds


def test_brokers_are_asked_where_they_end(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("flights", 2, 1)], brokers=2) as tube:
        tube.load("flights", [NewMessage(10_000, b"one")], broker_id=2)
        addresses = {broker: f"127.0.0.1:{port}" for broker, port in tube.broker_web_ports.items()}
        ends = broker_ends(addresses, "flights")
    assert {key: end for key, end in ends.items() if end} == {"2:flights:10000": 28}


def test_the_flights_are_numbered_records_in_packs_and_one_in_a_thousand_is_broken() -> None:
    records, flights = flight_records(), flight_table()
    assert len(records) == len(flights) == 336_776
    assert flights["seq"].to_pylist() == list(range(336_776))
    for seq in (0, 499, 501, 336_775):
        sent = json.loads(records[seq])
        assert (sent["seq"], sent["dest"], sent["arr_delay"]) == tuple(
            flights[name][seq].as_py() for name in ("seq", "dest", "arr_delay")
        )
    broken = [seq for seq in range(len(records)) if is_cut(seq)]
    assert broken[:2] == [CUT_EVERY // 2, CUT_EVERY + CUT_EVERY // 2]
    with pytest.raises(json.JSONDecodeError):
        json.loads(records[broken[0]])
    pack, *_ = packs_of(records)
    assert [record.body for record in records_of(pack, {})] == records[:PACK_RECORDS]
