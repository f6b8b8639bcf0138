"""What orders the changes of a row: places within one log, whatever the clocks say, and time between two."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.tubeclient.records.changing import MYSQL, UUID, changes, debezium, event, newest, orders

ONE = debezium({"id": pa.int64()}, keys=("id",))
AFTER = {"id": 1}


def change(source: dict[str, Any], op: str = "u") -> dict[str, Any]:
    return event(op, source, after=AFTER)


def read(source: dict[str, Any], snapshot: str = "incremental") -> dict[str, Any]:
    return event("r", {**source, "snapshot": snapshot}, after=AFTER)


POSTGRESQL = {"connector": "postgresql", "name": "shop", "db": "d", "ts_ms": 5_000}
ORACLE = {"connector": "oracle", "name": "shop", "db": "d", "ts_ms": 5_000}
SQL_SERVER = {"connector": "sqlserver", "name": "shop", "db": "d", "ts_ms": 5_000}


def test_the_places_of_each_database() -> None:
    informix = {"connector": "informix", "name": "shop", "db": "d", "commit_lsn": "627404540760620"}
    cases: list[tuple[dict[str, Any], Any]] = [
        (MYSQL, ("binlog mysql/shop/223344/mysql-bin", [3, 154])),
        ({**MYSQL, "gtid": f"{UUID}:23"}, (f"binlog {UUID}", [23, 154])),
        ({**MYSQL, "gtid": f"{UUID.upper()}:blue:7"}, (f"binlog {UUID}:BLUE", [7, 154])),
        ({**MYSQL, "connector": "mariadb", "gtid": "0-112-23"}, ("domain 0", [23, 154])),
        ({**MYSQL, "gtid": "odd", "pos": "154"}, ("binlog mysql/shop/223344/mysql-bin", [3, 154])),
        ({**POSTGRESQL, "lsn": 24023128, "sequence": '["24023119","24023128"]'}, (None, [24023119, 1, 24023128])),
        ({**POSTGRESQL, "lsn": "24023128", "sequence": '[null,"24023128"]'}, (None, [24023128, 1, 24023128])),
        ({**POSTGRESQL, "lsn": 7}, (None, [7, 1, 7])),
        (
            {**ORACLE, "scn": "1513734", "commit_scn": "1513754", "rs_id": "001234.00012345.0124", "ssn": 1},
            (None, [1513754, 1513734, 0x1234, 0x12345, 0x124, 1]),
        ),
        ({**ORACLE, "scn": "7", "rs_id": " 0x00000a.00000b.000c "}, (None, [7, 7, 10, 11, 12, 0])),
        (
            {
                **SQL_SERVER,
                "commit_lsn": "0000002a:00000758:0005",
                "change_lsn": "0000002a:00000758:0003",
                "event_serial_no": "2",
            },
            ("sqlserver/shop/d", [42, 1880, 5, 42, 1880, 3, 2]),
        ),
        ({**informix, "change_lsn": "627404540485812"}, ("informix/shop/d", [627404540760620, 627404540485812])),
        ({**informix, "commit_lsn": "17179869184"}, ("informix/shop/d", [17179869184])),
        ({"connector": "TiCDC", "name": "c", "commit_ts": 447984084414103554}, ("TiCDC/c", [447984084414103554])),
        ({"connector": "vitess", "name": "v"}, ("vitess/v", [])),
        ({"lsn": 7}, ("", [7, 1, 7])),
    ]
    found = orders(ONE, *(change(source) for source, _ in cases))
    for (source, (log, position)), (_, own, place) in zip(cases, found, strict=True):
        wanted = f"{source['connector']}/{source['name']}" if log is None else log
        assert (own.lower(), place) == (wanted.lower(), position), source


def test_changes_of_a_compressed_transaction() -> None:
    """They have one `pos`, and rows from 0 on in each statement: the order is the transaction's, or that of arrival."""
    first, second = ({**MYSQL, "row": row} for row in (3, 0))
    assert [place for _, _, place in orders(ONE, change(first), change(second))] == [[3, 154]] * 2
    numbered = [
        {
            **event("u", source, before={"id": 1}, after=AFTER),
            "transaction": {"id": f"{UUID}:23", "total_order": number},
        }
        for number, source in ((4, first), ("5", second))
    ]
    assert [place for _, _, place in orders(ONE, *numbered)] == [[3, 154, 4], [3, 154, 5]]


def test_the_time_is_the_databases() -> None:
    assert orders(ONE, change({"ts_ms": 5}), change({"ts_ms": "5"}), change({}), event("u", None, after=AFTER)) == [
        (5, "", []),
        (5, "", []),
        (99, None, []),
        (99, None, []),
    ]


@pytest.mark.parametrize("snapshot", ["true", "first", "first_in_data_collection", "last", "incremental"])
def test_a_row_that_a_snapshot_read_has_no_time(snapshot: str) -> None:
    """The connector's clock, or the database's in another unit, is compared with nothing."""
    bodies = read(MYSQL, snapshot), event("c", {**MYSQL, "snapshot": snapshot}, after=AFTER)
    assert [time for time, _, _ in orders(ONE, *bodies)] == [None, None]
    [(time, _, _)] = orders(ONE, event("c", {**MYSQL, "snapshot": "false"}, after=AFTER))
    assert time == 5_000


