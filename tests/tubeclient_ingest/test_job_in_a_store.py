"""Jobs with tables in a store that Spark has no jars for: delta-rs looks at them, makes and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.offsets_store.s3_server import BUCKET, s3_process
from tests.tubeclient_ingest.bench import Bench
from tubeclient_ingest.settings.table_by import COUNTS, REST

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_process() as found:
        yield found


def rows(options: dict[str, str], place: str, *names: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(f"s3://{BUCKET}/{place}", storage_options=options).to_pyarrow_table(columns=[*names])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def send(bench: Bench, *bodies: bytes) -> None:
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


def test_a_job_with_all_its_tables_in_the_store(bench: Bench, options: dict[str, str]) -> None:
    """Its second run goes on where the rows in the store end."""
    own: dict[str, Any] = {"format": "json", "schema": "id BIGINT NOT NULL, day DATE", "partition_by": ("day",)}
    own |= {"target": f"s3a://{BUCKET}/one/rows", "bad_records": f"s3://{BUCKET}/one/bad", "storage_options": options}
    own |= {"offsets_table": f"s3://{BUCKET}/one/offsets", "writer": "tasks"}
    for first in (0, 10):
        send(bench, *(b'{"id": %d, "day": "2026-11-0%d"}' % (n, n % 3 + 1) for n in range(first, first + 10)), b"{")
        [one] = bench.run(**own)
        assert (one.rows, one.bad_rows) == (10, 1)
    assert rows(options, "one/rows", "id") == [(n,) for n in range(20)]
    assert len(rows(options, "one/bad", "id")) == 2
    with pytest.raises(Exception, match=r"UnsupportedFileSystem|No FileSystem|ClassNotFound"):
        bench.spark.read.format("delta").load(f"s3://{BUCKET}/one/rows").collect()


def test_a_job_of_many_tables(bench: Bench, options: dict[str, str]) -> None:
    own: dict[str, Any] = {"format": "json", "schema": "id BIGINT", "table_by": "$.t", "storage_options": options}
    own |= {"target": f"s3://{BUCKET}/many/{{stream}}", "offsets_table": f"s3://{BUCKET}/many/offsets"}
    for first in (0, 10):
        send(
            bench, *(b'{"id": %d, "t": "%s"}' % (n, b"ab"[n % 2 : n % 2 + 1]) for n in range(first, first + 10)), b"{}"
        )
        bench.run(**own)
    assert rows(options, "many/a", "id") == [(n,) for n in range(0, 20, 2)]
    assert rows(options, "many/b", "id") == [(n,) for n in range(1, 20, 2)]
    assert len(rows(options, f"many/{REST}", "value")) == 2
    assert sum(count for (count,) in rows(options, f"many/{COUNTS}", "received")) == 22
