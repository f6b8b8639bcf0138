"""What a job knows of its group's streams when Manager says nothing of use."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from tests.apache.jvm import free_ports
from tests.tubeclient.inlong_manager import KEY, USER, field, group, managing, stream
from tubeclient.admin.inlong_manager import InlongManagerError
from tubeclient_ingest import definitions
from tubeclient_ingest.definitions import Definitions
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.table_by import StreamId


def log_in(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(b"<html>log in</html>")


def test_a_manager_that_refuses_what_it_answered_before_says_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_ASK_AGAIN_SECONDS", 0.0)
    [port] = free_ports(1)
    settings = IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="lake",
        inlong_group="shop",
        target="/lake/{stream}",
        inlong_manager=f"http://127.0.0.1:{port}",
        manager_options={"user": USER, "key": KEY},
    )
    known = Definitions(settings)
    shop = group(mqResource="shop")
    with managing({"orders": stream("orders", field("id", "bigint"))}, shop, port=port):
        assert known.changed()
    with managing({}, shop, answer=log_in, port=port):
        assert not known.changed()
        with pytest.raises(InlongManagerError, match="is a page of HTML"):
            Definitions(settings).changed()
    assert [known.defines(StreamId(name)) for name in ("orders", "views")] == [True, False]
