"""Which streams a job has, and what their records are: by files, by InLong's Manager, or by the events themselves.

A table keeps the definition of Manager's that its rows were written by. So a Manager that is down stops no stream that
has a table. Events are asked for columns that the table lacks.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from spark_source.options.table_uris import quoted, type_in_sql
from spark_source.typed.columns import CHANGE, LINEAGE
from tubeclient.admin.inlong_manager import InlongManager, InlongManagerError
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError, TransportError
from tubeclient.records.event_columns import changes_values, merged_columns, no_type
from tubeclient_ingest.rounds.upserts import KEY_PROPERTY
from tubeclient_ingest.settings.group_settings import defines, fits, manager_of, of_stream, table_by_of
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.inlong_definition import PROPERTY, change
from tubeclient_ingest.settings.table_by import PK_NAMES, REST, EventColumns, StreamId
from tubeclient_ingest.tables.table_detail import NAMED_COLUMNS, TableDetail
from tubeclient_ingest.tables.target_columns import can_widen, may_widen

_log = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS: Final = 60.0
"""After Manager did not answer."""


class Definitions:
    """Of one job."""

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        self._manager = manager_of(settings)
        self._known: dict[str, str] | None = None
        """What Manager said last, by stream; None if it has not answered yet."""
        self._why = ""
        self._ask_at = 0.0
        self._table_by = table_by_of(settings)
        self._of_events: dict[str, dict[str, str]] = {}
        """The columns that events said, by stream: Spark's types by the names."""
        self._keys: dict[str, set[tuple[str, ...]]] = {}
        """The keys that events said, by stream."""
        self._written: dict[str, EventColumns] = {}
        """What the table of a stream gets."""
        self._in_table: dict[StreamId, tuple[dict[str, str], list[str] | None]] = {}
        """The columns of a stream's table, and which ones events had named by the table's property; None without it."""
        self._widens: dict[StreamId, tuple[str, ...]] = {}
        """Streams whose columns get wider types, with those that keep theirs, as they partition the table."""
        self.waiting: set[StreamId] = set()
        """Streams whose tables are gone, and are made anew once an event says their columns."""

    def changed(self) -> bool:
        """Ask Manager, unless it did not answer a moment ago. Returns whether it says something else than before.

        Ask once the end of a round is known: what was sent by then is as Manager defines it now, or did before. A
        Manager that does not answer says nothing else, nor does one that refuses what it answered before.
        InlongManagerError if it refuses the first question, ConfigurationError if it has the group on another topic.
        """
        if self._manager is None or time.monotonic() < self._ask_at:
            return False
        before = self._known
        try:
            if before is None:
                self._check_topic(self._manager)
            assert self._settings.inlong_group is not None
            self._known = self._manager.streams(self._settings.inlong_group)
        except (TransportError, InlongManagerError) as error:
            if before is None and isinstance(error, InlongManagerError):
                raise
            self._why, self._ask_at = error_text(error), time.monotonic() + _ASK_AGAIN_SECONDS
            _log.warning("streams continue with the definitions stored in their tables: %s", self._why)
        return self._known != before

    def _check_topic(self, manager: InlongManager) -> None:
        assert self._settings.inlong_group is not None
        topic = manager.group(self._settings.inlong_group).topic
        if topic not in self._settings.topics:
            raise ConfigurationError(
                f"InLong's Manager has group {self._settings.inlong_group} on the topic {topic}, but the job reads "
                f"{', '.join(self._settings.topics)}; set topics to {topic}"
            )

    def defines(self, name: StreamId, *, before: bool = True) -> bool:
        """Whether it is known what records of the stream are, and it may have a table; `before` holds as long as
        Manager does not answer."""
        twins = [twin for twin in self._known or () if twin.lower() == name.lower()]
        if not fits(self._settings, name, is_alone=self._manager is not None and len(twins) < 2):
            return False
        if self._table_by.reads_columns:
            return name in self._of_events and (bool(self._keys.get(name)) or not self._table_by.reads_keys)
        if self._manager is None:
            return defines(self._settings, name)
        return before if self._known is None else name in self._known

    def learn(self, name: StreamId, texts: Iterable[str]) -> bool:
        """Take what events say of a stream's columns, as TableBy has it. Returns whether that defines the stream, or
        gives its table more columns, as it did not before."""
        before, written, was_defined = self._of_events.get(name, {}), self._written.get(name), self.defines(name)
        events = [EventColumns(*json.loads(text)) for text in texts]
        if found := merged_columns([before, *(event.types for event in events)]):
            self._of_events[name] = found
        keys = {tuple(event.key) for event in events if event.key is not None}
        if keys != {()} or written is not None or self._keys.get(name):  # else its rows are for the rest
            self._keys.setdefault(name, set()).update(keys)
        if written is None:
            return self.defines(name) and not was_defined
        key = written.key or ()
        if any(_unordered(other) != _unordered(key) for other in keys):
            return True
        if name in self._widens and self._wider(name, written.types, found, key) != written.types:
            return True
        if any(changes_values(kind, found.get(column, kind)) for column, kind in written.types.items()):
            return True
        more = sorted(found.keys() - written.types.keys())
        if self._own_columns(name).keys() != self._in_table[name][0].keys() & written.types.keys():
            return True
        if more and not self._settings.evolve and found != before:
            _log.warning(
                "events of %s have columns that its table lacks: %s; set evolve to add them", name, ", ".join(more)
            )
        return bool(more) and self._settings.evolve

    def stored(self, table: Callable[[], TableDetail | None]) -> str | None:
        """What a stream's table keeps of its definition; None without one."""
        if not (self._table_by.reads_columns or self._manager is not None):
            return None
        detail = table()
        if detail is None or self._manager is not None:
            return None if detail is None else detail.properties.get(PROPERTY)
        own = [column for column in detail.columns if column.name not in (LINEAGE, CHANGE)]
        names = json.loads(detail.properties.get(NAMED_COLUMNS, "null"))
        key = tuple(filter(None, detail.properties.get(KEY_PROPERTY, "").split(",")))
        widens = self._settings.evolve and may_widen(detail)
        fixed = [*detail.partition_by] if widens else None
        return json.dumps([{column.name: type_in_sql(column.dataType) for column in own}, key, fixed, names])

    def settings_of(self, name: StreamId, stored: str | None) -> IngestSettings:
        """The settings of a job for the stream alone; `stored` is what its table keeps of its definition.
        ConfigurationError if the stream's new records do not mean what its old ones did."""
        if self._table_by.reads_columns and name != REST:
            return self._of_columns(name, stored)
        if self._manager is None or name == REST:
            return of_stream(self._settings, name)
        new = None if self._known is None else self._known.get(name)
        if new is None and stored is None:
            why = self._why or f"InLong's Manager has no stream {name}"
            raise ConfigurationError(f"its records are not defined: {why}")
        if new is not None and stored is not None and (other := change(stored, new).other) is not None:
            raise ConfigurationError(
                f"its definition in InLong's Manager changed: {other}. First write the records from before the change: "
                f"run once with --stream {name}, with --until, and with schema-from-inlong instead of inlong-manager. "
                f"Its file is the former definition, which the table's property {PROPERTY} has. Then remove the "
                "property (ALTER TABLE ... UNSET TBLPROPERTIES). Or use another target"
            )
        return of_stream(self._settings, name, stored if new is None else new)

    def _of_columns(self, name: StreamId, stored: str | None) -> IngestSettings:
        table, own_key, fixed, names = ({}, (), None, ()) if stored is None else json.loads(stored)
        self._written.pop(name, None)  # until it is right, no event changes it
        events = self._of_events.get(name, {})
        self._in_table[name] = table, names
        columns = self._own_columns(name)
        if not columns or self._settings.evolve:
            columns = {**events, **columns}
        if not columns:
            self.waiting.add(name)
            raise ConfigurationError(f"its columns are unknown: no event of {name} has named them yet")
        key = self._key_of(name, tuple(own_key)) if self._table_by.reads_keys else self._settings.key
        self._widens.pop(name, None)
        if fixed is not None:
            self._widens[name] = tuple(fixed)
            columns = self._wider(name, columns, events, key)
        for column, kind in columns.items():
            wanted = events.get(column, kind)
            if no_type(wanted):
                raise ConfigurationError(
                    f"events have {wanted} in {column}, which no type can store unchanged. First write the events "
                    "before the change, in smaller rounds or with --until; or set a schema"
                )
            if changes_values(kind, wanted):
                raise ConfigurationError(
                    f"events have {wanted} in {column}, which is {kind} in the table and would change some values. "
                    f"Make the column {wanted} (docs/bad-records.md, Another type for a column), or set a schema"
                )
        self._written[name] = EventColumns(columns, key)
        ddl = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())
        settings = of_stream(self._settings, name, schema=ddl, key=key)
        if names is None and not events:
            return settings
        properties = {**settings.table_properties, NAMED_COLUMNS: json.dumps(sorted(columns))}
        return replace(settings, table_properties=properties)

    def _own_columns(self, name: StreamId) -> dict[str, str]:
        """The columns of a stream's table that events have named, or all as long as nothing says which. The others are
        not the stream's: whoever added them fills them in."""
        table, names = self._in_table[name]
        events = self._of_events.get(name, {})
        named = _unordered(table if names is None and not events else [*(names or ()), *events])
        return {column: kind for column, kind in table.items() if column.lower() in named}

    def _wider(
        self, name: StreamId, columns: dict[str, str], events: dict[str, str], key: tuple[str, ...]
    ) -> dict[str, str]:
        """A table's columns, of types that also have the values of events where Delta can widen them."""
        dotted = [column for column in columns if "." in column]  # Delta would take it for a field
        fixed = _unordered((*key, *self._settings.partition_by, *self._widens[name], *dotted))
        merged = merged_columns([{column: kind.upper() for column, kind in columns.items()}, events])
        return {
            column: merged[column] if column.lower() not in fixed and can_widen(kind, merged[column]) else kind
            for column, kind in columns.items()
        }

    def _key_of(self, name: StreamId, stored: tuple[str, ...]) -> tuple[str, ...]:
        """The key of a stream whose table has the key `stored`. ConfigurationError: nobody says it, or events say
        another one."""
        keys = sorted(self._keys.get(name, ()))
        key = stored or (keys[-1] if keys else ())
        if not key:
            self.waiting.add(name)
            raise ConfigurationError(f"its key is unknown: no event of {name} has had {PK_NAMES} yet")
        for other in keys:
            if _unordered(other) != _unordered(key):
                found = f"the {PK_NAMES} {', '.join(other)}" if other else f"no {PK_NAMES}"
                advice = (
                    "Rows since the last round are not written. Write the rows before the change with --until, once. "
                    "Then load a new copy of the table, with a job that has another target and consumer group, and "
                    "starting-offsets where the copy begins"
                    if stored
                    else f"Leave it out with --stream '!{name}', and write it with another job that has another "
                    "target and consumer group, and a --key that names its columns"
                )
                raise ConfigurationError(f"its key is {', '.join(key)}, but events have {found}. {advice}")
        return key


def _unordered(key: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str.lower, key))
