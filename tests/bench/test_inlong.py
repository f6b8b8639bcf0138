"""The packs of the benchmark hold what they should, and all of it is decoded."""

from __future__ import annotations

from bench.inlong import RECORD_BYTES, decode, fetched, make_packs
from tubeclient.inlong import records_of


def test_every_record_becomes_a_row() -> None:
    packs = list(make_packs(12_345))
    assert len(packs) == 62
    records = [one.body for pack in packs for one in records_of(pack, {})]
    assert len(set(records)) == 12_345
    lengths = [len(record) for record in records]
    assert set(lengths) == set(range(80, 121))
    assert round(sum(lengths) / len(lengths)) == RECORD_BYTES
    rows = [row for batch in decode(fetched(packs)) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == records
    assert {(row["inlongGroupId"], row["inlongStreamId"]) for row in rows} == {("web", "clicks")}
