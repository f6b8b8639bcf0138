"""The target of `ingest` as a Delta table in memory: commits, transactions, RESTORE; and the dead-letter table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkException

from tubeclient_cli.ingest.dead_letters import MissingDeadLetters
from tubeclient_cli.ingest.letter_states import BAD, UNDONE
from tubeclient_cli.ingest.sink_history import Commit, SinkState
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.target_rules import TargetRules
from tubeclient_cli.ingest.target_table import TableVersion, Transactions

if TYPE_CHECKING:
    from tubeclient_cli.ingest.staged import StagedBad

__all__ = ["ConcurrentWrite", "Letter", "Letters", "MemoryLetters", "MemoryTarget", "Row", "TargetLog"]

Pause = Callable[[str], None]


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

    def __init__(self) -> None:
        self.versions: list[_Version] = []
        self.on_commit: Callable[[TargetLog], None] = lambda _: None

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

    @property
    def restored_since_look(self) -> bool:
        """Whether RESTORE came between the newest commit and its writer's last look at the table."""
        looked_at = self.versions[-1].looked_at
        return looked_at is not None and any(one.operation == "RESTORE" for one in self.versions[looked_at:-1])

    def put(self, number: int, version: _Version) -> bool:
        if number < len(self.versions):
            return False
        self.versions.append(version)
        self.on_commit(self)
        return True

    def write_once(self, query_id: str, batch_id: int, rows: Sequence[Row]) -> None:
        """Append a batch unless the table has it, as a sink with Delta's idempotent writes does."""
        if any(one.transaction == (query_id, batch_id) for one in self.versions):
            return
        before = self.versions[-1].rows if self.versions else ()
        self.put(len(self.versions), _Version("WRITE", (*before, tuple(rows)), transaction=(query_id, batch_id)))

    def restore(self, number: int) -> None:
        """RESTORE TABLE ... TO VERSION AS OF. Transactions stay, as Delta leaves them."""
        self.put(len(self.versions), _Version("RESTORE", self.versions[number].rows, {"version": str(number)}))

    def optimize(self) -> None:
        """A commit of maintenance, which changes no rows."""
        if self.versions:
            self.put(len(self.versions), _Version("OPTIMIZE", self.versions[-1].rows))

    def last_of(self, transaction_id: str, versions: int) -> int | None:
        transactions = [one.transaction for one in self.versions[:versions] if one.transaction is not None]
        found = [number for name, number in transactions if name == transaction_id]
        return max(found, default=None)


class MemoryTarget:
    """One driver's way to a `TargetLog`; a `TargetTable`."""

    def __init__(self, log: TargetLog, pause: Pause) -> None:
        self._log = log
        self._pause = pause
        self._looked_at = 0

    def newest(self) -> TableVersion | None:
        self._pause("look")
        self._looked_at = len(self._log.versions)
        return TableVersion("target", len(self._log.versions) - 1) if self._log.versions else None

    def rules(self) -> TargetRules:
        return TargetRules()

    def history(self, limit: int) -> list[Commit]:
        self._pause("history")
        numbered = list(enumerate(self._log.versions))[::-1][:limit]
        return [
            Commit(number, one.operation, one.parameters, {}, SinkRecord.parse(one.text), removes=one.text is None)
            for number, one in numbered
        ]

    def removing(self, versions: Collection[int]) -> set[int]:
        return {number for number in versions if self._log.versions[number].operation == "RESTORE"}

    def transactions(self, transaction_id: str) -> Transactions:
        return Transactions(self._log.last_of(transaction_id, len(self._log.versions)), False)

    def append(self, rows: Any, record: SinkRecord, *, evolve: bool) -> int | None:
        log, name = self._log, record.transaction_id
        seen = len(log.versions)
        last = log.last_of(name, seen)
        if last is not None and last >= record.sequence:
            return None
        made: tuple[Row, ...] = tuple(rows.collect())
        self._pause("write")
        while True:
            if any(one.transaction and one.transaction[0] == name for one in log.versions[seen:]):
                raise ConcurrentWrite("another commit used this transaction's id")
            number = len(log.versions)
            before = log.versions[-1].rows if log.versions else ()
            transaction = name, record.sequence
            text, looked_at = record.to_json(), self._looked_at
            version = _Version("WRITE", (*before, made), {"mode": "Append"}, text, transaction, looked_at)
            self._pause("commit")
            if log.put(number, version):
                break
        self._pause("answer")
        return number


