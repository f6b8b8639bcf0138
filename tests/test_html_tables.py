"""How values look in a notebook: small tables, whose texts cannot be HTML whatever others named their things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from offsets_store import GroupKey, PartitionProgress
from offsets_store.progress import GroupProgress
from spark_source.offsets.lag import SourceLag
from tubeclient import (
    BrokerInfo,
    DeployedTopic,
    GroupDetail,
    GroupKind,
    GroupMember,
    GroupOffsets,
    PartitionPosition,
    TopicOnBroker,
    TopicStatus,
)
from tubeclient.html_table import MOST_CHARACTERS, MOST_ROWS, html_table
from tubeclient.keys import PartitionKey, StoreKey

EVIL = "<script>alert('1')</script>&\"\x1b[2J\u202e"
SHOWN = "<script>alert('1')</script>&\"\\x1b[2J\\u202e"
"""As a person sees it."""
KEYS = [PartitionKey(1, "clicks", number) for number in range(3)]


class Seen(HTMLParser):
    """What a browser makes of it: the tags, and the texts of cells and paragraphs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag in ("td", "th", "p"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def lag(name: str) -> Any:
    return SourceLag({StoreKey(1, name, 0): 7, StoreKey(2, name, 0): 1_000}, None, {})


def progress(name: str) -> Any:
    key = GroupKey("etl", ["clicks"])
    rows = (PartitionProgress(KEYS[0]._replace(topic=name), 28, 84, 0), PartitionProgress(KEYS[1], 28))
    return GroupProgress(key, rows, 1, 5, 3, datetime(2026, 11, 24, 10, 0, tzinfo=UTC), "0.1.0")


def topic(name: str) -> Any:
    broker = BrokerInfo(1, "host", 8123)
    return DeployedTopic(name, 1_048_576, (TopicOnBroker("t", broker, 2, 4, True, False, True, TopicStatus.OK),))


def group(name: str) -> Any:
    member = GroupMember(name, "10.0.0.1", False, 2, None, tuple(KEYS))
    return GroupDetail("etl", GroupKind.CLIENT_BALANCE, frozenset({"clicks"}), {}, (member,))


def offsets(name: str) -> Any:
    return GroupOffsets("etl", (PartitionPosition(KEYS[0]._replace(topic=name), 28, 0, 84),))


SHOWS: list[tuple[Callable[[str], Any], list[str]]] = [
    (lag, ["1,007 messages behind", "2:NAME:0", "1,000", "1:NAME:0", "7"]),
    (progress, ["group 'etl' on clicks: an unknown number of messages behind at 2026-11-24 10:00:00 UTC, commit 3"]),
    (progress, ["1:NAME:0", "28", "84", "2", "0", "1:clicks:1", "28", "", "", ""]),
    (
        topic,
        ["topic NAME: 8 partitions, messages of 1,048,576 bytes", "1:host:8123", "2", "4", "writers", "True", "ok"],
    ),
    (group, ["group etl (client-rebalance) on clicks, clients: 1", "NAME", "10.0.0.1", "", "3"]),
    (offsets, ["group etl on the brokers: at most 2 messages behind", "1:NAME:0", "28", "84", "2"]),
]


@pytest.mark.parametrize(("make", "wanted"), SHOWS, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize(("name", "shown"), [("clicks", "clicks"), (EVIL, SHOWN)], ids=["plain", "evil"])
def test_a_value_is_a_table_with_its_texts_escaped(
    make: Callable[[str], Any], wanted: list[str], name: str, shown: str
) -> None:
    value = make(name)
    seen = Seen(value._repr_html_())
    assert seen.tags == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    rest = iter(seen.texts)
    for text in wanted:  # in this order
        assert text.replace("NAME", shown) in rest, seen.texts
    assert repr(value).startswith(type(value).__name__)


def test_the_title_is_escaped() -> None:
    assert Seen(replace(topic(EVIL), on_brokers=())._repr_html_()).tags == {"div", "p"}


def test_a_table_is_small() -> None:
    html = html_table("t", ("a",), ((row,) for row in range(10_000)), count=10_000)
    assert html.count("<td") == MOST_ROWS
    assert Seen(html).texts[-1] == "and 9,980 more"
    [_, _, cell] = Seen(html_table("t", ("a",), [("x" * 100_000,)], count=1)).texts
    assert cell == "x" * (MOST_CHARACTERS - 1) + "…"
