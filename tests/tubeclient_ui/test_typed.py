"""What a schema makes of records; without Spark, which only parses schemas."""

from __future__ import annotations

import base64
import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from spark_source.typed.record_format import RecordFormat
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tubeclient import Producer
from tubeclient.errors import ConfigurationError
from tubeclient.records import RecordSpec
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ui import typed as typed_module
from tubeclient_ui.masks import Masks
from tubeclient_ui.queries import Query
from tubeclient_ui.typed import TypedRecord, format_settings, pasted, settings_file, typed

AVRO = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": "string"}],
}
CLICK, CUT = b"\x02\x08<b>7", b"\x02\x08<b"
HOSTILE = "<script>document.title='owned'</script>"


def avro(*values: bytes) -> dict[str, str]:
    """A query of records that no parser of Spark's is needed for."""
    records = "\n".join(value.hex() for value in values)
    return {"format": "avro", "schema": json.dumps(AVRO), "records": records, "as": "hex"}


def made(kind: str, ddl: dict[str, str], **how: Any) -> RecordFormat:
    fields = [{"name": name, "type": it, "nullable": True, "metadata": {}} for name, it in ddl.items()]
    columns = StructType.fromJson({"fields": fields})
    return RecordFormat.of(columns, RecordSpec(kind=kind, schema=pa.schema([]), **how))


def rows(*values: bytes) -> list[dict[str, Any]]:
    return [{"base64": base64.b64encode(value).decode()} for value in values]


def test_values_are_shown_as_texts() -> None:
    """Null is no text, and bytes are hex."""
    ddl = {"a": "long", "b": "decimal(5,2)", "c": "binary", "d": "boolean", "e": "timestamp", "f": "string"}
    record = b'{"a": 7, "b": 1.5, "c": "AP8=", "d": true, "e": "2026-11-21T10:31Z", "f": null}'
    found = typed(made("json", ddl), rows(record))
    assert found.columns[:2] == [("a", "bigint"), ("b", "decimal(5,2)")]
    [[row]] = [record.rows for record in found.records]
    assert row == ["7", "1.50", "00ff", "true", "2026-11-21 10:31:00+00:00", None]


def test_a_change_has_its_operation() -> None:
    """And a record as many rows as it changes."""
    record = {"type": "UPDATE", "data": [{"id": "1"}, {"id": "2"}], "old": None, "es": 1, "ts": 2, "isDdl": False}
    found = typed(made("canal-json", {"id": "long"}), rows(json.dumps(record).encode()))
    assert [row[0] for row in found.records[0].rows] == ["1", "2"]
    assert [name for name, _ in found.columns] == ["id", "change"]
    assert [json.loads(str(row[1]))["operation"] for row in found.records[0].rows] == ["update", "update"]


@pytest.mark.parametrize(
    ("kind", "how", "record", "parts"),
    [
        ("json", {}, b'{"id": "x"}', ('{"id": ', '"', 'x"}')),
        ("json", {}, b'{"id": 1', ('{"id": 1', "", "")),
        ("csv", {"encoding": "GBK"}, "中,x".encode("GBK"), ("中,", "x", "")),
        ("json", {"encoding": "UTF-16BE"}, '{"中": 1, "id": "x"}'.encode("UTF-16BE"), ('{"中": 1, "id": ', '"', 'x"}')),
        ("json", {}, b'{"id": \xff}', ('{"id": ', "\ufffd", "}")),
    ],
)
def test_a_fault_is_at_its_byte(kind: str, how: dict[str, Any], record: bytes, parts: tuple[str, ...]) -> None:
    """In characters of the encoding, however many bytes each has."""
    columns = {"name": "string", "id": "long"} if kind == "csv" else {"id": "long"}
    [found] = typed(made(kind, columns, **how), rows(record)).records
    assert "at byte" in found.reason
    assert found.parts == parts


def test_a_fault_of_bytes_is_in_hex() -> None:
    """A binary record is no text."""
    query = Query(avro(CLICK, CUT))
    settings = format_settings(query)
    good, cut = typed(settings.record_format(), pasted(query, settings)).records
    assert good.rows == [["1", "<b>7"]]
    assert "".join(cut.parts).replace(" ", "") == CUT.hex()


