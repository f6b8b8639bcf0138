"""The demonstration's proof: it holds where it should, and fails for each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from jobs.demo import prove_rows
from jobs.flights import CUT_EVERY, PACK_RECORDS, flight_records, flight_table, is_cut, packs_of
from tubeclient.inlong import records_of

FLIGHTS = pa.table({"seq": pa.array(range(40), pa.int64()), "dest": [f"D{number}" for number in range(40)]})
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
        self.bad: Rows = [{**place(number), "value": value} for number, value in BROKEN.items()]
        self.held = 10
        """Messages of the brokers."""

    def failing(self, folder: Path) -> list[str]:
        """What the proof finds wrong, by the first words."""
        write_deltalake(str(folder / "table"), pa.Table.from_pylist(self.rows))
        write_deltalake(str(folder / "bad_records"), pa.Table.from_pylist(self.bad))
        checks = prove_rows(folder / "table", folder / "bad_records", FLIGHTS, BROKEN, self.held)
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


def change_a_value(tables: Tables) -> None:
    tables.rows[5]["dest"] = None


def change_a_bad_record(tables: Tables) -> None:
    tables.bad[0]["value"] = b"{"


def have_a_bad_record_in_the_table_too(tables: Tables) -> None:
    tables.rows.append({"seq": 7, "dest": "D7", "tubemq": place(7)})


@pytest.mark.parametrize(
    ("damage", "noticed_by"),
    [
        (lose, [GOOD]),
        (lose_a_message, [MESSAGES, GOOD]),
        (double, [ONCE]),
        (change_a_value, [GOOD]),
        (change_a_bad_record, [BAD]),
        (have_a_bad_record_in_the_table_too, [ONCE, GOOD]),
    ],
)
def test_every_damage_is_noticed(damage: Callable[[Tables], None], noticed_by: list[str], tmp_path: Path) -> None:
    tables = Tables()
    damage(tables)
    assert tables.failing(tmp_path) == noticed_by


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
