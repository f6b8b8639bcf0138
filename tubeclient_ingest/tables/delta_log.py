"""The log of a Delta table through delta-rs: a look at it takes milliseconds, and no Spark."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from offsets_store.errors import scrub
from tubeclient_ingest.commits.history import Commit
from tubeclient_ingest.tables.data_files import FileDestination
from tubeclient_ingest.tables.spark_errors import LogError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

__all__ = ["DeltaLog", "Entry"]

_MOST_ENTRIES: Final = 100
_FOLDER: Final = "_delta_log"
_LOG_FILE: Final = re.compile(r"[0-9]{20}\.(json$|.*parquet$)|_last_checkpoint$|_staged_commits$|_sidecars$")
"""Files of a log that has commits; others are temporary."""


@dataclass(frozen=True)
class Entry:
    """A commit of the table at `where`, with its `commitInfo` as the log has it."""

    version: int
    info: Mapping[str, Any]
    where: str

    @cached_property
    def commit(self) -> Commit:
        """Parsed once: each look asks for the last ones again. ConfigurationError as Commit.of."""
        parameters = {
            name: value if value is None or isinstance(value, str) else json.dumps(value)
            for name, value in (self.info.get("operationParameters") or {}).items()
        }
        written = datetime.fromtimestamp(int(self.info.get("timestamp") or 0) / 1000, UTC)
        own = {"version": self.version, "operationParameters": parameters, "timestamp": written}
        return Commit.of({**self.info, **own}, self.where)


class DeltaLog:
    """The log of the table at `uri`. It is opened once, and then only what came since is read. If the table was removed
    and another one is there, that is noticed. Methods raise LogError."""

    def __init__(self, uri: str, where: str, storage_options: Mapping[str, str] = MappingProxyType({})) -> None:
        """`where` is the table, for messages."""
        self.uri, self.where = uri, where
        self._options = storage_options
        self.handle: DeltaTable | None = None
        """The table as of the last look; None if there was none."""
        self.newest: Entry | None = None
        """The newest commit of the last look."""
        self._entries: dict[int, Entry] = {}
        """Commits by their versions, as far as the last looks read them."""

    @cached_property
    def _files(self) -> FileSystem:
        import pyarrow as pa

        return FileDestination(self.uri, pa.schema([]), storage_options=self._options).file_system()

    def refresh(self) -> DeltaTable | None:
        """The table as it is now; None if there is none."""
        with self.as_log_errors():
            if self.handle is not None and not self._is_current(self.handle.version()):
                try:
                    self.handle.update_incremental()
                except Exception:  # its versions are gone: another table, or none, is there
                    self.handle = None
            if not self.is_same():
                self.handle, self.newest, self._entries = None, None, {}
            if self.handle is None:
                self.handle = self._open()
            version = -1 if self.handle is None else self.handle.version()
            if self.newest is None or self.newest.version != version:
                self.newest = None if self.handle is None else self._entry(version)
        return self.handle

    def has_files(self) -> bool:
        """Whether there is anything in the folder but a log without commits: whoever made it died before its first."""
        from pyarrow.fs import FileSelector

        def names(folder: str) -> list[str]:
            return [found.base_name for found in self._files.get_file_info(FileSelector(folder, allow_not_found=True))]

        try:
            return any(name != _FOLDER for name in names("")) or any(map(_LOG_FILE.match, names(_FOLDER)))
        except FileNotFoundError:  # there is no such local folder
            return False

    def create(self, schema: str, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """Make the table, with the columns of this JSON. Raises delta-rs's errors."""
        from deltalake import DeltaTable, Schema

        how = list(partition_by), None, None, dict(properties), dict(self._options) or None
        DeltaTable.create(self.uri, Schema.from_json(schema), "error", *how, raise_if_key_not_exists=False)

    def commits(self, limit: int) -> Sequence[Entry]:
        """The last ones, newest first, of the last look; of its log's last files, if older ones are gone."""
        with self.as_log_errors():
            found = [] if self.handle is None else list(self._last(self.handle.version(), limit))
        if self.handle is not None and not found:
            raise LogError(
                f"the newest commit of {self.where} is missing from its log, and only a checkpoint is left. Move the "
                "table away: the job then makes a new one, and reads again what the brokers still hold"
            )
        self._entries = {entry.version: entry for entry in found[:_MOST_ENTRIES]}
        return found

    def _is_current(self, version: int) -> bool:
        """Whether the last look read this version, and no commit follows it. That holds if `is_same` finds the version
        afterwards: a log loses its oldest first. One file is asked for, while delta-rs lists the log."""
        from pyarrow.fs import FileType

        if self.newest is None or self.newest.version != version:
            return False
        following = self._files.get_file_info(f"{_FOLDER}/{version + 1:020}.json")
        return bool(following.type == FileType.NotFound)

    def is_same(self) -> bool:
        """Whether the newest commit of the last look is still there: otherwise another table is."""
        return self.newest is None or self._read(self.newest.version) == self.newest

    def _last(self, version: int, limit: int) -> Iterator[Entry]:
        """The commits up to `version`, as far as the log has them."""
        for number in range(version, max(-1, version - limit), -1):
            found = self._entry(number)
            if found is None:
                return
            yield found

    def _entry(self, version: int) -> Entry | None:
        if self.newest is not None and self.newest.version == version:
            return self.newest
        return self._entries.get(version) or self._read(version)

    def _read(self, version: int) -> Entry | None:
        """A commit; None if it is gone from the log. Read here: delta-rs refuses what Spark writes of a clone, and
        blocks all threads of the process meanwhile."""
        try:
            actions = self._actions(version)
        except FileNotFoundError:
            return None
        return Entry(
            version, next((action["commitInfo"] for action in actions if "commitInfo" in action), {}), self.where
        )

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        """What the log says of a commit. FileNotFoundError: it is gone."""
        with self._files.open_input_stream(f"{_FOLDER}/{version:020}.json") as stream:
            lines = stream.read().splitlines()
        return map(json.loads, lines)

    def added_rows(self, version: int) -> int | None:
        """How many rows a commit's files have, by their statistics; None if it is gone."""
        with self.as_log_errors():
            try:
                actions = self._actions(version)
            except FileNotFoundError:
                return None
            stats = (action["add"].get("stats") for action in actions if "add" in action)
            rows: int = sum(json.loads(text).get("numRecords", 0) for text in stats if text)
            return rows

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.uri, storage_options=dict(self._options) or None)
        except TableNotFoundError:
            return None

    @contextlib.contextmanager
    def as_log_errors(self) -> Iterator[None]:
        """Within it errors of delta-rs are LogErrors."""
        from deltalake.exceptions import CommitFailedError

        try:
            yield
        except LogError:
            raise
        except Exception as error:  # also plain Exception: delta-rs raises it for a missing file
            text = f"delta-rs cannot use {self.where}: {scrub(str(error), self._options, self.uri)}"
            raise LogError(text, is_conflict=isinstance(error, CommitFailedError)) from None