def test_masks_hide_what_names_hide() -> None:
    """Of a binary record a field's name is in the schema alone."""
    query = Query(avro(CLICK))
    settings = format_settings(query)
    shown = typed(settings.record_format(), pasted(query, settings), Masks(["CARD", "/1/"])).records
    assert shown == [TypedRecord([["***", "***"]])]


def test_a_message_that_is_bad_stays_bad() -> None:
    """What the source could not read, no format reads."""
    [found] = typed(made("json", {"id": "long"}), [{"value": '{"id": 1}', "bad": "its checksum is wrong"}]).records
    assert (found.rows, found.reason) == ((), "its checksum is wrong")


def test_only_some_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many, and for so long."""
    some = rows(*[b'{"id": 1}'] * 101)
    found = typed(made("json", {"id": "long"}), some)
    assert (len(found.records), found.of, found.good) == (100, 101, 100)
    monkeypatch.setattr(typed_module, "_SECONDS", -1.0)
    assert typed(made("json", {"id": "long"}), some).records == []


def test_hostile_records_end_in_time() -> None:
    """Each item of the list has a thousand columns."""
    wide = {
        "type": "struct",
        "fields": made("json", {f"c{n}": "long" for n in range(1000)}).columns.jsonValue()["fields"],
    }
    kind: Any = {"type": "array", "elementType": wide, "containsNull": True}
    began = time.monotonic()
    found = typed(made("json", {"a": kind}), rows(*[b'{"a": [' + b"{}," * 5_000 + b"{}]}"] * 100))
    assert time.monotonic() - began < 20
    assert 0 < len(found.records) < 100


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"schema": "/etc/secret.ddl"}, "paste what is in it"),
        ({"format": "avro", "schema": "/etc/secret.avsc"}, "paste what is in it"),
        ({"format": "protobuf", "format-options": "descFilePath=/etc/passwd"}, "paste the file's base64"),
        ({"format": "protobuf", "descriptor": "!"}, "the descriptor is not base64"),
        ({"format": "raw", "schema": "a INT"}, "has no schema"),
        ({"schema": "a " + "ARRAY<" * 2000}, "nests more than 100 types"),
        ({"format": "avro", "schema": "[" * 15_000}, "this is not JSON"),
        ({"format": "csv", "schema": "a INT", "rescue": "all"}, "rescue is"),
        ({"schema": "a INT", "format-options": "x"}, "NAME=VALUE"),
    ],
)
def test_what_is_refused(query: dict[str, str], words: str) -> None:
    """Files of this machine, and what ingest refuses, before Spark is asked."""
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        format_settings(Query(query))


@pytest.mark.parametrize(("kind", "line"), [("hex", "0g"), ("base64", "a"), ("GBK", "\u20ac\ud7ff")])
def test_a_line_that_is_none(kind: str, line: str) -> None:
    """Not of the form that was chosen, or not in the encoding."""
    query = Query(
        {"schema": "a INT", "records": f"00\n{line}", **({"encoding": kind} if kind == "GBK" else {"as": kind})}
    )
    with pytest.raises(ConfigurationError, match=f"line [12] is not {kind}"):
        pasted(query, format_settings(query))


@pytest.mark.parametrize(
    "query",
    [
        {"schema": 'id BIGINT COMMENT "a\\b\x7f", 名 STRING,\r\n`x y` INT', "topic": "clicks"},
        {"format": "kv", "schema": "id BIGINT", "separator": "\\t", "format-options": "kvSeparator=:\r\nnullValue=a=b"},
        avro(),
    ],
)
def test_the_file_is_one_that_ingest_takes(query: dict[str, str], tmp_path: Path) -> None:
    """With the same format."""
    file = tmp_path / "ingest.toml"
    text = settings_file(Query(query), {"masterWebPort": 8081, "payload": "auto"}, "a:1,b:2")
    file.write_text(text, encoding="utf-8")
    loaded = load_settings(file, {})
    assert loaded.records == format_settings(Query(query))
    assert loaded.topics == (query.get("topic", "my_topic"),)
    assert loaded.source_options == {"masterWebPort": "8081", "payload": "auto"}


def test_the_view_shows_rows_and_faults(viewer: Viewer) -> None:
    """All of them as text; the same in the address, and a file to download."""
    shown = viewer.part("/schema", **avro(CLICK, CUT))
    assert "1 good, 1 bad" in shown
    assert "<td>&lt;b&gt;7" in shown
    assert "<mark>" in shown
    [link] = re.findall(r'href="/(schema/settings[^"]+)"', shown)
    answer = viewer.client.get("/" + link.replace("&amp;", "&"))
    assert 'format = "avro"' in answer.text
    frame = viewer.client.get("/schema", params=avro(CLICK)).text
    assert f"{CLICK.hex()}</textarea>" in frame
    assert "nothing" in viewer.part("/schema").lower()


def test_hostile_texts_are_texts(viewer: Viewer) -> None:
    """In the form, in names of columns and in errors."""
    for name in ("schema", "records", "format", "separator", "format-options", "descriptor", "topic", "as"):
        for query in ({name: HOSTILE}, {**avro(CLICK), name: f"</textarea>{HOSTILE}\u202e"}):
            for text in (viewer.part("/schema", **query), viewer.client.get("/schema", params=query).text):
                assert "<script>document" not in text
                assert "\u202e" not in text
    named = json.dumps({**AVRO, "doc": HOSTILE})
    assert "bigint" in viewer.part("/schema", format="avro", schema=named)
    for text in (
        viewer.part("/schema", schema="x" * 20_001),
        viewer.client.get("/schema?records=" + "x" * 20_001).text,
    ):
        assert "more than 20000 characters" in text


def test_records_of_a_topic(tube: EmbeddedTubeMQ) -> None:
    """As a search finds them, masked, each time the same ones; not without messages."""
    query = {"format": "avro", "schema": json.dumps(AVRO), "topic": "clicks", "order": "oldest"}
    viewer = Viewer(settings_of(tube), "card")
    shown = viewer.part("/schema", **query)
    assert "0 good, 10 bad" in shown
    assert "4111" not in shown.replace(" ", "")
    assert "topic=clicks" in viewer.client.get("/schema", params=query).text
    assert "did you mean clicks?" in viewer.part("/schema", **{**query, "topic": "klicks"})
    assert "bad" not in Viewer(settings_of(tube), with_messages=False).part("/schema", **query)
    key, found = viewer.search(**query)
    assert "Try a schema with these" in found
    assert "0 good, 1 bad" in viewer.part("/messages/typed", search=key, number=0)
    assert "/messages/typed" in viewer.part("/messages/body", search=key, number=0)


def test_packs_are_records(viewer: Viewer) -> None:
    """And the settings file says so to ingest."""
    shown = viewer.part("/schema", format="avro", schema=json.dumps(AVRO), topic="shop")
    assert "0 good, 9 bad" in shown
    file = viewer.client.get("/schema/settings", params={"schema": "a INT", "topic": "shop"})
    assert 'payload = "auto"' in file.text
    file = viewer.client.get("/schema/settings", params={"schema": "a INT", "topic": "shop", "packs": "closed"})
    assert "payload" not in file.text


def test_binary_messages_are_masked_and_read_once(tmp_path: Path) -> None:
    """By the names of the schema; and while somebody types, the topic is not read again."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("binary")]) as tube, Producer(settings_of(tube)) as producer:
        producer.publish(["binary"])
        producer.send("binary", CLICK)
        viewer = Viewer(settings_of(tube), "card")
        query = {"topic": "binary", "format": "avro", "schema": json.dumps(AVRO)}
        assert "<td>1<td>***</tr>" in viewer.part("/schema", **query)
        key, _ = viewer.search(**query)
        assert "<td>1<td>***</tr>" in viewer.part("/messages/typed", search=key, number=0)
        producer.send("binary", CLICK)
        assert "1 good" in viewer.part("/schema", **{**query, "schema": json.dumps({**AVRO, "name": "Other"})})
        assert "2 good" in viewer.part("/schema", **query, order="oldest")
