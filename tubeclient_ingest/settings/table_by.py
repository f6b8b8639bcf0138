"""Which of a job's tables a record is for, by what the record or its message says; and what the tables are called."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.options.table_uris import is_name
from tubeclient.errors import ConfigurationError
from tubeclient.records import Decoder, RecordSpec
from tubeclient.records.event_columns import canal_columns, canal_key, debezium_columns
from tubeclient.records.spec import CHANGES

if TYPE_CHECKING:
    from tubeclient_ingest.settings.ingest_settings import IngestSettings

__all__ = ["COUNTS", "OWN", "PK_NAMES", "REST", "EventColumns", "StreamId", "TableBy"]


class StreamId(str):
    """The name of a stream, which is what one table gets: an InLong stream's id, or what table-by took. Or `COUNTS` or
    `REST`, which are no stream's. It becomes a part of paths and names, and anybody who may send chooses it: so
    ConfigurationError for a text that `FORM` does not allow."""

    __slots__ = ()
    FORM: Final = "[A-Za-z0-9-][A-Za-z0-9_.-]{0,199}"
    """For Java and Python, of the whole id. It is one folder, and none that Spark passes over. InLong's sinks have no
    longer ids."""

    def __new__(cls, text: str) -> StreamId:
        if re.fullmatch(cls.FORM, text) is None and text not in OWN:
            raise ConfigurationError(
                f"stream {text!r} cannot name a table: use 1 to 200 letters, digits, _, . and -, and do not start "
                "with _ or ."
            )
        return super().__new__(cls, text)


OWN: Final = ("_counts", "_rest")
COUNTS: Final = StreamId(OWN[0])
"""In place of the stream in the target: the counts table."""
REST: Final = StreamId(OWN[1])
"""In place of the stream in the target: the table, in the source's columns, for rows of streams that are not defined
and of messages that are of no stream."""

_STREAM: Final = "stream"
"""The placeholder of a whole name."""
_DATABASE: Final = ("database", "schema", "table")
"""What an envelope of Canal's or Debezium's names, in this order."""
_FIELDS: Final = {"debezium-json": {"database": "db", "schema": "schema", "table": "table"}}
"""The fields of Debezium's `source`. Canal's are named as here, and are the message's own."""
_PART: Final = "[A-Za-z0-9_-]{1,199}"
"""A name that is one of several has no dot, so no two tables have one name."""
PK_NAMES: Final = "pkNames"
"""Instead of a key's columns: those that Canal's messages name so."""
_WITH_ROWS: Final = ("INSERT", "UPDATE", "DELETE")
"""Types of Canal's messages that have rows."""
_OF_OWN: Final = "_tubeclient"
"""In place of a database or schema: where `COUNTS` and `REST` are. No stream's name begins so."""


class EventColumns(NamedTuple):
    """What an event says of its table."""

    types: dict[str, str]
    """Spark's types by the columns' names."""
    key: tuple[str, ...] | None = None
    """The columns that name a row; () if none do; None if the event has no rows, or is not asked."""


