"""How values look in a notebook: small tables, whose texts cannot be HTML whatever others named their things."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, cast

import pytest

from offsets_store import GroupKey, PartitionProgress
from offsets_store.progress import GroupProgress
from tubeclient.html_table import MOST_CHARACTERS, MOST_ROWS, html_table
from tubeclient.keys import PartitionKey
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.run import Begins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def progress(name: str) -> Any:
    key = GroupKey("etl", ["clicks"])
    rows = (PartitionProgress(KEYS[0]._replace(topic=name), 28, 84, 0), PartitionProgress(KEYS[1], 28))
    return GroupProgress(key, rows, 1, 5, 3, datetime(2026, 11, 24, 10, 0, tzinfo=UTC), "0.1.0")


SHOWS: list[tuple[Callable[[str], Any], list[str]]] = [
    (progress, ["group 'etl' on clicks: an unknown number of messages behind at 2026-11-24 10:00:00 UTC, commit 3"]),
    (progress, ["1:NAME:0", "28", "84", "2", "0", "1:clicks:1", "28", "", "", ""]),
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


def test_a_table_is_small() -> None:
    html = html_table("t", ("a",), ((row,) for row in range(10_000)), count=10_000)
    assert html.count("<td") == MOST_ROWS
    assert Seen(html).texts[-1] == "and 9,980 more"
    [_, _, cell] = Seen(html_table("t", ("a",), [("x" * 100_000,)], count=1)).texts
    assert cell == "x" * (MOST_CHARACTERS - 1) + "…"


def test_a_job_says_where_it_stands() -> None:
    spark = cast("SparkSession", object())
    job = Ingest(spark, master_servers="m:1", consumer_group="etl", topics=["clicks"], target="/lake/t")
    job._track(Begins(EVIL))
    assert Seen(job._repr_html_()).texts == [f"ingest etl: {SHOWN}"]
