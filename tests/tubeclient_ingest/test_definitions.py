"""What a job knows of its group's streams when Manager says nothing of use."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler

import pytest

from tests.apache.jvm import free_ports
from tests.tubeclient.inlong_manager import KEY, USER, field, group, managing, stream
from tubeclient.admin.inlong_manager import InlongManagerError
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.rounds.definitions import Definitions
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.table_by import StreamId


def test_manager_is_asked_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change counts for the next round. A Manager that is down is left alone for a while."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    known = Definitions(of_manager(port := free_ports(1)[0]))
    of_shop, streams = group(mqResource="shop"), {"orders": stream("orders", field("id", "bigint"))}
    with managing(streams, of_shop, port=port):
        assert [known.changed(), known.changed()] == [True, False]
        streams["views"] = stream("views", field("id", "bigint"))
        assert known.changed()
    assert not known.changed()
    streams["clicks"] = stream("clicks", field("id", "bigint"))
    with managing(streams, of_shop, port=port):
        assert not known.changed()
        now = 61.0
        assert known.changed()


def of_manager(port: int) -> IngestSettings:
    return IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="lake",
        inlong_group="shop",
        target="/lake/{stream}",
        inlong_manager=f"http://127.0.0.1:{port}",
        manager_options={"user": USER, "key": KEY},
    )


def log_in(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(b"<html>log in</html>")


def test_manager_refuses_later() -> None:
    """A job keeps Manager's last definitions if Manager refuses later requests."""
    [port] = free_ports(1)
    settings = of_manager(port)
    known = Definitions(settings)
    shop = group(mqResource="shop")
    with managing({"orders": stream("orders", field("id", "bigint"))}, shop, port=port):
        assert known.changed()
    with managing({}, shop, answer=log_in, port=port):
        assert not known.changed()
        with pytest.raises(InlongManagerError, match="is an HTML page"):
            Definitions(settings).changed()
    assert [known.defines(StreamId(name)) for name in ("orders", "views")] == [True, False]


ORDERS = StreamId("shop.orders")
TYPES = {"id": "INT", "n": "INT"}


def said(*keys: Sequence[str] | None) -> list[str]:
    """What events say: these columns, with these keys."""
    return [json.dumps([TYPES, key]) for key in keys]


def keyed() -> Definitions:
    settings = IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="lake",
        topics=("cdc",),
        table_by="database.table",
        format="canal-json",
        key=("pkNames",),
        target="/lake/{stream}",
    )
    return Definitions(settings)


def test_events_define_a_stream() -> None:
    """Events define a stream once they name its columns and its key."""
    known = keyed()
    assert not known.learn(ORDERS, said([]))
    assert not known.defines(ORDERS)
    assert known.learn(ORDERS, said(None, ["n", "id"]))
    assert known.defines(ORDERS)
    assert known.settings_of(ORDERS, None).key == ("n", "id")
    assert not known.learn(ORDERS, said(None, ["N", "id"], ["id", "n"]))


def test_changed_key_stops_the_stream_once() -> None:
    """An event that says it again does not begin the run again and again."""
    known, stored = keyed(), json.dumps([TYPES, ["id"], None, ["id", "n"]])
    assert known.settings_of(ORDERS, stored).key == ("id",)
    assert not known.learn(ORDERS, said(None, ["ID"]))
    assert known.learn(ORDERS, said(["id", "n"]))
    with pytest.raises(ConfigurationError, match="its key is id, but events have the pkNames id, n"):
        known.settings_of(ORDERS, stored)
    assert not known.learn(ORDERS, said(["id", "n"]))


@pytest.mark.parametrize(("other", "expected"), [(["id", "n"], "the pkNames id"), ([], "no pkNames")])
def test_two_keys_at_once_are_none(other: list[str], expected: str) -> None:
    """As when a table gets its primary key, or is a shard that has none."""
    known = keyed()
    known.learn(ORDERS, said(["id"], other))
    with pytest.raises(ConfigurationError, match=f"but events have {expected}"):
        known.settings_of(ORDERS, None)


