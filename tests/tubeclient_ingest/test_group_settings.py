"""What the settings of an InLong group's job mean for each of its streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tubeclient.records.protos import OLD, SHOP, descriptor
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.group_settings import defines, of_stream
from tubeclient_ingest.load_settings import load_settings
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.table_by import COUNTS, StreamId


def job(folder: Path, *streams: str) -> IngestSettings:
    given = {
        "master_servers": "127.0.0.1:8715",
        "consumer_group": "g",
        "inlong_group": "shop",
        "target": "/lake/{stream}",
        "streams": streams,
        "format": "protobuf",
        "format_options": {"descFilePath": f"{folder}/{{stream}}.desc", "messageName": "shop.{stream}"},
    }
    return load_settings(None, given)


def test_each_stream_may_have_a_descriptor_file_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^descFilePath is .*, and there is no such file"):
        job(tmp_path)
    (tmp_path / "Click.desc").write_bytes(descriptor(SHOP, OLD))
    settings, click = job(tmp_path), StreamId("Click")
    of_click = of_stream(settings, click)
    assert of_click.format_options == {"descFilePath": f"{tmp_path}/Click.desc", "messageName": "shop.Click"}
    assert of_stream(settings, COUNTS).format_options == {}
    assert (defines(settings, click), defines(settings, StreamId("Order"))) == (True, False)
    with pytest.raises(ConfigurationError, match=r"streams names Order, and there is no .*Order.desc"):
        job(tmp_path, "Click", "Order")
