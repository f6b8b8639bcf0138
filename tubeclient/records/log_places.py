"""Where a change is in its database's log: numbers that order the changes of a row, and the log that they belong to.

What the fields of Debezium's `source` are is from Debezium's sources at aad55199 (3.7.0-SNAPSHOT): the classes
*SourceInfoStructMaker and *OffsetContext of each connector, and the pages of its documentation for Db2 and Informix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import WHOLE, Node, fields_of

NAMES: Final = (
    *("connector", "name", "db", "snapshot", "ts_ms"),
    *("server_id", "gtid", "file", "pos"),  # MySQL, MariaDB
    *("lsn", "sequence"),  # PostgreSQL
    *("scn", "commit_scn", "rs_id", "ssn"),  # Oracle
    *("commit_lsn", "change_lsn", "event_serial_no"),  # SQL Server, Db2, Informix
    "commit_ts",  # TiDB, as TiCDC writes it
)
"""The fields of `source` that say where a change is."""

BINLOG: Final = "binlog "
"""How the name of a log begins whose places never begin anew under that name: it has the server. A time there may be
that of a statement which waited for others, so it says nothing against a place."""

_MOST: Final = 2**63 - 1
_FILE: Final = re.compile(r"(.*)\.([0-9]{1,18})")
_GTID: Final = re.compile(r"([0-9a-fA-F-]{36}(?::[A-Za-z_][A-Za-z0-9_]{0,31})?):([0-9]{1,18})")
_GTID_OF_MARIADB: Final = re.compile(r"([0-9]{1,10})-[0-9]{1,10}-([0-9]{1,18})")
_HEX: Final = re.compile(r"[0-9a-fA-F]{1,8}(?::[0-9a-fA-F]{1,8}){1,7}")
_REDO_ADDRESS: Final = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{1,12})\.([0-9a-fA-F]{1,12})\.([0-9a-fA-F]{1,12})\s*")


class LogPlace(NamedTuple):
    """A place in a log."""

    log: str | None
    """Which log it is: places are compared within one. None if that is not known."""
    position: list[int]
    """Numbers that are compared in turn. What begins another place is before it."""


def whole_number(node: Node | None, name: str) -> int | None:
    """The number of a field, which Debezium writes as a number or as a text. BadRecord: it has something else."""
    if node is None or node.kind == "null":
        return None
    if node.kind in ("number", "text") and WHOLE.fullmatch(node.value) is not None:
        value = int(node.value)
        if abs(value) <= _MOST:
            return value
    raise BadRecord(f"{name} is not a 64-bit whole number", node.start)


def text_of(node: Node | None) -> str:
    """The text of a field; of a number its digits, and "" of what is missing or neither."""
    return node.value if node is not None and node.kind in ("text", "number") else ""


def gtid_place(gtid: str) -> tuple[str, int] | None:
    """Which log a global transaction id belongs to, and its number there; None if it is none.

    MySQL's are UUID:NUMBER or UUID:TAG:NUMBER, and each server numbers its own. MariaDB's are DOMAIN-SERVER-NUMBER, and
    within a domain the numbers go on when another server takes over.
    """
    if (found := _GTID_OF_MARIADB.fullmatch(gtid)) is not None:
        return f"domain {found[1]}", int(found[2])
    if (found := _GTID.fullmatch(gtid)) is not None:
        return f"{BINLOG}{found[1].lower()}", int(found[2])
    return None


def source_place(source: Mapping[str, Node], transaction: Node | None, *, is_read: bool) -> LogPlace:
    """The place that Debezium's `source` and `transaction` name; `is_read` says that a snapshot read the row.
    BadRecord: a number is none."""
    log = "/".join(filter(None, (text_of(source.get("connector")), text_of(source.get("name")))))

    def number(name: str) -> int | None:
        return whole_number(source.get(name), f"source.{name}")

    if (pos := number("pos")) is not None:
        return _of_binlog(source, log, [pos, *_total_order(transaction)])
    if (scn := number("scn")) is not None:
        # By the commit, as the connector sends transactions when they end. A snapshot is as of an SCN: it has what was
        # committed by then, and names no commit.
        commit = number("commit_scn")
        if commit is None and is_read:
            return LogPlace(log, [scn])
        found = _REDO_ADDRESS.fullmatch(text_of(source.get("rs_id")))
        redo = [int(part, 16) for part in found.groups()] if found is not None else [0, 0, 0]
        return LogPlace(log, [scn if commit is None else commit, scn, *redo, number("ssn") or 0])
    if text_of(source.get("commit_lsn")):
        # Each captured database has a log of its own.
        log = "/".join(filter(None, (log, text_of(source.get("db")))))
        position = [*_lsn(source, "commit_lsn"), *_lsn(source, "change_lsn")]
        serial = number("event_serial_no")
        return LogPlace(log, position if serial is None else [*position, serial])
    lsn, last_commit = number("lsn"), None
    sequence = _sequence(source.get("sequence"))
    if sequence is not None:
        last_commit, lsn = sequence[0], sequence[1] if lsn is None else lsn
    if lsn is not None:
        return LogPlace(log, _of_postgresql(last_commit, lsn, is_read=is_read))
    commit = number("commit_ts")
    return LogPlace(log, [] if commit is None else [commit])


def _of_binlog(source: Mapping[str, Node], log: str, within: list[int]) -> LogPlace:
    """By the transaction's number, which is the same in the binary logs of all replicas. Without one by file and place,
    which are a server's own. Not by `row`: with binlog_transaction_compression a whole transaction has one `pos`, and
    `row` begins at 0 in each of its statements."""
    gtid = gtid_place(text_of(source.get("gtid")))
    if gtid is not None:
        return LogPlace(gtid[0], [gtid[1], *within])
    file = text_of(source.get("file"))
    found = _FILE.fullmatch(file)
    base, number = (found[1], int(found[2])) if found is not None else (file, 0)
    server = text_of(source.get("server_id"))
    if server == "0":
        # A snapshot does not say which server it read: another one's places could look the same.
        return LogPlace(None, [number, *within])
    return LogPlace(BINLOG + "/".join(filter(None, (log, server, base))), [number, *within])


def _total_order(transaction: Node | None) -> list[int]:
    """The event's number in its transaction, with the connector's provide.transaction.metadata."""
    if transaction is None or transaction.kind == "null":
        return []
    if transaction.kind != "object":
        raise BadRecord("transaction is not an object", transaction.start)
    order = whole_number(fields_of(transaction, "transaction").get("total_order"), "transaction.total_order")
    return [] if order is None else [order]


def _of_postgresql(last_commit: int | None, lsn: int, *, is_read: bool) -> list[int]:
    """By the transaction that was committed last, then by the place of the change itself.

    Transactions come in the order of their commits. A change may so have a lower LSN than a snapshot that did not see
    it, as its transaction was still open then. It comes after the same commit as the snapshot or a later one, and of
    the same one the snapshot is the first. A snapshot that is no incremental one names no commit: it is before all
    changes. Of a change without one its own LSN does as well: whoever changed that row before had committed by then.
    """
    if is_read:
        return [last_commit or 0, 0, lsn]
    return [lsn if last_commit is None else last_commit, 1, lsn]


def _sequence(node: Node | None) -> tuple[int | None, int | None] | None:
    """PostgreSQL's `sequence`, as in ["24023119","24023128"]: the last commit, and the place itself."""
    try:
        found = json.loads(text_of(node) or "null")
        if not isinstance(found, list) or len(found) != 2:
            return None
    except (ValueError, RecursionError):
        return None
    numbers = []
    for number in found:
        is_number = WHOLE.fullmatch(str(number)) is not None and abs(int(number)) <= _MOST
        numbers.append(int(number) if is_number else None)
    return numbers[0], numbers[1]


def _lsn(source: Mapping[str, Node], name: str) -> list[int]:
    """SQL Server and Db2 write 0000002a:00000758:0005, and Informix a whole number in digits."""
    text = text_of(source.get(name))
    if not text:
        return []
    if _HEX.fullmatch(text) is not None:
        return [int(part, 16) for part in text.split(":")]
    number = whole_number(source[name], f"source.{name}")
    assert number is not None
    return [number]