def test_key_missing_from_later_events() -> None:
    """A stream stops if its table has a key and events no longer name one."""
    known, stored = keyed(), json.dumps([TYPES, ["id"], None, ["id", "n"]])
    assert known.settings_of(ORDERS, stored).key == ("id",)
    assert known.learn(ORDERS, [json.dumps([{}, []])])
    with pytest.raises(ConfigurationError, match="its key is id, but events have no pkNames"):
        known.settings_of(ORDERS, stored)


def test_a_table_without_a_key_waits_for_one() -> None:
    known = keyed()
    for stored in (json.dumps([TYPES, [], None, None]), None):
        with pytest.raises(ConfigurationError, match=r"its (key is|columns are) unknown: no event of shop.orders"):
            known.settings_of(ORDERS, stored)
        assert known.waiting == {ORDERS}


@pytest.mark.parametrize(("fixed", "expected"), [([], "`n` bigint"), (["N"], "`n` INT")])
def test_partition_column_keeps_its_type(fixed: list[str], expected: str) -> None:
    """Whoever made it. Delta widens no such column, and no one with a dot in its name."""
    known = keyed()
    stored = json.dumps([{"id": "BIGINT", "n": "INT", "x.y": "INT"}, ["id"], fixed, ["id", "n", "x.y"]])
    known.settings_of(ORDERS, stored)
    known.learn(ORDERS, [json.dumps([{"n": "BIGINT", "x.y": "BIGINT"}, ["id"]])])
    schema = known.settings_of(ORDERS, stored).schema
    assert schema is not None
    assert expected.lower() in schema.lower()
    assert "`x.y` int" in schema.lower()


@pytest.mark.parametrize(
    ("kind", "events", "is_refused"),
    [
        ("int", "STRING", True),  # "01" is another text than "1"
        ("decimal(10,2)", "STRING", True),
        ("float", "DOUBLE", True),
        ("double", "DECIMAL(20,10)", True),
        ("int", "BIGINT", False),  # what does not fit is bad
        ("int", "DOUBLE", False),
        ("string", "INT", False),
        ("double", "INT", False),
        ("date", "STRING", True),
        ("binary", "STRING", True),
    ],
)
def test_new_type_that_changes_values(kind: str, events: str, is_refused: bool) -> None:
    """A stream stops once if a column's new type would change the values in its table."""
    known, stored = keyed(), json.dumps([{"id": "bigint", "n": kind}, ["id"], None, ["id", "n"]])
    known.settings_of(ORDERS, stored)
    assert known.learn(ORDERS, [json.dumps([{"id": "BIGINT", "n": events}, ["id"]])]) == is_refused
    if not is_refused:
        known.settings_of(ORDERS, stored)
        return
    with pytest.raises(ConfigurationError) as caught:
        known.settings_of(ORDERS, stored)
    assert f"events have {events} in n, which is {kind} in the table and would change" in str(caught.value)
    assert not known.learn(ORDERS, [json.dumps([{"n": events}, ["id"]])])
    known.settings_of(ORDERS, json.dumps([{"id": "bigint", "n": events.lower()}, ["id"], None, ["id", "n"]]))


def test_types_without_a_common_type() -> None:
    """The job makes no table if no type holds the events' values of a column unchanged."""
    known = keyed()
    for kind in ("DATE", "STRING"):
        known.learn(ORDERS, [json.dumps([{"id": "BIGINT", "n": kind}, ["id"]])])
    with pytest.raises(ConfigurationError, match="events have DATE or STRING in n, which no type can store unchanged"):
        known.settings_of(ORDERS, None)
    with pytest.raises(ConfigurationError, match="events have DATE or STRING in n"):
        known.settings_of(ORDERS, json.dumps([{"id": "bigint", "n": "string"}, ["id"], [], ["id", "n"]]))
