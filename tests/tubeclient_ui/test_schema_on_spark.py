"""The view that tries a schema, with the Spark that parses it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.tubeclient_ui.viewer import Viewer
from tests.waiting import wait_for
from tubeclient_cli.common import session

SCHEMA = "id BIGINT NOT NULL, at TIMESTAMP"


@pytest.fixture(autouse=True)
def spark(delta_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's Spark is that of the tests."""

    @contextlib.contextmanager
    def on_spark(*_: object, **__: object) -> Iterator[SparkSession]:
        yield delta_spark

    monkeypatch.setattr(session, "on_spark", on_spark)


def shown(viewer: Viewer, path: str = "/schema", /, **query: object) -> str:
    """What is there after Spark has started and parsed."""
    found: list[str] = []

    def is_there() -> bool:
        found.append(viewer.part(path, **query))
        return not re.search("Spark is (starting|working)", found[-1])

    wait_for(is_there, "an answer of Spark")
    return found[-1]


def test_ddl_gives_rows(viewer: Viewer) -> None:
    """With the types that it names, and what is bad."""
    records = '{"id": 1, "at": "2026-11-21T10:31Z"}\n{"at": "2026-11-21T10:31Z"}\n{"id": 3, "at": "x"}'
    text = shown(viewer, schema=SCHEMA, records=records)
    assert "1 good, 2 bad" in text
    assert "<small>timestamp</small>" in text
    assert "<td>2026-11-21 10:31:00+00:00" in text
    assert text.count("<mark>") == 1
    assert "Download settings" in text


def test_options_are_those_of_ingest(viewer: Viewer) -> None:
    """Of csv in another encoding, with a zone for times without one."""
    options = {"format-options": "timestampFormat=yyyyMMddHHmm\nnullValue=-", "time-zone": "Asia/Shanghai"}
    text = shown(
        viewer,
        format="csv",
        schema="`名` STRING, at TIMESTAMP",
        separator="|",
        encoding="GBK",
        records="中|202611211831\n-|-",
        **options,
    )
    assert "2 good, 0 bad" in text
    assert "<td>中<td>2026-11-21 10:31:00+00:00" in text
    assert text.count("<small>null</small>") == 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("id BIGI", "the schema cannot be parsed"),
        ("id INT, ID INT", "more than once"),
        ("tubemq INT", "the schema has a column tubemq"),
        ("a CHAR(3)", "write STRING"),
        ("a " + "STRUCT<b: " * 100 + "INT" + ">" * 100, "nests more than 50 types"),
    ],
)
def test_a_schema_that_ingest_refuses(viewer: Viewer, schema: str, words: str) -> None:
    """In ingest's words."""
    assert words in shown(viewer, schema=schema, records="{}")


def test_messages_of_a_search_are_typed(viewer: Viewer) -> None:
    """Each one that is opened, and all of them in the view."""
    query = {"topic": "clicks", "order": "oldest", "format": "json", "schema": "id BIGINT, user STRUCT<card: STRING>"}
    key, _ = viewer.search(**query)
    text = shown(viewer, "/messages/typed", search=key, number=3)
    assert "1 good, 0 bad" in text
    assert "<td>3<td>{&#34;card&#34;: &#34;4111111111110003&#34;}" in text
    assert "10 good, 0 bad" in shown(viewer, **query)
