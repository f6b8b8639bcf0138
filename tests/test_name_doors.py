"""One table of names through every door by which a user's names come in: all let the same ones through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from offsets_store import GroupKey, OffsetsTable
from spark_source.options.given import parse_given, parse_options
from spark_source.options.source_options import SinkOptions
from spark_source.write.sink_rows import MessageMaker, SinkColumns
from tubeclient import (
    Admin,
    BrokerInfo,
    ClientBalanceConsumer,
    ClientSettings,
    ClusterView,
    GroupMembership,
    OffsetLookup,
    OffsetRange,
    OutgoingMessage,
    PartitionKey,
    Producer,
    PullConsumer,
    RangeReader,
    TubeError,
    WantedRange,
    fetch_view,
)
from tubeclient_ingest.settings.ingest_settings import IngestSettings

NOWHERE = ClientSettings(("127.0.0.1:1",), master_web_port=1, connect_timeout_ms=200, retry_limit_ms=1)
SETTINGS = {"masterServers": "127.0.0.1:1", "consumerGroup": "etl", "subscribe": "clicks"}
NO_VIEW = ClusterView({}, ())

SEPARATORS = ["a#b", "#a", "a,b", "a=b", "=", "\ud800"]
"""In every text of the wire; and what is no UTF-8."""

NAMES = ["clicks", "Clicks_2", "a-b", "a.b", "b_stream.v2-eu", "__offset_history__", "x" * 64, "中文"]
"""Good for all; those of Apache's own rules among them (RegexDef.TMP_STRING, TMP_GROUP, InlongStreamRequest)."""

GOOD = {
    "topic": NAMES,
    "group": [*NAMES, "x" * 1_000],
    "kept group": [*NAMES, "x" * 241, "中" * 26],
    "tag": [*NAMES, "x" * 256, "\U0001f600" * 128, "a b", "x:y", "@me", "7", "$", "a;b", "a/b"],
}
BAD = {
    "topic": [*SEPARATORS, "", " ", "a b", "a\tb", "a\x00b", "a:b", "a@b", "x" * 65, "\U0001f600" * 33],
    "group": [*SEPARATORS, "", " ", "a b", "a\nb", "a:b", "@me", "x" * 1_025],
    "kept group": [*SEPARATORS, "", " ", "a b", "x" * 242, "中" * 27],
    "tag": [*SEPARATORS, "", " ", "x" * 257, "\U0001f600" * 129],
}
NONE = ("", " ")
"""Means that there is no tag, where a message is sent."""


def consumes(consumer: type[ClientBalanceConsumer | PullConsumer], topics: Any, group: str = "etl") -> None:
    consumer(NOWHERE, group, topics)


def reads(topic: str = "clicks", tags: frozenset[str] = frozenset(), group: str = "etl-r0") -> None:
    wanted = WantedRange(BrokerInfo(1, "127.0.0.1", 1), OffsetRange(PartitionKey(1, topic, 0), 0, 28), tags)
    with RangeReader(NOWHERE, (group,)) as reader:
        list(reader.read_all([wanted]))


def publishes(topic: str) -> None:
    with Producer(NOWHERE) as producer:
        producer.publish([topic], timeout_ms=1)


def submits(topic: str = "clicks", tag: str = "") -> None:
    with Producer(NOWHERE) as producer:
        producer.submit_many(topic, [b"x"], tag=tag)


def writes_row(topic: str = "clicks", tag: str | None = None) -> None:
    columns = [pa.array([topic], pa.string()), pa.array([tag], pa.string()), pa.array([b"x"])]
    batch = pa.RecordBatch.from_arrays(columns, names=["topic", "tag", "value"])
    MessageMaker(SinkColumns(value=2, topic=0, tag=1), None, "UTC").make(batch)


def looks_up(group: str, own: str = "etl") -> None:
    lookup = OffsetLookup(NOWHERE, [group])
    try:
        lookup.group_positions(NO_VIEW, own)
    finally:
        lookup.close()


def ingests(**changed: Any) -> None:
    needed: dict[str, Any] = {"master_servers": "m:1", "consumer_group": "etl", "topics": ("clicks",), "target": "/t"}
    IngestSettings(**{**needed, **changed})


def assigns(topic: str) -> None:
    given = {"masterServers": "127.0.0.1:1", "consumerGroup": "etl", "assign": json.dumps([f"1:{topic}:0"])}
    parse_options(given)


def option(**given: str) -> None:
    parse_options({**SETTINGS, **given})