def test_within_a_log_no_clock_counts() -> None:
    """A statement of MySQL that waited for another one has the time when it began."""
    assert newest(ONE, change(MYSQL), change({**MYSQL, "pos": 155, "ts_ms": 4_000})) == 1
    assert (
        newest(ONE, change({**MYSQL, "file": "mysql-bin.999999"}), change({**MYSQL, "file": "mysql-bin.1000000"})) == 1
    )
    lsns = {"commit_lsn": "0000002a:00000758:0005", "change_lsn": "0000002a:00000758:0003", "event_serial_no": 1}
    assert newest(ONE, change({**SQL_SERVER, **lsns}), change({**SQL_SERVER, **lsns, "event_serial_no": 2})) == 1
    longer = {**lsns, "commit_lsn": "0000002a:00000758:00ff"}
    assert newest(ONE, change({**SQL_SERVER, **lsns}), change({**SQL_SERVER, **longer, "ts_ms": 1})) == 1
    eleven = {"connector": "informix", "name": "shop", "change_lsn": "1"}
    assert (
        newest(ONE, change({**eleven, "commit_lsn": "9999999999"}), change({**eleven, "commit_lsn": "17179869184"}))
        == 1
    )


def test_oracle_commit_order() -> None:
    """The first one wrote later, and another row; it is sent first."""
    first = {**ORACLE, "scn": "90", "commit_scn": "100", "ssn": 0}
    assert newest(ONE, change({**first, "scn": "80", "commit_scn": "110"}), change(first)) == 0
    # Twice in one statement's SCN.
    assert newest(ONE, change({**first, "rs_id": "01.02.0003"}), change({**first, "rs_id": "01.02.0004"})) == 1


def test_postgresql_snapshot_and_open_transaction() -> None:
    """It did not see that change, whose LSN is lower than its own."""
    wrote_before = change({**POSTGRESQL, "lsn": 90, "sequence": '["80","90"]'})
    first_after = change({**POSTGRESQL, "lsn": 90, "sequence": '[null,"90"]'})
    incremental = {**POSTGRESQL, "lsn": None, "sequence": '["80","95"]'}
    assert newest(ONE, read(incremental), wrote_before) == 1
    for sequence in ('[null,"100"]', None):
        assert newest(ONE, read({**POSTGRESQL, "lsn": 100, "sequence": sequence}, "first"), first_after) == 1
        assert newest(ONE, read({**POSTGRESQL, "lsn": 100, "sequence": sequence}, "first"), wrote_before) == 1
    # What was committed before an incremental one is in it.
    assert newest(ONE, change({**POSTGRESQL, "lsn": 78, "sequence": '["70","78"]'}), read(incremental)) == 1


def test_postgresql_without_first_commit() -> None:
    """Of changes of one row the later one began to write after the earlier one's commit."""
    earlier = change({**POSTGRESQL, "lsn": 78, "sequence": '["70","78"]'})
    later = change({**POSTGRESQL, "lsn": 120, "sequence": '["110","120"]'})
    assert newest(ONE, earlier, change({**POSTGRESQL, "lsn": 90, "sequence": '[null,"90"]'}), later) == 2
    assert newest(ONE, earlier, change({**POSTGRESQL, "lsn": 90, "sequence": '[null,"90"]'})) == 1


@pytest.mark.parametrize(
    ("snapshot", "before", "after"),
    [
        (
            {**SQL_SERVER, "commit_lsn": "00000025:00000d98:00a2"},
            {**SQL_SERVER, "commit_lsn": "00000025:00000d98:00a1", "change_lsn": "00000025:00000d98:0001"},
            {**SQL_SERVER, "commit_lsn": "00000025:00000d98:00a3", "change_lsn": "00000025:00000d98:0001"},
        ),
        (
            {**ORACLE, "scn": "100"},
            {**ORACLE, "scn": "80", "commit_scn": "99"},
            {**ORACLE, "scn": "90", "commit_scn": "101"},
        ),
        (
            {**MYSQL, "gtid": f"{UUID}:23"},
            {**MYSQL, "gtid": f"{UUID}:22"},
            {**MYSQL, "gtid": f"{UUID}:24", "pos": 4},
        ),
    ],
)
def test_snapshot_between_changes(snapshot: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """A snapshot row sorts after the changes it includes and before later ones, whatever clocks say."""
    late = {**before, "ts_ms": 9_000}
    assert newest(ONE, change(late), read(snapshot)) == 1
    assert newest(ONE, read(snapshot), change({**after, "ts_ms": 1_000})) == 1


def test_mysql_snapshot_without_server() -> None:
    """By its place it could be later than all changes of a server that took over."""
    [(time, log, position)] = orders(ONE, read({**MYSQL, "server_id": 0}, "true"))
    assert (time, log, position) == (None, None, [3, 154])


def test_another_server_has_another_log() -> None:
    found = orders(
        ONE,
        change(MYSQL),
        change({**MYSQL, "server_id": 1, "file": "mysql-bin.000001", "ts_ms": 6_000}),
        change({**MYSQL, "name": "other"}),
        change({**MYSQL, "file": "binlog.000001"}),
        change({**MYSQL, "gtid": f"{UUID}:1"}),
    )
    assert len({log for _, log, _ in found}) == 5


def test_transaction_number_after_failover() -> None:
    """After a failover with GTIDs the log goes on, in files of another server."""
    first = change({**MYSQL, "gtid": f"{UUID}:23"})
    there = change({**MYSQL, "gtid": f"{UUID}:24", "server_id": 1, "file": "mysql-bin.000001", "pos": 4})
    assert newest(ONE, first, there) == 1
    domain = {**MYSQL, "connector": "mariadb"}
    assert newest(ONE, change({**domain, "gtid": "0-1-99"}), change({**domain, "gtid": "0-2-100", "pos": 4})) == 1


def test_both_rows_of_a_moved_one_have_its_place() -> None:
    [rows] = changes(ONE, event("u", MYSQL, before={"id": 2}, after=AFTER))
    assert [(row["id"], row["change"]["operation"]) for row in rows] == [(2, "delete"), (1, "update")]
    assert rows[0]["change"]["sequence"] == rows[1]["change"]["sequence"]
