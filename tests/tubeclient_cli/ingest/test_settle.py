"""What a run does about what others left, and how it writes; target, tables and batches are stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_source.offsets.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.ingest import batch_writer
from tubeclient_cli.ingest.batch_writer import BatchWriter, _Counted, _is_before_retries
from tubeclient_cli.ingest.dead_letters import MissingDeadLetters
from tubeclient_cli.ingest.settings import IngestSettings
from tubeclient_cli.ingest.sink import OvertakenRun
from tubeclient_cli.ingest.sink_history import SinkState, TakenOut
from tubeclient_cli.ingest.sink_record import SinkRecord
from tubeclient_cli.ingest.staged import StagedBad, folder_name, numbers, owner_mark
from tubeclient_cli.ingest.target_rules import TargetRules

NO_SPARK: Any = None
RECORD = SinkRecord("g", "q", 3, Offsets({}), 7, 41)


def folder(sequence: int, unique: str = "x", target: str = "id-1") -> str:
    return folder_name(owner_mark("g", target), sequence, unique)


@dataclass
class Letters:
    """A dead-letter table: what is staged and published, and which versions of the target it was told of."""

    location: str
    folders: list[str] = field(default_factory=list)
    newest: int = -1
    told: list[int | None] = field(default_factory=list)
    undone: list[bool] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    """The numbers of the commits that were published."""
    names: list[str] = field(default_factory=list)
    """Of all folders that were staged here."""

    @property
    def where(self) -> str:
        return self.location

    def create(self) -> None:
        pass

    def published(self, target_id: str) -> int:
        assert target_id == "id-1"
        return self.newest

    def has_staged(self, name: str) -> bool:
        return name in self.folders

    def publish(self, record: SinkRecord, bad: StagedBad, target_id: str, *, undone: bool = False) -> None:
        assert bad.folder in self.folders
        self.newest = record.sequence
        self.sequences.append(record.sequence)
        self.undone.append(undone)

    def staged(self) -> list[str]:
        return list(self.folders)

    def remove(self, name: str) -> None:
        self.folders.remove(name)

    def stage(self, parsed: Parsed, name: str) -> None:
        assert parsed.is_kept
        self.folders.append(name)
        self.names.append(name)

    def letters(self, *_: object) -> None:
        """There are no rows without Spark."""
        raise NotImplementedError

    def mark(self, state: SinkState, target_id: str) -> None:
        self.told.append(state.version)


class Parsed:
    """A batch of three records, of which the second one is bad."""

    is_kept = False

    def parse(self, _: object) -> Parsed:
        return self

    def only_good(self, _: object) -> Parsed:
        return self.persist()

    def persist(self) -> Parsed:
        self.is_kept = True
        return self

    def unpersist(self) -> None:
        self.is_kept = False

    def counted(self) -> _Counted:
        assert self.is_kept
        return _Counted(3, 1, "the second")


class Lake:
    """A target in the state `state`, and dead-letter tables by their places."""

    where = "/lake/t"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: SinkState) -> None:
        self.state = state
        self.tables: dict[str, Letters] = {}
        self.overtaken_by: list[SinkRecord] = []
        """Commits of other runs, of which each comes during one of this run's."""
        monkeypatch.setattr(batch_writer, "DeadLetters", lambda _spark, path, _group: self.table(path))
        monkeypatch.setattr(batch_writer, "_count", Parsed.counted)
        monkeypatch.setattr(batch_writer, "target_rows", lambda parsed: parsed)

    def table(self, path: str = "/lake/bad", *folders: str) -> Letters:
        letters = self.tables.setdefault(path, Letters(path))
        letters.folders.extend(folders)
        return letters

    def look(self) -> SinkState:
        return self.state

    def rules(self) -> TargetRules:
        return TargetRules()

    def append(self, rows: Parsed, record: SinkRecord) -> SinkRecord:
        assert rows.is_kept
        if self.overtaken_by:
            self._commit(self.overtaken_by.pop())
            raise OvertakenRun("another run was faster")
        return self._commit(record)

    def _commit(self, record: SinkRecord) -> SinkRecord:
        written = self.state.numbered(record)
        self.state = SinkState(written, written.sequence, version=written.sequence)
        return written

    def table_id(self) -> str:
        return "id-1"

    def writer(self, **settings: Any) -> BatchWriter:
        needed = {"master_servers": "h:1", "consumer_group": "g", "topics": ("clicks",), "checkpoint": "/c"}
        job = IngestSettings(**{**needed, "target": self.where, "bad_records": "/lake/bad", **settings})
        sink: Any = self
        parsed: Any = Parsed()
        writer = BatchWriter(NO_SPARK, job, sink, parsed)
        writer.open()
        return writer

    def write(self, **settings: Any) -> None:
        """Write the batch after `RECORD`'s."""
        self.writer(**settings).write(NO_SPARK, replace(RECORD, batch_id=4), self.state)

    def settle(self, **settings: Any) -> None:
        self.writer(**settings).settle(self.state)


