"""What a schema makes of records: their rows, and of bad ones the reason with the place of the fault. Ingest's own code
decodes them, so what is good here is good there."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from starlette.responses import Response

from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by
from tubeclient.records.spec import BINARY, CHANGES
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.cluster import pairs
from tubeclient_ui.bodies import body_of, fault_at
from tubeclient_ui.masks import Masks
from tubeclient_ui.queries import FORMAT, SEARCH, SETTINGS, Query, search_for
from tubeclient_ui.search import Searches
from tubeclient_ui.spark import Spark

if TYPE_CHECKING:
    from spark_source.typed.format_settings import FormatSettings
    from spark_source.typed.record_format import RecordFormat
    from tubeclient_ui.app import Options

__all__ = ["SchemaTrial", "Typed", "TypedRecord", "download", "format_settings", "pasted", "settings_file", "typed"]

_MOST_RECORDS: Final = 100
_SECONDS: Final = 5.0
"""Of all records; the decoder's limits bound each to a second or so."""
_DEEPEST: Final = 100
"""Types within types. Spark's parser takes a minute to find that thousands are too many."""
_LONGEST: Final = 300
"""Characters of a value, and of a bad record before and behind the fault."""
_DESCRIPTOR: Final = "descFilePath"
_LIMITS: Final = {"most": "100", "mb": "16", "seconds": "10"}
"""Of what is read of a topic."""


class TypedRecord(NamedTuple):
    """A record's rows, which are texts or None for null; or why it has none."""

    rows: Sequence[Sequence[str | None]] = ()
    reason: str = ""
    parts: tuple[str, str, str] = ("", "", "")
    """Of a bad record: what is before the fault, at it, and behind it."""


class Typed(NamedTuple):
    """What became of records."""

    columns: Sequence[tuple[str, str]]
    """Names and types."""
    records: Sequence[TypedRecord]
    of: int
    """How many there were; `records` are fewer if that took too long, or if there are too many."""
    good: int


def format_settings(query: Query) -> FormatSettings:
    """What a query says of the format. It names no file of this machine: ConfigurationError, as for all that ingest
    does not take."""
    with brought_by("spark"):
        from spark_source.typed.format_settings import FormatSettings
    given, schema = _given(query), query.text("schema")
    if given["format"] == "raw":
        raise ConfigurationError("format raw has no schema; choose another one")
    if schema.lower().endswith((".ddl", ".avsc")):
        raise ConfigurationError("schema names a file; paste what is in it")
    if max(accumulate((char == "<") - (char == ">") for char in schema), default=0) > _DEEPEST:
        raise ConfigurationError(f"the schema nests more than {_DEEPEST} types")
    options = pairs("format-options", query.text("format-options").splitlines())
    if _DESCRIPTOR in options:
        raise ConfigurationError(f"{_DESCRIPTOR} names a file; paste the file's base64 as the descriptor")
    with tempfile.NamedTemporaryFile(prefix="tubeclient-ui-", suffix=".desc") as file:
        if text := query.text("descriptor"):
            file.write(_bytes_of("base64", text, "", "the descriptor"))
            file.flush()
            options[_DESCRIPTOR] = file.name
        # It reads the file now, and not again.
        return FormatSettings(**{name.replace("-", "_"): it for name, it in given.items()}, format_options=options)


def pasted(query: Query, settings: FormatSettings) -> list[dict[str, Any]]:
    """The records that are in the query itself, one a line, as rows of `message_json`. ConfigurationError."""
    kind, encoding = query.text("as", "text"), settings.encoding or "UTF-8"
    lines = enumerate(query.text("records").splitlines(), 1)
    values = [_bytes_of(kind, line, encoding, f"line {at}") for at, line in lines if line]
    return [{"base64": base64.b64encode(value).decode()} for value in values]


def typed(made: RecordFormat, rows: Sequence[dict[str, Any]], masks: Masks | None = None) -> Typed:
    """What these rows of `message_json` become. `masks` are for values that were written in a way that hid them when
    the rows were masked, such as a field of Protobuf, which has no name there."""
    from spark_source.typed.columns import BAD_REASON, CHANGE, RECORD, VALUE

    columns = [(field.name, field.dataType.simpleString()) for field in made.columns]
    columns += [(CHANGE, "struct")] if made.kind in CHANGES else []
    values = [body_of(row) for row in rows[:_MOST_RECORDS]]
    # Record by record, as nothing ends a thread that decodes.
    until = time.monotonic() + _SECONDS
    batches = (pa.record_batch({VALUE: pa.array([value], pa.binary())}) for value in values)
    decoded = made.decoding(all_values=True)(takewhile(lambda _: time.monotonic() < until, batches))
    records = []
    for row, value, batch in zip(rows, values, decoded, strict=False):
        record, reason = (batch.column(name)[0].as_py() for name in (RECORD, BAD_REASON))
        if reason := row.get("bad") or reason:
            records.append(TypedRecord((), reason, _parts(made, value, reason)))
        else:
            found = record if isinstance(record, list) else [record]
            records.append(TypedRecord([[_text(name, it, masks) for name, it in each.items()] for each in found]))
    return Typed(columns, records, len(rows), sum(not record.reason for record in records))