@dataclass(frozen=True)
class Letter:
    """A row of the dead-letter table."""

    row: Row
    sequence: int
    state: str = BAD


class Letters:
    """The dead-letter table that all drivers share, and its staged folders."""

    def __init__(self) -> None:
        self.rows: tuple[Letter, ...] = ()
        self.transactions: dict[str, int] = {}
        self.staged: dict[str, tuple[Row, ...]] = {}
        self.version = 0
        self.made = False


class MemoryLetters:
    """One driver's way to `Letters`: what `DeadLetters` does with Spark, for records that are not tried again.

    A change is one commit: it fails as Delta's does if another came first.
    """

    location = "letters"
    where = "letters"

    def __init__(self, table: Letters, pause: Pause) -> None:
        self._table = table
        self._pause = pause

    def exists(self) -> bool:
        return self._table.made

    def create(self) -> None:
        self._pause("create")
        self._table.made = True

    def check(self) -> None:
        """All is well."""

    def stage(self, parsed: Any, folder: str) -> None:
        rows = tuple(row for row in parsed.collect() if is_bad(row))
        self._pause("stage")
        self._table.staged[folder] = rows
        self._pause("staged")

    def staged(self) -> list[str]:
        return list(self._table.staged)

    def has_staged(self, folder: str) -> bool:
        return folder in self._table.staged

    def remove(self, folder: str) -> None:
        self._pause("remove")
        self._table.staged.pop(folder, None)

    def published(self, target_id: str) -> int:
        return self._table.transactions.get(target_id, -1)

    def publish(self, record: SinkRecord, bad: StagedBad, target_id: str, *, undone: bool = False) -> None:
        state = UNDONE if undone else BAD

        def change() -> bool:
            if self.published(target_id) >= record.sequence:
                return False
            rows = self._table.staged.get(bad.folder or "")
            if rows is None or len(rows) != bad.count:
                if self.published(target_id) >= record.sequence:
                    return False
                raise MissingDeadLetters(f"the folder {bad.folder} has not the {bad.count} bad records")
            self._commit(
                target_id, record.sequence, lambda old: (*old, *(Letter(row, record.sequence, state) for row in rows))
            )
            return True

        self._until_alone(change)

    def mark(self, state: SinkState, target_id: str) -> None:
        record, name = state.record, f"{target_id}:states"
        if state.version is None or (record is None and not state.is_whole):
            return
        held, known_from = (record.held, record.known_from) if record is not None else ((), 1)
        version = state.version

        def right(letter: Letter) -> Letter:
            number = letter.sequence
            if not known_from <= number <= state.sequence:
                return letter
            return replace(letter, state=BAD if any(one <= number <= last for one, last in held) else UNDONE)

        def change() -> bool:
            if self._table.transactions.get(name, -1) >= version:
                return False
            now = tuple(map(right, self._table.rows))
            if not state.is_restored and now == self._table.rows:
                return False
            self._commit(name, version, lambda old: tuple(map(right, old)))
            return True

        self._until_alone(change)

    def _commit(self, name: str, number: int, change: Callable[[Sequence[Letter]], tuple[Letter, ...]]) -> None:
        seen = self._table.version
        self._pause("publish")
        if self._table.version != seen:
            raise ConcurrentWrite("the table was written since")
        self._table.rows = change(self._table.rows)
        self._table.transactions[name] = number
        self._table.version += 1
        self._pause("published")

    def _until_alone(self, change: Callable[[], bool]) -> None:
        for left in reversed(range(10)):
            try:
                change()
                return
            except ConcurrentWrite:
                if not left:
                    raise


def is_bad(row: Row) -> bool:
    """Whether the record cannot be parsed."""
    return row.value.endswith(b"!")