def state(bad: StagedBad | None, **more: Any) -> SinkState:
    return SinkState(replace(RECORD, bad=bad), 7, version=42, **more)


def test_what_is_staged_is_published_and_its_folder_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for retried in (False, True):
        lake = Lake(monkeypatch, state(StagedBad("/lake/bad", folder(7), 2, retried=retried)))
        letters = lake.table("/lake/bad", folder(7), folder(6), folder(8), folder(1, target=lake.where))
        lake.settle()
        assert (letters.newest, letters.undone, letters.folders) == (7, [False], [folder(8)])


def test_ids_of_a_retry_that_are_gone_are_for_the_user_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes it for done lets the same records be moved twice."""
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad", folder(7), 2, retried=True)))
    with pytest.raises(MissingDeadLetters, match=r"a retry moved 2 bad .* which: .* is gone\..* RESTORE .* version 41"):
        lake.settle()
    assert lake.table().told == []
    lake.settle(starting_offsets="target")
    assert lake.table().told == [42]


def test_a_retry_that_is_marked_needs_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad", folder(7), 2, retried=True)))
    lake.table().newest = 7
    lake.settle()
    assert lake.table().undone == []


def test_what_restore_undid_is_published_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    undone = replace(RECORD, bad=StagedBad("/lake/bad", folder(7), 2))
    lake = Lake(monkeypatch, SinkState(replace(RECORD, sequence=5), 7, undone=undone, is_restored=True, version=44))
    letters = lake.table("/lake/bad", folder(7))
    lake.settle()
    assert (letters.undone, letters.told) == ([True], [44])


def test_staged_records_of_a_commit_that_the_history_lost_are_left_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = SinkState(None, 7, is_whole=False, version=60)
    for left in (folder(7), folder(7, "y")):
        lake = Lake(monkeypatch, cut)
        letters = lake.table("/lake/bad", folder(6), left)
        with pytest.raises(MissingDeadLetters, match=rf"no longer has commit 7 of group g, .*{left}.* move the folder"):
            lake.settle()
        assert len(letters.folders) == 2
        letters.newest = 7
        lake.settle()
    # Folders of others, of other numbers, and a first run have nothing to do with it.
    for one in (cut, SinkState()):
        lake = Lake(monkeypatch, one)
        lake.table("/lake/bad", folder(6), folder(8), folder(7, target="id-2"))
        lake.settle()


def test_a_retry_waits_for_a_batch_where_the_history_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, SinkState(None, 7, is_whole=False, version=60))
    with pytest.raises(
        ConfigurationError, match=r"no longer has a commit of group g\. Let the job write a batch first"
    ):
        lake.writer().retry(None)


def test_all_tables_that_the_group_has_had_are_told_of_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = StagedBad("/lake/bad", earlier_tables=("/lake/old", "/lake/older"))
    lake = Lake(monkeypatch, state(bad))
    lake.settle(bad_records="/lake/new")
    assert {path: table.told for path, table in lake.tables.items()} == {"/lake/new": [42], "/lake/bad": [42]}
    lake = Lake(monkeypatch, state(bad, is_restored=True))
    lake.settle(bad_records="/lake/older")
    assert {path: table.told for path, table in lake.tables.items()} == {
        path: [42] for path in ("/lake/older", "/lake/bad", "/lake/old")
    }


def test_a_dry_run_of_a_retry_finishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad", folder(7), 2)))
    letters = lake.table("/lake/bad", folder(7))
    for dry_run, left in ((True, [folder(7)]), (False, [])):
        with pytest.raises(NotImplementedError):
            lake.writer().retry(None, dry_run=dry_run)
        assert letters.folders == left


@pytest.mark.parametrize("own", [None, "/lake/new"])
def test_a_run_hands_on_which_tables_the_group_has_had(monkeypatch: pytest.MonkeyPatch, own: str | None) -> None:
    """Else a RESTORE to before all of them would leave their records as they are."""
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad", earlier_tables=("/lake/old",))))
    lake.write(bad_records=own)
    lake.state = SinkState(replace(RECORD, sequence=1), 8, undone=lake.state.record, is_restored=True, version=44)
    lake.settle(bad_records=None)
    wanted = {"/lake/bad": [44], "/lake/old": [44], **({own: [44]} if own else {})}
    assert {path: table.told for path, table in lake.tables.items()} == wanted


def test_a_batch_is_parsed_once_and_written_on_top_of_retries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = replace(RECORD, bad=StagedBad("/lake/bad", folder(8), 2, retried=True))
    lake = Lake(monkeypatch, state(None))
    lake.overtaken_by = [retry]
    lake.table("/lake/bad", folder(8))
    lake.write()
    assert lake.state.record is not None
    # What the retry moved is marked first.
    assert (lake.state.record.batch_id, lake.table().sequences) == (4, [8, 9])
    for other in (replace(retry, query_id="other"), replace(retry, batch_id=4), replace(RECORD, bad=None)):
        lake = Lake(monkeypatch, state(None))
        lake.overtaken_by = [other]
        with pytest.raises(OvertakenRun):
            lake.write()


def test_each_look_after_a_restore_is_told_though_it_be_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a run that looked between two RESTOREs could overrule it."""
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad")))
    writer = lake.writer()
    for one in (lake.state, lake.state, replace(lake.state, is_restored=True, version=44)):
        writer.settle(one)
    assert lake.table().told == [42, 44]