@dataclass(frozen=True, slots=True)
class TableBy:
    """What tells a job's tables apart. Tasks get it."""

    kind: str
    """inlong, topic, tag, attribute, path (of JSON) or envelope."""
    words: tuple[str, ...]
    """Of inlong the group; of an attribute its name; of a path its steps; of an envelope some of `_DATABASE`."""
    format: str = "raw"
    encoding: str = "UTF-8"
    payload: str = "raw"
    """The source's option: whether a record is a message, or one of a pack."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the records, as RecordSpec has it: those of JSON's syntax."""
    reads_columns: bool = False
    """Whether events say which columns a table has, as nobody else does."""
    reads_keys: bool = False
    """Whether they also say which of them are its key."""
    passed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By stream, the keys of partitions in which events say nothing of its table."""

    @classmethod
    def of(cls, settings: IngestSettings) -> TableBy | None:
        """None: the job has one table. ConfigurationError: `table_by` is none that there is, or not of the format."""
        text, kind = settings.table_by, settings.format or "raw"
        if settings.inlong_group is not None:
            if text is not None:
                raise ConfigurationError(
                    "inlong-group and table-by both decide which table a record goes to; keep one of them"
                )
            return cls("inlong", (settings.inlong_group,))
        if text is None:
            return None
        name = text.removeprefix("attribute.")
        has_no_schema = not (settings.schema or settings.schema_from_inlong)
        if text in ("topic", "tag") or (text != name and name):
            return cls("attribute" if text != name else text, (name,))
        steps = tuple(text.split(".")[1:]) if text.startswith("$.") else ()
        words = tuple(text.split("."))
        payload = (settings.payloads or ["raw"])[-1]
        syntax = {option: how for option, how in settings.format_options.items() if option.startswith("allow")}
        reads_columns = kind in CHANGES and has_no_schema
        reads_keys = reads_columns and settings.key == (PK_NAMES,)
        how = kind, settings.encoding or "UTF-8", payload, syntax if kind == "json" else {}, reads_columns, reads_keys
        if steps and all(steps):
            found = cls("path", steps, *how)
        elif words[-1] == "table" and words == tuple(word for word in _DATABASE if word in words):
            found = cls("envelope", words, *how)
        else:
            raise ConfigurationError(
                f"table-by is {text!r}; write topic, tag, attribute.NAME, $.FIELD or $.FIELD.FIELD of JSON, or"
                " database.table, schema.table, database.schema.table or table of canal-json and debezium-json"
            )
        needed = CHANGES if found.kind == "envelope" else ("raw", "json", *CHANGES)
        if kind not in needed:
            raise ConfigurationError(f"table-by is {text}, but the format is {kind}; that is for {', '.join(needed)}")
        if settings.key == (PK_NAMES,) and kind in CHANGES and not has_no_schema:
            raise ConfigurationError(
                f"key is {PK_NAMES}, which needs columns from the events; leave schema out, or name the key's columns"
            )
        if reads_keys and kind != "canal-json":
            raise ConfigurationError(f"key is {PK_NAMES}, but events of {kind} do not name the key; name its columns")
        if kind == "canal-json" and "schema" in words:
            raise ConfigurationError(
                f"table-by is {text}, but messages of canal-json do not name a schema; leave it out"
            )
        return found

    @property
    def columns(self) -> str | None:
        """The value of the source's option `columns` that names need; None: the columns that rows have anyway."""
        return "*,attributes" if self.kind == "attribute" else None

    @property
    def needs(self) -> tuple[str, ...]:
        """The source's columns that `names` reads."""
        own = {"inlong": ("inlongGroupId", "inlongStreamId"), "topic": ("topic",), "tag": ("messageType",)}
        return own.get(self.kind, ("attributes",) if self.kind == "attribute" else ("value",))

    def names(self) -> Callable[[pa.RecordBatch], pa.StringArray]:
        """A function that gives the stream's name of each of the source's rows; null for one that is of none."""
        if self.kind in ("path", "envelope"):
            return self._names_in_json()
        form = rf"\A(?:{StreamId.FORM})\z"

        def names(batch: pa.RecordBatch) -> pa.StringArray:
            if self.kind == "inlong":
                is_own = pc.equal(batch.column("inlongGroupId"), self.words[0])
                found = batch.column("inlongStreamId")
            elif self.kind == "attribute":
                is_own = True
                found = pc.map_lookup(batch.column("attributes"), self.words[0], "first")
            else:
                is_own = True
                found = batch.column({"topic": "topic", "tag": "messageType"}[self.kind])
            fits = pc.and_(is_own, pc.match_substring_regex(found, form))
            return pc.if_else(pc.fill_null(fits, False), found, None)

        return names

    def _names_in_json(self) -> Callable[[pa.RecordBatch], pa.StringArray]:
        text, steps = pa.string(), self.words
        if self.kind == "path":
            kind = text
            for step in reversed(steps[1:]):
                kind = pa.struct([(step, kind)])
            schema, parts, form = pa.schema([(steps[0], kind)]), [steps], StreamId.FORM
        elif self.format == "canal-json":
            schema, parts, form = pa.schema([(step, text) for step in steps]), [(step,) for step in steps], _PART
        else:
            fields = [_FIELDS[self.format][step] for step in steps]
            source = pa.struct([(name, text) for name in fields])
            payload = pa.struct([("source", source)])
            schema = pa.schema([("op", text), ("source", source), ("payload", payload)])
            parts, form = [("source", name) for name in fields], _PART
        decode = self._decode(schema)
        form, whole = rf"\A(?:{form})\z", rf"\A(?:{StreamId.FORM})\z"

        def names(batch: pa.RecordBatch) -> pa.StringArray:
            records = decode(batch)

            def found(path: tuple[str, ...]) -> pa.StringArray:
                at = records
                for step in path:
                    at = pc.struct_field(at, step)
                return pc.if_else(pc.fill_null(pc.match_substring_regex(at, form), False), at, None)

            values = [found(path) for path in parts]
            if self.format == "debezium-json" and self.kind == "envelope":
                # As the decoder of such events: beside a schema they are in `payload`.
                op, payload = (pc.struct_field(records, name) for name in ("op", "payload"))
                is_flat = pc.or_(pc.is_valid(op), pc.is_null(payload))
                of_payload = [found(("payload", *path)) for path in parts]
                values = [pc.if_else(is_flat, value, other) for value, other in zip(values, of_payload, strict=True)]
            joined = pc.binary_join_element_wise(*values, ".")
            return pc.if_else(pc.fill_null(pc.match_substring_regex(joined, whole), False), joined, None)

        return names

    def _decode(self, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.StructArray]:
        """A function that gives these fields of the records' JSON; null of what is none."""
        decoder = Decoder(RecordSpec(kind="json", schema=schema, encoding=self.encoding, options=self.options))
        return lambda batch: decoder.decode(batch.column("value").cast(pa.binary())).records

    def columns_of(self) -> Callable[[pa.RecordBatch, pa.StringArray], dict[str, set[str]]]:
        """A function that gives what events say of tables' columns, with `reads_columns`, by the names of their
        streams: JSON of an EventColumns, of each event that says something else."""
        if not self.reads_columns:
            return lambda _, __: {}
        is_canal = self.format == "canal-json"
        field, parse = ("mysqlType", canal_columns) if is_canal else ("schema", debezium_columns)
        own = [field, *[PK_NAMES, "type"] * self.reads_keys]
        decode = self._decode(pa.schema([(name, pa.string()) for name in own]))

        def key_of(records: pa.StructArray) -> pa.Array:
            if not self.reads_keys:
                return pa.nulls(len(records), pa.string())
            has_rows = pc.is_in(pc.ascii_upper(pc.struct_field(records, "type")), pa.array(_WITH_ROWS))
            return pc.if_else(has_rows, pc.struct_field(records, PK_NAMES).fill_null(""), None)

        def columns(batch: pa.RecordBatch, names: pa.StringArray) -> dict[str, set[str]]:
            for stream, keys in self.passed.items():
                is_passed = pc.is_in(batch.column("partitionKey"), pa.array(sorted(keys), pa.string()))
                names = pc.if_else(pc.and_(pc.fill_null(pc.equal(names, stream), False), is_passed), None, names)
            records = decode(batch)
            text = pc.struct_field(records, field).fill_null("")
            rows = pa.table({"name": names, "text": text, "key": key_of(records)})
            rows = rows.filter(pc.is_valid(rows.column("name")))
            found: dict[str, set[str]] = {}
            for row in rows.group_by(["name", "text", "key"]).aggregate([]).to_pylist():
                event = EventColumns(parse(row["text"]), None if row["key"] is None else canal_key(row["key"]))
                if event.types or event.key is not None:
                    found.setdefault(row["name"], set()).add(json.dumps(event, ensure_ascii=False))
            return found

        return columns

    # The names of tables and files

    @property
    def text(self) -> str:
        """What gives records their names: with another text some may have others."""
        if self.kind == "inlong":
            return f"inlong-group {self.words[0]}"
        found = [f"table-by {'attribute.' if self.kind == 'attribute' else '$.' if self.kind == 'path' else ''}"]
        found[0] += ".".join(self.words)
        if self.kind in ("path", "envelope"):
            found += [self.format] if self.kind == "envelope" else []
            found.append(codecs.lookup(self.encoding).name)
            found += [f"{name}={how}" for name, how in sorted(self.options.items())]
            found += [f"payload={self.payload}"] if self.payload != "raw" else []
        return ", ".join(found)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """What a pattern may have, such as {stream}."""
        return tuple(f"{{{part}}}" for part in (_STREAM, *self._parts))

    @property
    def _parts(self) -> tuple[str, ...]:
        if self.kind in ("topic", "tag"):
            return (self.kind,)
        return self.words if self.kind == "envelope" else ()

    def is_pattern(self, text: str) -> bool:
        """Whether the text has a placeholder."""
        return any(placeholder in text for placeholder in self.placeholders)

    def parts(self, name: StreamId) -> Mapping[str, str]:
        """What stands for each placeholder."""
        values = name.split(".") if self.kind == "envelope" and name not in OWN else [name] * len(self._parts)
        if self.kind == "envelope" and name in OWN:
            values = [*[_OF_OWN] * (len(self._parts) - 1), name]
        return dict(zip(self.placeholders, (str(name), *values), strict=True))

    def filled(self, pattern: str, name: StreamId) -> str:
        """The pattern for a stream."""
        parts = self.parts(name)
        return re.sub("|".join(map(re.escape, parts)), lambda found: parts[found[0]], pattern)

    def glob(self, pattern: str) -> list[str]:
        """The texts of the pattern between its placeholders."""
        return re.split("|".join(map(re.escape, self.placeholders)), pattern)

    def table(self, target: str, name: StreamId) -> str:
        """The target of a stream: a path, or a name as SQL has it."""
        if not is_name(target):
            return self.filled(target, name)

        def of_part(found: re.Match[str]) -> str:
            text = self.filled(found[0], name)
            is_plain = text == found[0] or "`" in text or re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) is not None
            return text if is_plain else f"`{text}`"

        return re.sub(r"`(?:[^`]|``)*`|[^.`]+", of_part, target)

    def check_target(self, target: str) -> None:
        """ConfigurationError: two streams could have one table."""
        whole, *parts = self.placeholders
        if whole in target:
            if len(parts) > 1 and is_name(target):
                raise ConfigurationError(
                    f"target is {target}, but catalog names cannot have dots, which {whole} has here; write "
                    f"{' and '.join(parts)}"
                )
            return
        lacking = [part for part in parts if part not in target] or ([] if parts else [whole])
        if lacking:
            raise ConfigurationError(
                f"target is {target} for all streams; add {lacking[0]} where that belongs"
                + (f", or {whole} for the whole name" if parts else "")
            )
        if not all(re.search("[./]", between) for between in self.glob(target)[1:-1]):
            raise ConfigurationError(
                f"target is {target}, so two streams could get the same table; write . or / between its parts, or "
                f"{whole} for the whole name"
            )
