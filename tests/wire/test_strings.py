"""The strings inside TubeMQ's messages: known examples, round trips, and whatever a server may write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ
from tubeclient.errors import ProtocolError
from tubeclient.keys import BrokerInfo, PartitionKey, TopicLayout
from tubeclient.wire.strings import (
    encode_consumer_layouts,
    encode_filters,
    encode_producer_layouts,
    encode_report,
    encode_subscription,
    parse_broker,
    parse_consumer_layouts,
    parse_filters,
    parse_producer_layouts,
    parse_report,
    parse_subscription,
)

HUGE = "9" * 5_000
"""More digits than Python's int() takes from a text."""


@pytest.mark.parametrize(
    ("text", "tls", "broker"),
    [
        ("1:10.0.0.1: ", False, BrokerInfo(1, "10.0.0.1", 8123)),  # a master writes a blank for the default port
        ("1:10.0.0.1: ", True, BrokerInfo(1, "10.0.0.1", 8124)),
        ("1:[::1]:9000", False, BrokerInfo(1, "::1", 9000)),
        ("1:fe80::7: ", False, BrokerInfo(1, "fe80::7", 8123)),  # as Apache's master writes what its settings have
        ("2130706433:broker-a.example:9000", True, BrokerInfo(2130706433, "broker-a.example", 9000)),
    ],
)
def test_brokers(text: str, tls: bool, broker: BrokerInfo) -> None:
    assert parse_broker(text, tls=tls) == broker


def test_consumer_layouts() -> None:
    """Consumer layouts name stores before partitions."""
    assert parse_consumer_layouts(["clicks#1:2:3:1,2:1:4:0", "views#1:1:1:1"]) == [
        TopicLayout("clicks", 1, stores=2, partitions_per_store=3),
        TopicLayout("clicks", 2, stores=1, partitions_per_store=4, subscribable=False),
        TopicLayout("views", 1, stores=1, partitions_per_store=1),
    ]


def test_producer_layouts() -> None:
    """Producer layouts name partitions before stores."""
    assert parse_producer_layouts(["clicks#1:3:2,2:4:1#1048576", "views#1:1:1#"]) == (
        [
            TopicLayout("clicks", 1, stores=2, partitions_per_store=3),
            TopicLayout("clicks", 2, stores=1, partitions_per_store=4),
            TopicLayout("views", 1, stores=1, partitions_per_store=1),
        ],
        {"clicks": 1048576},
    )


def consumer_layouts(text: str) -> object:
    return parse_consumer_layouts([text])


def producer_layouts(text: str) -> object:
    return parse_producer_layouts([text])


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *(
            (parse_broker, text)
            for text in (
                "1:host:1:2",
                "1:::host:1",
                "1:[::1:1",
                "1:host:x",
                "1: :8123",
                "1:host:65536",
                f"{HUGE}:host:1",
            )
        ),
        *((parse_subscription, text) for text in ("1:h:1", "1:h:1#t", "1:h:1#t:x", "1:h:1#:0", "#t:1")),
        *((parse, text) for parse in (consumer_layouts, producer_layouts) for text in ("", "#1:1:1:1", "t#1:x:1:1")),
        # More partitions than a store has ids, and than anybody has.
        *(
            (parse, f"t#1:{many}:1")
            for parse in (consumer_layouts, producer_layouts)
            for many in ("10001:10001", "2000:2000")
        ),
    ],
)
def test_what_is_none_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ProtocolError):
        parse(text)


PARSERS: list[Callable[[str], object]] = [
    parse_broker,
    parse_subscription,
    consumer_layouts,
    producer_layouts,
    lambda text: parse_filters([text]),
    lambda text: parse_report([text]),
]
likely = st.text("0123456789:#,ab -@=\t\x1c\u00b2\u0661\u2003", max_size=40)
pieces = st.sampled_from(["1", "0", "10000", "topic", "#", ":", ",", " ", "h", HUGE, "-1", ""])
unlikely = st.lists(pieces, max_size=14).map("".join)


@given(text=st.text(max_size=40) | likely | unlikely)
@FUZZ
def test_any_text_gives_a_value_or_a_protocol_error(text: str) -> None:
    for parse in PARSERS:
        with suppress(ProtocolError):
            parse(text)


names = st.text("abcXYZ019_-. \u4e2d", min_size=1, max_size=10).map(str.strip).filter(bool)
ids = st.integers(0, (1 << 31) - 1)
layouts = st.builds(TopicLayout, names, ids, st.integers(0, 100), st.integers(0, 10_000), st.booleans())
keys = st.builds(PartitionKey, ids, names, ids)
brokers = st.builds(BrokerInfo, ids, names, st.integers(1, 65535))


@given(
    st.lists(layouts, max_size=6),
    st.none() | ids,
    st.dictionaries(names, st.frozensets(names, min_size=1, max_size=4), max_size=4),
    st.lists(keys, max_size=8),
    brokers,
    keys,
)
@FUZZ
def test_what_is_written_is_read_again(
    items: list[TopicLayout],
    limit: int | None,
    filters: dict[str, frozenset[str]],
    report: list[PartitionKey],
    broker: BrokerInfo,
    key: PartitionKey,
) -> None:
    assert sorted(parse_consumer_layouts(encode_consumer_layouts(items))) == sorted(items)
    found, limits = parse_producer_layouts(encode_producer_layouts(items, limit))
    assert sorted(found) == sorted(item._replace(subscribable=True) for item in items)
    assert limits == ({} if limit is None else {item.topic: limit for item in items})
    assert parse_filters(encode_filters(filters)) == filters
    assert sorted(parse_report(encode_report(report))) == sorted(report)
    key = key._replace(broker_id=broker.broker_id)
    assert parse_subscription(encode_subscription(broker, key)) == (broker, key)
    assert parse_broker(str(broker)) == broker
