"""The option `columns`: rows have these columns, and what is in them is as without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from spark_source.options.given import parse_options
from spark_source.options.source_options import RowOptions
from spark_source.plan.read_task import OffsetRule, ReadTask
from spark_source.read.schema import COLUMNS, spark_schema
from spark_source.read.task_read import read_task
from tubeclient import BrokerInfo, ClientSettings, PartitionKey, StoreKey, fetch_view, reader_groups_of
from tubeclient.errors import ConfigurationError
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.keys import OffsetRange
from tubeclient.wire.payload import encode_attributes, encode_payload

KEY = PartitionKey(1, "mixed", 0)
BAD, PACKS, RAW = 6, 12, 12
MESSAGES = BAD + PACKS + RAW
RECORDS = {"payload": "auto", "columns": "*, attributes, recordAttributes"}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """A topic of packs, of messages with and without attributes, and of bad ones."""
    folder: Path = tmp_path_factory.mktemp("mixed")
    with EmbeddedTubeMQ(folder / "tube", [TopicConfig("mixed", 1, 1)]) as tube:
        tube.load("mixed", [_message(number) for number in range(MESSAGES)])
        yield tube


def _message(number: int) -> NewMessage:
    body = b"%03d" % number
    if number < BAD:
        return NewMessage(0, b"\x7f\xff" + body, 1)  # its attributes cannot be parsed
    if number % 2:
        groups = [RecordGroup({"groupId": "g", "streamId": "s", "dt": "1700000000000"}, [body, body + b"!"])]
        body = encode_pack(groups, made_ms=5)
    payload, flag = encode_payload(body, encode_attributes({"n": str(number)}, "s", "202401020304"))
    return NewMessage(0, payload, flag)


def read(tube: EmbeddedTubeMQ, first: int = 0, **more: str) -> pa.Table:
    settings = ClientSettings((tube.master_address,))
    broker: BrokerInfo = fetch_view(settings, ["mixed"], reader_groups_of("columns")).brokers[1]
    given = {"masterServers": tube.master_address, "consumerGroup": "columns", "subscribe": "mixed", **more}
    rules = {StoreKey(1, "mixed", 0): OffsetRule.ALWAYS}
    task = ReadTask(0, [OffsetRange(KEY, first * 28, MESSAGES * 28)], rules, (broker,))
    return pa.Table.from_batches(read_task(parse_options(given), task))


@given(
    st.sets(st.sampled_from([column.name for column in COLUMNS if column.name != "badReason"]), min_size=1),
    st.booleans(),
)
def test_rows_have_what_they_have_with_all_columns(mixed: EmbeddedTubeMQ, names: set[str], keep: bool) -> None:
    # Bad messages come first in the topic, so that a read which does not keep them can leave them out.
    first, more = (0, {"badMessages": "keep"}) if keep else (BAD, {})
    names = names | ({"badReason"} if keep else set())
    whole = read(mixed, first, **RECORDS, **more)
    assert whole.num_rows == (PACKS * 2 + BAD if keep else PACKS * 2) + RAW
    some = read(mixed, first, **{**RECORDS, "columns": ",".join(names)}, **more)
    assert some.column_names == [column.name for column in COLUMNS if column.name in names]
    assert some.equals(whole.select(some.column_names))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowOptions(columns=("valeu",)), r"columns names 'valeu', which is not a column; did you mean value\?"),
        (
            RowOptions(columns=("body",)),
            r"names 'body', which is not a column; use one of topic, .*, value, attributes$",
        ),
        (
            RowOptions(columns=("recordIndex",)),
            r"recordIndex, which rows have only with payload=inlong or payload=auto",
        ),
        (RowOptions(columns=("badreason",)), r"badReason, which rows have only with badMessages=keep"),
        (
            RowOptions(columns=("*", "recordAttributes")),
            r"recordAttributes, which rows have only with payload=inlong or payload=auto",
        ),
        (RowOptions(columns=("value",), bad_messages="keep"), r"option columns lacks badReason"),
    ],
)
def test_columns_that_rows_have_not(rows: RowOptions, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        spark_schema(rows)