DOORS: dict[str, list[tuple[str, Callable[[str], object]]]] = {
    "topic": [
        ("ClientBalanceConsumer", lambda name: consumes(ClientBalanceConsumer, [name])),
        ("PullConsumer", lambda name: consumes(PullConsumer, [name])),
        ("a consumer's filters", lambda name: consumes(PullConsumer, {name: ["web"]})),
        ("GroupMembership", lambda name: GroupMembership(NOWHERE, "etl", [name], 1)),
        ("fetch_view", lambda name: fetch_view(NOWHERE, [name], ["etl-r0"])),
        ("RangeReader", lambda name: reads(topic=name)),
        ("PartitionKey.parse", lambda name: PartitionKey.parse(f"1:{name}:0")),
        ("OutgoingMessage", lambda name: OutgoingMessage.of(name, b"x")),
        ("Producer.publish", publishes),
        ("Producer.submit_many", lambda name: submits(topic=name)),
        ("Admin", lambda name: Admin(NOWHERE).store_bounds([name])),
        ("GroupKey", lambda name: GroupKey("etl", [name])),
        ("option subscribe", lambda name: option(subscribe=name)),
        ("option assign", lambda name: assigns(name)),
        ("option filters", lambda name: option(subscribe=name, filters=json.dumps({name: ["web"]}))),
        ("option topic", lambda name: parse_given({"masterServers": "m:1", "topic": name}).of(SinkOptions)),
        ("column topic", lambda name: writes_row(topic=name)),
        ("tubeclient ingest", lambda name: ingests(topics=(name,))),
    ],
    "group": [
        ("ClientBalanceConsumer", lambda name: consumes(ClientBalanceConsumer, ["clicks"], name)),
        ("PullConsumer", lambda name: consumes(PullConsumer, ["clicks"], name)),
        ("GroupMembership", lambda name: GroupMembership(NOWHERE, name, ["clicks"], 1)),
        ("fetch_view", lambda name: fetch_view(NOWHERE, ["clicks"], [name])),
        ("RangeReader", lambda name: reads(group=name)),
        ("OffsetLookup", looks_up),
        ("OffsetLookup.group_positions", lambda name: looks_up("etl-r0", name)),
        ("Admin", lambda name: Admin(NOWHERE).group(name)),
        ("option consumerGroup", lambda name: option(consumerGroup=name)),
        ("tubeclient ingest", lambda name: ingests(consumer_group=name)),
    ],
    "kept group": [
        ("GroupKey", lambda name: GroupKey(name, ["clicks"])),
        ("OffsetsTable", lambda name: OffsetsTable("/nowhere/o").all_latest(name)),
        ("options consumerGroup and offsetsTable", lambda name: option(consumerGroup=name, offsetsTable="/o")),
        ("tubeclient ingest with an offsets table", lambda name: ingests(consumer_group=name, offsets_table="/o")),
    ],
    "tag": [
        ("ClientBalanceConsumer", lambda name: consumes(ClientBalanceConsumer, {"clicks": [name]})),
        ("PullConsumer", lambda name: consumes(PullConsumer, {"clicks": [name]})),
        (
            "GroupMembership",
            lambda name: GroupMembership(NOWHERE, "etl", ["clicks"], 1, filters={"clicks": frozenset([name])}),
        ),
        ("fetch_view", lambda name: fetch_view(NOWHERE, ["clicks"], ["etl-r0"], {"clicks": frozenset([name])})),
        ("RangeReader", lambda name: reads(tags=frozenset([name]))),
        ("OutgoingMessage", lambda name: OutgoingMessage.of("clicks", b"x", tag=name)),
        ("Producer.submit_many", lambda name: submits(tag=name)),
        ("option filters", lambda name: option(filters=json.dumps({"clicks": [name]}))),
        ("column tag", lambda name: writes_row(tag=name)),
    ],
}
"""By what is named. Behind each there is nobody: what it does with a good name is its own failure."""

LISTS = {"option subscribe"}
"""Where a comma separates names."""
SENDERS = {"OutgoingMessage", "Producer.submit_many", "column tag"}
"""Where a blank tag is none."""

EVERY_DOOR = [pytest.param(kind, name, door, id=f"{kind}, {name}") for kind in DOORS for name, door in DOORS[kind]]


def refusal(door: Callable[[str], object], name: str) -> str | None:
    """What the door says of the name; None where it lets it through, to whatever is behind."""
    try:
        door(name)
    except ValueError as error:
        # The last thing that a producer says of a message.
        return None if "was not published" in str(error) else str(error)
    except TubeError:
        pass
    return None


@pytest.mark.parametrize(("kind", "where", "door"), EVERY_DOOR)
def test_every_door_lets_the_same_names_through(kind: str, where: str, door: Callable[[str], object]) -> None:
    refused = {name: why for name in GOOD[kind] if (why := refusal(door, name)) is not None}
    assert not refused
    bad = [
        name
        for name in BAD[kind]
        if not (where in LISTS and "," in name) and not (kind == "tag" and where in SENDERS and name in NONE)
    ]
    assert [name for name in bad if refusal(door, name) is None] == []
