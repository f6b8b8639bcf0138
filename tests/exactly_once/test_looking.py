"""The rows of the job's tables, whichever columns they have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from tests.exactly_once.judge import Place, Row
from tests.exactly_once.looking import in_bad_records, in_table
from tests.exactly_once.test_zombie import commit

ROWS = [Row(Place("1:numbers:0", 5), 7), Row(Place("2:numbers:10000", 5), 8)]
PLACES = {"partitionKey": [row.place.partition for row in ROWS], "messageId": [row.place.message_id for row in ROWS]}


def test_rows_with_the_sources_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({**PLACES, "value": [b"7", b'{"number": 8}']}))
    assert in_table(tmp_path) == ROWS


def test_typed_rows(tmp_path: Path) -> None:
    places = pa.table(PLACES).to_struct_array().combine_chunks()
    write_deltalake(tmp_path, pa.table({"number": [7, 8], "tubemq": places}))
    assert in_table(tmp_path) == ROWS


def test_bad_records_whose_commit_the_target_lacks_do_not_count(tmp_path: Path) -> None:
    target, table = tmp_path / "target", tmp_path / "bad"
    assert in_bad_records(table, target) == []
    commit(target, 0, "one")
    for sequence, run_id in ((1, "one"), (1, "other"), (2, "one")):
        own = {"value": [b'{"number": 7', b'{"number": 8'], "sequence": [sequence] * 2, "runId": [run_id] * 2}
        write_deltalake(table, pa.table({**PLACES, **own}), mode="append")
    assert in_bad_records(table, target) == ROWS
