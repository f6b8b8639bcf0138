"""The target of `ingest` as a Delta table in memory: commits, transactions, RESTORE; and the table of bad records."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.errors import PySparkException

from tubeclient_ingest.commits.history import Commit, SinkState, committed, state_of
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.bad_records import Attempt
from tubeclient_ingest.settings.table_by import COUNTS, REST
from tubeclient_ingest.tables.data_files import DataFile
from tubeclient_ingest.tables.table_detail import TableDetail

__all__ = ["BadLog", "BadRow", "ConcurrentWrite", "GroupLog", "MemoryBadRecords", "MemoryTarget", "Row", "TargetLog"]

Pause = Callable[[str], None]
Files = Mapping[str, tuple[Any, ...]]
NO_FILES: Files = MappingProxyType({})
TABLE = "target"


class ConcurrentWrite(PySparkException):
    """Delta's ConcurrentTransactionException: another commit used the transaction's id meanwhile."""


class Row(NamedTuple):
    """A record as the source gives it: its partition's key and its bytes."""

    partition: str
    value: bytes


@dataclass
class _Version:
    operation: str
    rows: tuple[tuple[Row, ...], ...]
    """What the table holds after it: one entry for each append that counts."""
    parameters: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    transaction: tuple[str, int] | None = None
    looked_at: int | None = None
    """How many versions there were when its writer looked last."""


class TargetLog:
    """The table that all drivers share."""

    def __init__(self, name: str = TABLE) -> None:
        self.name = name
        self.versions: list[_Version] = []
        self.properties: dict[str, str] = {}
        self._properties: list[dict[str, str]] = []
        """Of each version."""
        self.on_commit: Callable[[TargetLog], None] = lambda _: None
        self.is_iceberg = False

    @property
    def rows(self) -> list[Row]:
        """What the table holds, in the order of its commits."""
        return [row for part in self.versions[-1].rows for row in part] if self.versions else []

    @property
    def record(self) -> SinkRecord | None:
        """The record of the newest commit of the job that counts."""
        number = len(self.versions) - 1
        while number >= 0:
            version = self.versions[number]
            if version.text is not None:
                return SinkRecord.parse(version.text)
            number = int(version.parameters["version"]) if version.operation == "RESTORE" else number - 1
        return None

    def state(self, consumer_group: str) -> SinkState:
        """What the whole history says of a group."""
        return state_of(self.commits(len(self.versions)), consumer_group, self.name)

    def commits(self, limit: int) -> list[Commit]:
        numbered = list(enumerate(self.versions))[::-1][:limit]
        return [
            Commit(number, one.operation, one.parameters, {}, SinkRecord.parse(one.text), removes=one.text is None)
            for number, one in numbered
        ]

    @property
    def restored_since_look(self) -> bool:
        """Whether RESTORE came between the newest commit and its writer's last look at the table."""
        looked_at = self.versions[-1].looked_at
        return looked_at is not None and any(one.operation == "RESTORE" for one in self.versions[looked_at:-1])

    def put(self, number: int, version: _Version) -> bool:
        if number < len(self.versions):
            return False
        self.versions.append(version)
        self._properties.append(dict(self.properties))
        self.on_commit(self)
        return True

    def write_once(self, query_id: str, batch_id: int, rows: Sequence[Row]) -> None:
        """Append a batch unless the table has it, as a sink with Delta's idempotent writes does."""
        if any(one.transaction == (query_id, batch_id) for one in self.versions):
            return
        before = self.versions[-1].rows if self.versions else ()
        self.put(len(self.versions), _Version("WRITE", (*before, tuple(rows)), transaction=(query_id, batch_id)))

    @property
    def records(self) -> list[SinkRecord]:
        """Those of all tables."""
        return [self.record] if self.record is not None else []

    def is_behind(self, value: bytes) -> bool:
        """Whether the job says that it left the record's table behind."""
        return False

    def bad_rows(self, bad: BadLog, consumer_group: str) -> list[Row]:
        """The bad records that count."""
        return bad.counting(self.state(consumer_group), self.name)

    def a_table(self, rng: random.Random) -> TargetLog:
        """The table itself."""
        return self

    def table(self, name: str) -> TargetLog:
        """The table itself."""
        return self

    def restore(self, number: int) -> None:
        """RESTORE TABLE ... TO VERSION AS OF. Transactions stay, as Delta leaves them."""
        self.properties = dict(self._properties[number])
        self.put(len(self.versions), _Version("RESTORE", self.versions[number].rows, {"version": str(number)}))

    def optimize(self) -> None:
        """A commit of maintenance, which changes no rows."""
        if self.versions:
            self.put(len(self.versions), _Version("OPTIMIZE", self.versions[-1].rows))

    def last_of(self, transaction_id: str, versions: int) -> int | None:
        transactions = [one.transaction for one in self.versions[:versions] if one.transaction is not None]
        found = [number for name, number in transactions if name == transaction_id]
        return max(found, default=None)


