"""What the settings of an InLong group's job mean for each of its streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tubeclient.records.protos import OLD, SHOP, descriptor
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.settings.group_settings import defines, of_stream
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ingest.settings.table_by import COUNTS, REST, StreamId

NEEDED = {"master_servers": "127.0.0.1:8715", "consumer_group": "g", "inlong_group": "shop", "target": "/lake/{stream}"}


def job(folder: Path, *streams: str) -> IngestSettings:
    given = {
        **NEEDED,
        "streams": streams,
        "format": "protobuf",
        "format_options": {"descFilePath": f"{folder}/{{stream}}.desc", "messageName": "shop.{stream}"},
    }
    return load_settings(None, given)


def test_descriptor_file_of_each_stream(tmp_path: Path) -> None:
    """Each stream takes its own descriptor file, and a stream without one is undefined."""
    with pytest.raises(ConfigurationError, match=r"^descFilePath is .*, but there is no such file"):
        job(tmp_path)
    (tmp_path / "Click.desc").write_bytes(descriptor(SHOP, OLD))
    settings, click = job(tmp_path), StreamId("Click")
    of_click = of_stream(settings, click)
    assert of_click.format_options == {"descFilePath": f"{tmp_path}/Click.desc", "messageName": "shop.Click"}
    assert of_stream(settings, COUNTS).format_options == {}
    assert (defines(settings, click), defines(settings, StreamId("Order"))) == (True, False)
    with pytest.raises(ConfigurationError, match=r"streams names Order, but there is no .*Order.desc"):
        job(tmp_path, "Click", "Order")


def test_rescue_by_each_streams_format(tmp_path: Path) -> None:
    """Each stream says its format. One that the user says is the same for all, and is checked at once."""
    for kind in ("json", "csv", "raw"):
        stream = {"dataType": kind, "dataSeparator": "124", "fieldList": [{"fieldName": "id", "fieldType": "long"}]}
        (tmp_path / f"{kind}.json").write_text(json.dumps(stream))
    by_files = load_settings(None, {**NEEDED, "rescue": "fields", "schema_from_inlong": f"{tmp_path}/{{stream}}.json"})
    by_manager = load_settings(None, {**NEEDED, "rescue": "fields", "inlong_manager": "http://127.0.0.1:8083"})
    for kind, rescue in (("json", "fields"), ("csv", "none"), ("raw", "none")):
        text = (tmp_path / f"{kind}.json").read_text()
        for of_one in (of_stream(by_files, StreamId(kind)), of_stream(by_manager, StreamId(kind), text)):
            assert (of_one.records.kind, of_one.records.rescue) == (kind, rescue)
    for settings in (by_files, by_manager):
        assert [of_stream(settings, one).rescue for one in (COUNTS, REST)] == ["none", "none"]
    for more, said in (
        ({"format": "csv"}, "rescue is fields, but the format is csv"),
        ({"rescue": "all"}, "rescue is 'all'; write"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            load_settings(None, {**NEEDED, "rescue": "fields", "inlong_manager": "http://127.0.0.1:8083", **more})
    of_tables = {"inlong_group": None, "table_by": "database.table", "topics": ["a"], "format": "canal-json"}
    with pytest.raises(ConfigurationError, match="rescue is fields, but the format is canal-json"):
        load_settings(None, {**NEEDED, "rescue": "fields", **of_tables})
    with pytest.raises(ConfigurationError, match="rescue is fields, but the format is raw"):
        load_settings(None, {**NEEDED, "rescue": "fields", "inlong_group": None, "table_by": "topic", "topics": ["a"]})