def test_only_retries_leave_a_batch_what_it_was() -> None:
    before = SinkState(RECORD, 7, version=42)
    retry = replace(RECORD, sequence=8, bad=StagedBad("/lake/bad", retried=True))
    assert _is_before_retries(before, SinkState(retry, 8))
    ends = Offsets({PartitionKey(1, "clicks", 0): 28})
    others = (
        SinkState(None, 8),
        SinkState(retry, 8, taken_out=TakenOut(43, "DELETE", everything=False)),
        SinkState(retry, 9, undone=replace(RECORD, sequence=9)),
        *(SinkState(replace(retry, **change), 8) for change in ({"query_id": "p"}, {"batch_id": 4}, {"ends": ends})),
        SinkState(replace(retry, bad=StagedBad("/lake/bad")), 8),
    )
    assert not any(_is_before_retries(before, other) for other in others)


def test_a_folder_is_for_the_next_commit_to_the_table_whatever_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, state(None))
    lake.write()
    assert list(numbers(lake.table().names, [owner_mark("g", "id-1")]).values()) == [8]


def test_a_run_need_not_look_again_at_what_it_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(monkeypatch, state(None))
    writer = lake.writer()
    writer.write(NO_SPARK, replace(RECORD, batch_id=4), lake.state)
    writer.settle(lake.state)
    assert lake.table().told == []
    assert (writer.bad_of(4), writer.bad_of(3)) == (1, 0)


def test_it_is_enough_that_one_of_the_tables_has_the_bad_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with a table of its own comes after one whose folder is published and removed."""
    lake = Lake(monkeypatch, state(StagedBad("/lake/bad", folder(7), 2)))
    lake.table("/lake/bad").newest = 7
    lake.settle(bad_records="/lake/new")
    assert [lake.tables[path].told for path in ("/lake/bad", "/lake/new")] == [[42], [42]]


def test_what_is_gone_of_a_commit_that_restore_undid_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    undone = replace(RECORD, bad=StagedBad("/lake/bad", folder(7), 2))
    lake = Lake(monkeypatch, SinkState(replace(RECORD, sequence=5), 7, undone=undone, is_restored=True, version=44))
    lake.settle()
    assert (lake.table().told, caplog.messages[0].rpartition(";")[2]) == ([44], " RESTORE undid that commit")