class GroupLog(TargetLog):
    """The tables of an InLong group's streams. As a table it is the counts table, with the rows of all others."""

    def __init__(self, streams: int) -> None:
        super().__init__(COUNTS)
        self._streams = streams
        self.tables: dict[str, TargetLog] = {COUNTS: self}

    def stream_of(self, value: bytes) -> str:
        """The stream of a record."""
        return f"s{int(value.rstrip(b'!').rpartition(b'#')[2]) % self._streams}"

    def table(self, name: str) -> TargetLog:
        if name not in self.tables:
            self.tables[name] = TargetLog(name)
            self.tables[name].on_commit, self.tables[name].is_iceberg = self.on_commit, self.is_iceberg
        return self.tables[name]

    def a_table(self, rng: random.Random) -> TargetLog:
        # With the counts table put back and a lost tail accepted nobody can tell what the others have: that is told.
        return self.tables[rng.choice(sorted(self.tables.keys() - {COUNTS}) or [COUNTS])]

    @property
    def rows(self) -> list[Row]:
        others = [one for name, one in self.tables.items() if name != COUNTS]
        return [row for one in others for row in one.rows]

    @property
    def records(self) -> list[SinkRecord]:
        return [one.record for one in self.tables.values() if one.record is not None]

    @property
    def counted(self) -> dict[str, tuple[int, int]]:
        """Received and bad records by table, as the counts table has them."""
        found: dict[str, tuple[int, int]] = {}
        for name, text in TargetLog.rows.fget(self):  # type: ignore[attr-defined]
            received, bad = map(int, text.split())
            before = found.get(name, (0, 0))
            found[name] = before[0] + received, before[1] + bad
        return found

    def is_behind(self, value: bytes) -> bool:
        streams = self.record.streams if self.record is not None else {}
        return any(streams[name].ends is not None for name in (self.stream_of(value), REST) if name in streams)

    def bad_rows(self, bad: BadLog, consumer_group: str) -> list[Row]:
        others = [one for name, one in self.tables.items() if name != COUNTS]
        return [row for one in others for row in bad.counting(one.state(consumer_group), one.name)]


class MemoryTarget:
    """One driver's way to a `TargetLog`; in place of a `SparkTable`."""

    def __init__(self, log: TargetLog, pause: Pause, files: Files = NO_FILES) -> None:
        self._log, self._files = log, files
        self.where = log.name
        self._pause = pause
        self._read_at = 0

    def read_ahead(self) -> None:
        """It is in memory."""

    def detail(self) -> TableDetail | None:
        self._pause("detail")
        columns: Any = None
        return TableDetail(self.where, self.where, columns, self._log.properties) if self._log.versions else None

    def create(self, columns: Any, properties: Mapping[str, str] = MappingProxyType({})) -> TableDetail:
        self._pause("create")
        if not self._log.versions:
            self._log.properties |= properties
            self._log.put(0, _Version("CREATE TABLE", ()))
        found = self.detail()
        assert found is not None
        return found

    def history(self, limit: int) -> list[Commit]:
        self._pause("history")
        self._read_at = len(self._log.versions)
        return self._log.commits(limit)

    def removing(self, versions: Collection[int], location: str) -> set[int]:
        return {number for number in versions if self._log.versions[number].operation == "RESTORE"}

    def last_number(self, transaction_id: str, detail: TableDetail) -> int:
        return self._log.last_of(transaction_id, len(self._log.versions)) or 0

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._pause("set properties")
        if self._log.versions:
            self._log.properties |= properties
            self._log.put(len(self._log.versions), _Version("SET TBLPROPERTIES", self._log.versions[-1].rows))

    def append(self, rows: Any, record: SinkRecord, *, evolve: bool) -> None:
        """As Spark does."""
        seen = len(self._log.versions)
        last = self._log.last_of(record.transaction_id, seen)
        if last is not None and last >= record.sequence:
            return
        made: tuple[Row, ...] = () if rows is None else tuple(rows.collect())
        self._pause("write")
        self._commit(made, record, seen)

    def commit(self, files: Sequence[DataFile], record: SinkRecord) -> None:
        """As LogTable does, or IcebergTable: on the version of the last look."""
        if self._log.is_iceberg and record.based_on not in (None, self._read_at - 1):
            raise ConcurrentWrite("it was looked at since")
        last = self._log.last_of(record.transaction_id, self._read_at)
        if last is not None and last >= record.sequence:
            raise ConcurrentWrite("the number is taken")
        made = tuple(row for one in files for row in self._files[one.path])
        self._commit(made, record, self._read_at)

    def _commit(self, made: tuple[Row, ...], record: SinkRecord, seen: int) -> None:
        log, name = self._log, record.transaction_id
        while True:
            if any(one.transaction and one.transaction[0] == name for one in log.versions[seen:]):
                raise ConcurrentWrite("another commit used this transaction's id")
            number = len(log.versions)
            if log.is_iceberg and number > seen:
                raise ConcurrentWrite("another snapshot came first")
            before = log.versions[-1].rows if log.versions else ()
            transaction = name, record.sequence
            text, looked_at = record.to_json(), self._read_at
            version = _Version("WRITE", (*before, made), {"mode": "Append"}, text, transaction, looked_at)
            self._pause("commit")
            if log.put(number, version):
                break
        self._pause("answer")