def _text(name: str, value: Any, masks: Masks | None) -> str | None:
    if value is None:
        return None
    is_json = isinstance(value, bool | int | float | list | dict)
    text = json.dumps(value, default=_plain, ensure_ascii=False) if is_json else _plain(value)
    if masks:
        [text] = masks.hide({"value": "", "attributes": {name: text}})["attributes"].values()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _parts(made: RecordFormat, value: bytes, reason: str) -> tuple[str, str, str]:
    """The record as text, or as hex of a binary format, apart at the byte that the reason names."""
    assert made.spec is not None
    codec = made.spec.encoding
    found = fault_at(reason)
    at, width = (0, 0) if found is None else (found, 1)
    if made.kind in BINARY:
        value, codec, at, width = value.hex().encode(), "ascii", 2 * at, 2 * width
    before, rest = value[:at].decode(codec, "replace"), value[at : at + 4 * _LONGEST].decode(codec, "replace")
    return before[-_LONGEST:], rest[:width], rest[width:_LONGEST]


def _bytes_of(kind: str, text: str, encoding: str, what: str) -> bytes:
    try:
        if kind == "text":
            return text.encode(encoding)
        return bytes.fromhex(text) if kind == "hex" else base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ConfigurationError(f"{what} is not {encoding if kind == 'text' else kind}") from None


def settings_file(query: Query, source: Mapping[str, Any], master_servers: str) -> str:
    """A settings file for ingest with the format of a query, and the topic, if it has one. ConfigurationError."""
    topic = query.text("topic", "my_topic")
    given = {"master-servers": master_servers, "consumer-group": "my_group", "topics": [topic]}
    given |= {"target": f"/lake/{topic}", **_given(query)}
    options = dict(format_settings(query).format_options)
    options |= {_DESCRIPTOR: "records.desc"} if _DESCRIPTOR in options else {}
    lines = ["# tubeclient ingest --settings ingest.toml. Choose a consumer-group, topics and target of your own."]
    for table, entries in {"ingest": given, "source": source, "format-options": options}.items():
        # JSON's texts, numbers and lists are TOML's, but for one control character.
        texts = {name: json.dumps(it, ensure_ascii=False).replace("\x7f", "\\u007f") for name, it in entries.items()}
        lines += ["", f"[{table}]", *(f"{name} = {text}" for name, text in texts.items())]
    return "\n".join(lines) + "\n"


def _given(query: Query) -> dict[str, Any]:
    return {"format": "json"} | query.some(SETTINGS)


class SchemaTrial:
    """Tries schemas. Spark starts with the first one that it has to parse."""

    def __init__(self, settings: ClientSettings, searches: Searches, spark: Spark, options: Options) -> None:
        self._settings, self._searches, self._spark, self._options = settings, searches, spark, options

    def view(self, query: Query) -> dict[str, Any]:
        """What the query's schema makes of its records."""
        rows = None
        if query.text("topic") and self._options.with_messages:
            asked = query.some(SEARCH) | _LIMITS
            found = self._searches.read(search_for(Query(asked)), asked).found
            rows = [row for each in list(found) for row in each.rows]
        elif not query.some(("schema", "descriptor", "records")):
            return {"typed": None}
        return {"typed": self.typed(query, rows)}

    def typed(self, query: Query, rows: list[dict[str, Any]] | None) -> Typed:
        """What the query's schema makes of these messages of a topic, as they may be shown; or of the query's own."""
        settings = format_settings(query)
        make = settings.record_format
        is_parsed = settings.kind in BINARY and (settings.kind == "avro" or not settings.schema)
        key = ("schema", *map(query.text, FORMAT))
        made = make() if is_parsed else self._spark.result(key, lambda _: make())
        return typed(made, pasted(query, settings)) if rows is None else typed(made, rows, self._options.masks)

    def file(self, query: Query) -> Response:
        """The settings file, to download."""
        is_unpacked = query.text("topic") and query.text("packs") != "closed"
        source = {"masterWebPort": self._settings.master_web_port, **({"payload": "auto"} if is_unpacked else {})}
        text = settings_file(query, source, ",".join(self._settings.master_servers))
        return download(text, "application/toml", "ingest.toml")


def download(text: str, media_type: str, name: str) -> Response:
    """A file of that name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
