"""Packs to Arrow batches: Spark's exact schema, every column, nothing corrupt let through, sizes held."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.schema import arrow_schema, spark_schema
from tubeclient.errors import DataLoss
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.messages import Columns, Message
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto.broker_pb2 import TransferedMessage


def plain_table(packs: Sequence[Pack], *, include_attributes: bool, with_offsets: bool, time_zone: str) -> pa.Table:
    """The rows of the packs; `with_offsets`: each index entry is a message."""
    rows = [
        _row(pack, message, pack.start + number * INDEX_ENTRY_BYTES if with_offsets else None, ZoneInfo(time_zone))
        for pack in packs
        for number, message in enumerate(pack)
    ]
    return pa.Table.from_pylist(rows, arrow_schema(RowOptions(columns=ATTRIBUTES if include_attributes else ())))


def _row(pack: Pack, message: Message, offset: int | None, zone: ZoneInfo) -> dict[str, Any]:
    time_ms = message_time_ms(message.time, zone)
    return {
        "topic": pack.partition.topic,
        "partitionKey": str(pack.partition),
        "brokerId": pack.partition.broker_id,
        "partition": pack.partition.partition_id,
        "offset": offset,
        "messageId": message.message_id,
        "messageType": message.tag or None,
        "messageTime": None if time_ms is None else time_ms * 1_000,
        "value": message.body,
        "attributes": list(message.attributes.items()),
    }


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


def test_filters_drop_other_tags_that_the_broker_let_through() -> None:
    # "Aa" and "BB" have one hash in Java, which is all that a broker compares.
    sent = pack(message(b"1", "Aa"), message(b"2", "BB"), message(b"3"), message(b"4", "Aa", k="v"))
    batch = decoder().decode([sent], OffsetRule.UNKNOWN, frozenset({"Aa"}))
    assert batch.column("value").to_pylist() == [b"1", b"4"]
    assert decoder().decode([pack(message(b"x"))], OffsetRule.UNKNOWN, frozenset({"Aa"})).num_rows == 0
    assert decoder().decode([pack()], OffsetRule.UNKNOWN, frozenset({"Aa"})).num_rows == 0


KEYS = st.sampled_from(["$msgType$", "$msgTime$", "k", "l", "ü", ""])
VALUES = st.sampled_from(["", "a", "two words", "x=y", "202401020304", "199912312359", "ü"])
SHAPES = st.lists(KEYS, max_size=4)


@st.composite
def odd_payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Whatever a producer may have written, or not."""
    body = draw(st.binary(max_size=6))
    if draw(st.booleans()):
        return body, 0
    text = ",".join(key + draw(st.sampled_from(["", "="])) + draw(VALUES) for key in draw(SHAPES))
    return with_text(text, body), 1


def with_text(text: str, body: bytes) -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode() + body


REPEATED = [
    (with_text(f"$msgType$={tag},$msgTime$=,$msgType$=,$msgType$=", b""), 1) for tag in ("", "", "", "", "", "a")
]


@example(REPEATED, 1, False, False)
@example([(with_text("$msgTime$=202401020304,$msgTime$=none", b""), 1)], 1, False, False)
@example([(with_text("k=,$msgTime$=202401020304,k=1,k=2", b""), 1)], 1, True, False)
@given(st.lists(odd_payloads(), max_size=20), st.integers(1, 5), st.booleans(), st.booleans())
def test_the_plain_decoder_gives_an_equal_table(
    sent: list[tuple[bytes, int]], of_a_pack: int, include_attributes: bool, with_offsets: bool
) -> None:
    messages = [raw_message(*one) for one in sent]
    for number, one in enumerate(messages):
        one.messageId = number * 7
    packs = [pack(*messages[at : at + of_a_pack], start=28 * at) for at in range(0, max(1, len(messages)), of_a_pack)]
    one_decoder = decoder(include_attributes=include_attributes, time_zone="Asia/Kolkata")
    batch = one_decoder.decode(packs, OffsetRule.ALWAYS if with_offsets else OffsetRule.UNKNOWN)
    batch.validate(full=True)
    expected = plain_table(
        packs, include_attributes=include_attributes, with_offsets=with_offsets, time_zone="Asia/Kolkata"
    )
    assert pa.Table.from_batches([batch]).equals(expected)
