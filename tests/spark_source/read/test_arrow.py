"""Packs to Arrow batches: Spark's exact schema, every column, nothing corrupt let through, sizes held."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.schema import arrow_schema, spark_schema
from tubeclient.errors import CorruptMessage, DataLoss
from tubeclient.keys import PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto.broker_pb2 import TransferedMessage

KEY = PartitionKey(7, "clicks", 10_003)


def message(body: bytes, tag: str = "", time: str = "", number: int = 1, **attributes: str) -> TransferedMessage:
    payload, flag = encode_payload(body, encode_attributes(attributes, tag, time))
    return TransferedMessage(messageId=number, checkSum=checksum(payload), payLoadData=payload, flag=flag)


def raw_message(payload: bytes, flag: int = 1) -> TransferedMessage:
    return TransferedMessage(messageId=1, checkSum=checksum(payload), payLoadData=payload, flag=flag)


def pack(*messages: TransferedMessage, start: int = 280, end: int | None = None) -> Pack:
    columns = Columns(
        [one.messageId for one in messages], [one.payLoadData for one in messages], [one.flag for one in messages]
    )
    return Pack(KEY, start, start + 28 * len(messages) if end is None else end, columns)


def decoder(**changes: Any) -> PackDecoder:
    rows = RowOptions(columns=ATTRIBUTES if changes.pop("include_attributes", True) else ())
    return PackDecoder(**{"rows": rows, "time_zone": "UTC", **changes})


def rows(one: Pack, rule: OffsetRule = OffsetRule.UNKNOWN, **changes: Any) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = decoder(**changes).decode([one], rule).to_pylist()
    return result


@pytest.mark.parametrize("include_attributes", [False, True])
def test_schema_is_what_spark_makes_of_ours(include_attributes: bool) -> None:
    """Spark compares with its own conversion and refuses a batch that differs in a name, a type, a zone or a null."""
    rows = RowOptions(columns=ATTRIBUTES if include_attributes else ())
    expected = to_arrow_schema(spark_schema(rows), timezone="UTC")
    assert arrow_schema(rows).equals(expected)
    for one in (pack(message(b"x")), pack(message(b"x", "a", "202401020304", k="v")), pack()):
        batch = decoder(include_attributes=include_attributes).decode([one], OffsetRule.ALWAYS)
        assert expected.equals(batch.schema)
        batch.validate(full=True)


@pytest.mark.parametrize(
    ("rule", "complete", "short"),
    [
        (OffsetRule.UNKNOWN, [None, None], [None, None]),
        (OffsetRule.IF_COMPLETE, [280, 308], [None, None]),
        (OffsetRule.ALWAYS, [280, 308], None),
    ],
)
def test_offsets_are_given_only_where_they_are_known(
    rule: OffsetRule, complete: list[int | None], short: list[int | None] | None
) -> None:
    two = (message(b"a"), message(b"b"))
    assert [row["offset"] for row in rows(pack(*two), rule)] == complete
    if short is not None:
        assert [row["offset"] for row in rows(pack(*two, end=280 + 3 * 28), rule)] == short
        return
    with pytest.raises(
        DataLoss, match=r"7:clicks:10003 has 2 messages in its offsets \[280, 364\), but 3 index entries"
    ):
        rows(pack(*two, end=280 + 3 * 28), rule)
    lenient = decoder(fail_on_data_loss=False)
    batch = lenient.decode([pack(*two, end=280 + 3 * 28)], rule)
    assert batch.column("offset").to_pylist() == [None, None]
    assert lenient.missing.total() == 1


def test_filter_drops_other_tags() -> None:
    """The decoder drops messages with other tags that the broker let through."""
    # "Aa" and "BB" have one hash in Java, which is all that a broker compares.
    sent = pack(message(b"1", "Aa"), message(b"2", "BB"), message(b"3"), message(b"4", "Aa", k="v"))
    batch = decoder().decode([sent], OffsetRule.UNKNOWN, frozenset({"Aa"}))
    assert batch.column("value").to_pylist() == [b"1", b"4"]
    assert decoder().decode([pack(message(b"x"))], OffsetRule.UNKNOWN, frozenset({"Aa"})).num_rows == 0
    assert decoder().decode([pack()], OffsetRule.UNKNOWN, frozenset({"Aa"})).num_rows == 0


@pytest.mark.parametrize("include_attributes", [False, True])
def test_a_row_for_each_message_of_all_packs(include_attributes: bool) -> None:
    text = b"$msgTime$=none,k=,$msgType$=a,l,k=1,$msgTime$=202401020304,k=2,$msgType$=b"
    sent = raw_message(len(text).to_bytes(4) + text + b"body")
    found = decoder(include_attributes=include_attributes, time_zone="Asia/Kolkata").decode(
        [pack(message(b"x", number=-5), sent), pack(), pack(raw_message(b"\0\0\0\0", 3), start=336)], OffsetRule.ALWAYS
    )
    found.validate(full=True)
    of_partition = {"topic": "clicks", "partitionKey": "7:clicks:10003", "brokerId": 7, "partition": 10_003}
    none: dict[str, Any] = {"messageType": None, "messageTime": None, "attributes": []}
    time = datetime(2024, 1, 2, 3, 4, tzinfo=ZoneInfo("Asia/Kolkata"))
    expected: list[dict[str, Any]] = [
        {"offset": 280, "messageId": -5, "value": b"x", **none},
        {"offset": 308, "messageId": 1, "value": b"body"}
        | {"messageType": "b", "messageTime": time, "attributes": [("k", "1"), ("l", "")]},
        {"offset": 336, "messageId": 1, "value": b"", **none},
    ]
    names = found.schema.names
    assert found.to_pylist() == [
        {name: value for name, value in (of_partition | row).items() if name in names} for row in expected
    ]
    assert ("attributes" in names) == include_attributes


def test_unparsable_message_names_its_place() -> None:
    """The error for a message that cannot be parsed names its offsets."""
    packs = [pack(message(b"x")), pack(message(b"y"), raw_message(b"\0\0\0\x63k=v"), message(b"z"), start=308)]
    with pytest.raises(
        CorruptMessage, match=r"offsets \[336, 364\): attributes of 99 bytes in a payload of 7"
    ) as error:
        decoder().decode(packs, OffsetRule.UNKNOWN)
    assert error.value.number == 1  # in its pack
