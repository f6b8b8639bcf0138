"""Whole jobs into Iceberg tables in catalogs of users' own: each record once, in one of two tables."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from pyiceberg.table import Table

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.http_gate import Answer
from tests.tubeclient_ingest.iceberg_catalogs import (
    CATALOGS,
    Described,
    describe,
    pyiceberg_home,
    rest_in_a_folder,
    rest_in_a_store,
)
from tests.tubeclient_ingest.test_iceberg import EVERY, Lake
from tubeclient.wire.payload import encode_attributes, encode_payload
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.tables.iceberg_catalog import open_catalog
from tubeclient_ingest.tables.spark_errors import IngestFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pyiceberg_home"]
pytestmark = [pytest.mark.spark, pytest.mark.apache]

SECRET = "s3cr3t-of-mine"


class OwnLake(Lake):
    """Its tables are in the catalog `lake`."""

    def __init__(self, tube: EmbeddedTubeMQ, spark: SparkSession, folder: Path, found: Described) -> None:
        super().__init__(tube, spark, folder)
        self.settings = replace(
            self.settings,
            warehouse=None,
            target="lake.shop.orders",
            bad_records="lake.shop.bad",
            storage_options=found.storage_options,
        )

    def table(self, name: str = "shop.orders") -> Table:
        return open_catalog(None, "lake").load_table(name)


@pytest.fixture
def found(request: pytest.FixtureRequest, tmp_path: Path, pyiceberg_home: Path) -> Iterator[Described]:
    with request.param(tmp_path / "server") as described:
        describe(pyiceberg_home, lake=described.properties)
        yield described


@pytest.fixture
def lake(tmp_path: Path, delta_spark: SparkSession, found: Described) -> Iterator[OwnLake]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks", 2, 1)]) as tube:
        yield OwnLake(tube, delta_spark, tmp_path, found)


@pytest.mark.parametrize("found", CATALOGS.values(), ids=CATALOGS.keys(), indirect=True)
def test_two_runs_and_a_retry(lake: OwnLake) -> None:
    for _ in range(2):
        lake.send(20)
        lake.run()
    lake.check()
    at = datetime(2026, 11, 30, 10, tzinfo=ZoneInfo("UTC"))
    rows = lake.table().scan(selected_fields=("id", "part", "at")).to_arrow().to_pylist()
    assert sorted(rows, key=lambda one: int(one["id"])) == [
        {"id": number, "part": f"p{number % 3}", "at": at} for number in range(40) if number % EVERY
    ]
    with lake.table().update_schema() as change:
        change.make_column_optional("id")
    loose = {"schema": "part STRING, at TIMESTAMP"}
    retried = lake.job(**loose).retry()
    assert (retried.moved, retried.still_bad) == (6, 0)
    assert lake.table().scan().to_arrow().num_rows == 40
    assert (lake.bad(**loose), lake.bad("retried", **loose)) == ([], [*range(0, 40, EVERY)])
    retried = lake.job(**loose).retry()
    assert (retried.moved, retried.still_bad) == (0, 0)


def is_commit(method: str, path: str) -> bool:
    return method == "POST" and path.endswith(("/tables/orders", "/tables/bad"))


@pytest.mark.parametrize("found", [rest_in_a_folder], indirect=True)
def test_each_record_is_there_once_over_lost_answers(lake: OwnLake, found: Described) -> None:
    """Of commits to either table, of tables that are made and of looks at them."""
    rng = random.Random(7)
    lost: list[tuple[str, str]] = []
    assert found.gate is not None

    def answer(method: str, path: str) -> Answer:
        rare = 2 if is_commit(method, path) else 20
        how = rng.choices([Answer.GIVEN, Answer.BROKEN, Answer.CLOSED], [rare, 1, 1])[0]
        if how is not Answer.GIVEN:
            lost.append((method, path))
        return how

    for _ in range(10):
        lake.send(rng.randrange(1, 20))
        open_catalog.cache_clear()
        found.gate.answer = answer
        with suppress(IngestFailed):
            lake.run(max_offsets_per_trigger=rng.choice((5, 1_000)))
    found.gate.answer = lambda method, path: Answer.GIVEN
    lake.run()
    lake.check()
    assert len({path for method, path in lost if is_commit(method, path)}) == 2, lost


@pytest.mark.parametrize("found", [rest_in_a_store], indirect=True)
def test_a_wrong_key_of_tasks(lake: OwnLake) -> None:
    lake.send(5)
    wrong = {**lake.settings.storage_options, "AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": f"{SECRET}-2"}
    with pytest.raises(IngestFailed) as caught:
        lake.run(storage_options=wrong)
    text = str(caught.value)
    assert SECRET not in text
    assert "InvalidAccessKeyId" in text
    assert "storage-options" in text
    lake.run()
    lake.check()


@pytest.mark.parametrize("found", [rest_in_a_folder], indirect=True)
def test_many_tables(tmp_path: Path, delta_spark: SparkSession, found: Described) -> None:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("mixed")]) as tube:
        lake = OwnLake(tube, delta_spark, tmp_path, found)
        changes: dict[str, Any] = {"topics": ("mixed",), "table_by": "attribute.kind", "target": "lake.shop.{stream}"}
        changes |= {"partition_by": (), "schema": "id INT NOT NULL", "bad_records": "lake.shop.bad"}
        settings = replace(lake.settings, **changes)
        for first in (0, 30):
            for number in range(first, first + 30):
                kind = "abc"[number % 3]
                text = json.dumps({"id": number if number % EVERY else "not a number"})
                body = encode_payload(text.encode(), encode_attributes({"kind": kind}, "", ""))
                tube.load("mixed", [NewMessage(0, *body)])
            Ingest(delta_spark, settings=settings).run(lambda _: None)
        for rest, name in enumerate("abc"):
            ids = lake.table(f"shop.{name}").scan().to_arrow().column("id").to_pylist()
            assert sorted(ids) == [number for number in range(rest, 60, 3) if number % EVERY]
        assert lake.table("shop.bad").scan().to_arrow().num_rows == len(range(0, 60, EVERY))
        counts = lake.table("shop._counts").scan().to_arrow().to_pylist()
        assert sum(one["received"] for one in counts) == 60
