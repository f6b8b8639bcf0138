"""What `tubeclient bad-records show` says where Delta has removed the group's commits from the target's history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_source.offsets.offsets import Offsets
from tubeclient_cli.bad_records.table import Choice, read_bad_records
from tubeclient_ingest.record import SinkRecord


@pytest.mark.parametrize("cut", [False, True])
def test_a_bad_record_stays_bad_and_one_without_a_commit_stays_undone(cut: bool, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    numbers = pa.table({"number": [1]})
    write_deltalake(target, numbers)
    record = SinkRecord("clicks_etl", "run", Offsets({}), sequence=1, based_on=0)
    own = CommitProperties(
        custom_metadata={"userMetadata": record.to_json()}, app_transactions=[Transaction(record.transaction_id, 1)]
    )
    write_deltalake(target, numbers, mode="append", commit_properties=own)
    write_deltalake(target, numbers, mode="append")
    if cut:
        DeltaTable(target).create_checkpoint()
        for version in range(2):
            (tmp_path / "target" / "_delta_log" / f"{version:020}.json").unlink()
    row = {
        "consumerGroup": "clicks_etl",
        "target": target,
        "targetId": str(DeltaTable(target).metadata().id),
        "runId": "run",
        "topic": "clicks",
        "partitionKey": "1:clicks:0",
        "offset": 0,
        "messageId": 1,
        "recordIndex": 0,
        "value": b"{",
        "reason": "broken",
        "time": datetime(2026, 11, 23, tzinfo=UTC),
    }
    rows = [{**row, "sequence": number, "id": str(number)} for number in (1, 2)]
    kept = pa.Table.from_pylist(rows).append_column("retryOf", pa.nulls(2, pa.string()))
    write_deltalake(str(tmp_path / "bad"), kept)
    for state, sequence in (("bad", 1), ("undone", 2)):
        found = read_bad_records(str(tmp_path / "bad"), {}, Choice(state=state), 10)
        assert [one.sequence for one in found.newest] == [sequence], state
        assert found.unjudged == ()
