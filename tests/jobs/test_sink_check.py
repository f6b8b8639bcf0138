"""What the sink's commits say, and batches that would write rows again."""

from __future__ import annotations

import json

import pytest

from spark_source.offsets import Offsets
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.checkpoint import parse_offset_log
from tubeclient_cli.sink import RowsWouldRepeat, SinkRecord, check_batch

A, B, C = (PartitionKey(1, "clicks", number) for number in (0, 10_000, 20_000))
RECORD = SinkRecord("g", "query-1", 7, Offsets({A: 280, B: 560}))


def test_a_record_survives_the_commit() -> None:
    assert SinkRecord.parse(RECORD.to_json()) == RECORD
    assert json.loads(RECORD.to_json())["tubeclient"]["endOffsets"] == {
        "1:clicks:0": {"0": 280},
        "1:clicks:1": {"10000": 560},
    }


@pytest.mark.parametrize("text", [None, "", "by hand", "[1]", '"x"', '{"other": {}}', '{"tubeclient": 1}'])
def test_other_peoples_metadata_is_not_a_record(text: str | None) -> None:
    assert SinkRecord.parse(text) is None


def test_a_batch_that_goes_on_where_the_table_ends_is_fine() -> None:
    check_batch(RECORD, "query-2", 0, {A: 280, B: 560}, {A: 308, B: 560})
    check_batch(RECORD, "query-2", 0, {A: 308, B: 588}, {A: 308, B: 616})
    check_batch(None, "query-2", 0, {}, {A: 28})
    # A topic that is no longer read.
    check_batch(RECORD, "query-2", 0, {A: 280}, {A: 308})


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ({A: 280, B: 532}, {A: 308, B: 560}),
        # Planned before the table went on: it ends before the table, so where it began does not help.
        ({A: 280, B: 560}, {A: 308, B: 532}),
    ],
)
def test_a_batch_before_the_tables_end_is_refused(start: dict[PartitionKey, int], end: dict[PartitionKey, int]) -> None:
    with pytest.raises(RowsWouldRepeat, match=r"1:clicks:10000 .* the table ends at 560\. Start with a new checkpoint"):
        check_batch(RECORD, "query-2", 0, start, end)


def test_a_repeated_batch_is_left_to_deltas_transaction_ids() -> None:
    check_batch(RECORD, "query-1", 7, {A: 0, B: 0}, {A: 280, B: 560})
    check_batch(RECORD, "query-1", 3, {A: 0, B: 0}, {A: 28, B: 28})


@pytest.mark.parametrize("batch_id", [7, 5])
def test_a_checkpoint_that_was_put_back_is_refused_where_delta_would_skip_its_rows(batch_id: int) -> None:
    """Delta skips a batch by its number, whatever is in it."""
    for end in ({A: 280, B: 588}, {A: 280, B: 560, C: 0}):
        with pytest.raises(RowsWouldRepeat, match=r"in the table already, .* Start with a new checkpoint"):
            check_batch(RECORD, "query-1", batch_id, {A: 0, B: 0}, end)


def test_a_checkpoint_that_was_put_back_is_refused_where_it_would_repeat_rows() -> None:
    check_batch(RECORD, "query-1", 8, {A: 280, B: 560}, {A: 308, B: 560})
    with pytest.raises(RowsWouldRepeat, match=r"1:clicks:10000 would be read from 532 to 588, .* ends at 560"):
        check_batch(RECORD, "query-1", 8, {A: 280, B: 532}, {A: 280, B: 588})


def test_a_query_may_go_back_to_the_end_of_a_brokers_data() -> None:
    """After a loss that was accepted; see failOnDataLoss."""
    check_batch(RECORD, "query-1", 8, {A: 280, B: 560}, {A: 280, B: 56})


def test_the_offset_log_is_read_as_spark_writes_it() -> None:
    assert parse_offset_log('v1\n{"batchWatermarkMs":0}\n{"1:clicks:0": {"0": 280}}') == {A: 280}


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}", "v1\n{}\n{}\n{}", ""])
def test_the_offset_log_of_another_job_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint of its own"):
        parse_offset_log(text)