@dataclass(frozen=True)
class BadRow:
    """A row of the table of bad records."""

    row: Row
    sequence: int
    run_id: str
    table: str

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.table, self.sequence, self.run_id)


class BadLog:
    """The table of bad records that all drivers share."""

    def __init__(self) -> None:
        self.rows: list[BadRow] = []
        self.confirmed: set[Attempt] = set()
        """Those whose commits their tables have, by what runs wrote down."""

    def last_confirmed(self, name: str) -> int:
        return max((one.number for one in self.confirmed if one.target_id == name), default=0)

    def counting(self, state: SinkState, name: str) -> list[Row]:
        """The rows of commits that the target of this name has, by the product's own SQL."""
        with sqlite3.connect(":memory:") as table:
            table.execute("CREATE TABLE bad (number, sequence, runId, isConfirmed)")
            own = [(n, one.sequence, one.run_id) for n, one in enumerate(self.rows) if one.table == name]
            some = {(number, run) for _, number, run in own if number > self.last_confirmed(name)}
            there = {one for one in some if state.run_of.get(*one) == one[1]}
            rows = [(*one, (name, *one[1:]) in self.confirmed) for one in own]
            table.executemany("INSERT INTO bad VALUES (?, ?, ?, ?)", rows)
            found = table.execute(f"SELECT number FROM bad WHERE {committed(state, there)}").fetchall()
        table.close()
        return [self.rows[number].row for (number,) in found]


class MemoryBadRecords:
    """One driver's way to a `BadLog`: what `BadRecords` does with Spark, for records that are not tried again."""

    where = "bad"

    def __init__(self, table: BadLog, pause: Pause, files: Files = NO_FILES) -> None:
        self._table, self._files = table, files
        self._pause = pause

    def open(self, *, create: bool) -> None:
        self._pause("open")

    def add(self, parsed: Any, record: SinkRecord, target: TableDetail) -> None:
        rows = [BadRow(row, record.sequence, record.run_id, target.table_id) for row in parsed.collect() if is_bad(row)]
        self._put(rows)

    def add_files(self, files: Sequence[DataFile]) -> None:
        self._put([row for one in files for row in self._files[one.path]])

    def _put(self, rows: list[BadRow]) -> None:
        self._pause("add")
        self._table.rows += rows
        self._pause("added")

    def unconfirmed(self, table_ids: Collection[str]) -> set[Attempt]:
        self._pause("unconfirmed")
        own = [one for one in self._table.rows if one.table in table_ids]
        return {one.attempt for one in own if one.sequence > self._table.last_confirmed(one.table)}

    def last_numbers(self, table_ids: Collection[str], target: TableDetail) -> tuple[int, int]:
        ids = {*table_ids, target.location}
        confirmed = max(map(self._table.last_confirmed, ids))
        return max([confirmed, *(one.sequence for one in self._table.rows if one.table in ids)]), confirmed

    def confirm(self, there: Collection[Attempt], target: TableDetail) -> None:
        self._pause("confirm")
        self._table.confirmed |= set(there)
        self._pause("confirmed")

    def remove(self, void: Collection[Attempt]) -> None:
        self._pause("remove")
        self._table.rows = [one for one in self._table.rows if one.attempt not in void]
        self._pause("removed")


def is_bad(row: Row) -> bool:
    """Whether the record cannot be parsed."""
    return row.value.endswith(b"!")
