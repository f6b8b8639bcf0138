"""Records of InLong packs as rows: one each, bad messages by the user's choice, the same rows however packs come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from spark_source.options.source_options import ALL_ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.schema import arrow_schema, spark_schema
from tests.tubeclient.inlong.packs import GROUPS, Group, OwnRecord, encode_message_objs
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.keys import PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns
from tubeclient.wire.payload import encode_attributes, encode_payload

KEY = PartitionKey(7, "clicks", 10_003)
ATTRIBUTES = {"groupId": "g", "streamId": "s", "dt": "1700000000123"}
AT = datetime.fromtimestamp(1_700_000_000.123, UTC)


def packs_of(sent: Sequence[tuple[bytes, int]], *, of_a_pack: int = 2, keep_bad: bool = False) -> list[Pack]:
    """Payloads and flags, so many to a pack."""
    packs = []
    for start, end in pairwise([*range(0, len(sent), of_a_pack), len(sent)]):
        payloads, flags = zip(*sent[start:end], strict=True)
        columns = Columns(list(range(start, end)), list(payloads), list(flags))
        packs.append(Pack(KEY, 28 * start, 28 * end, columns, {} if keep_bad else None))
    return packs


def sent(body: bytes, tag: str = "", **attributes: str) -> tuple[bytes, int]:
    return encode_payload(body, encode_attributes(attributes, tag))


def read(messages: Sequence[tuple[bytes, int]], tags: frozenset[str] = frozenset(), **options: Any) -> pa.Table:
    of_a_pack = options.pop("of_a_pack", 2)
    columns: tuple[str, ...] = ALL_ATTRIBUTES if options.pop("include_attributes", False) else ()
    if options.get("payload") == "raw":
        columns = columns[:2]  # messages have no others
    rows = RowOptions(**{"payload": "inlong", "columns": columns, **options})
    decoder = PackDecoder(rows=rows, time_zone="UTC")
    packs = packs_of(messages, of_a_pack=of_a_pack, keep_bad=rows.bad_messages == "keep")
    batches = decoder.batches(packs, OffsetRule.ALWAYS, tags)
    return pa.Table.from_batches(batches, arrow_schema(rows))


def a_pack(*bodies: bytes, **attributes: str) -> bytes:
    return encode_pack([RecordGroup({**ATTRIBUTES, **attributes}, bodies)], made_ms=1)


@pytest.mark.parametrize(
    "rows",
    [
        RowOptions(payload="inlong"),
        RowOptions(payload="auto", columns=ALL_ATTRIBUTES, bad_messages="keep"),
        RowOptions(bad_messages="keep"),
    ],
)
def test_schema_is_what_spark_makes_of_ours(rows: RowOptions) -> None:
    assert arrow_schema(rows).equals(to_arrow_schema(spark_schema(rows), timezone="UTC"))
    batches = PackDecoder(rows=rows, time_zone="UTC").batches(packs_of([sent(a_pack(b"x"))]), OffsetRule.ALWAYS)
    assert [batch.schema for batch in batches] == [arrow_schema(rows)]


def test_row_for_each_record() -> None:
    """Each record becomes a row with the fields of its message."""
    table = read([sent(a_pack(b"one", b"two"), "s", via="dp"), sent(a_pack(b"", k="v"))], include_attributes=True)
    same = {"topic": "clicks", "partitionKey": str(KEY), "brokerId": 7, "partition": 10_003, "messageTime": None}
    origin = {"inlongGroupId": "g", "inlongStreamId": "s", "dataTime": AT}
    one = {**same, **origin, "offset": 0, "messageId": 0, "messageType": "s", "attributes": [("via", "dp")]}
    two = {**same, **origin, "offset": 28, "messageId": 1, "messageType": None, "attributes": []}
    own = list(ATTRIBUTES.items())
    assert table.to_pylist() == [
        {**one, "value": b"one", "recordIndex": 0, "recordAttributes": own},
        {**one, "value": b"two", "recordIndex": 1, "recordAttributes": own},
        {**two, "value": b"", "recordIndex": 0, "recordAttributes": [*own, ("k", "v")]},
    ]


@given(st.lists(GROUPS, min_size=1, max_size=6), st.integers(1, 6))
def test_the_same_rows_however_messages_come(messages: list[list[Group]], of_a_pack: int) -> None:
    """A replay gets other packs of the same messages."""
    payloads = [
        sent(encode_pack([RecordGroup(group.attributes, group.bodies) for group in groups], made_ms=5))
        for groups in messages
    ]
    table = read(payloads, of_a_pack=of_a_pack, include_attributes=True)
    assert table.equals(read(payloads, of_a_pack=1, include_attributes=True))
    bodies = [[body for group in groups for body in group.bodies] for groups in messages]
    assert table.column("value").to_pylist() == [body for message in bodies for body in message]
    assert table.column("messageId").to_pylist() == [n for n, message in enumerate(bodies) for _ in message]
    assert table.column("recordIndex").to_pylist() == [n for message in bodies for n in range(len(message))]


def test_auto_takes_packs_apart_and_leaves_the_rest() -> None:
    objects = encode_message_objs([OwnRecord(b"three", {})], [1_700_000_000_123])
    named = {"version": "1", "compressType": "INLONG_SNAPPY", "inlongGroupId": "g", "inlongStreamId": "s"}
    table = read([sent(b"raw"), sent(a_pack(b"one", b"two")), sent(objects, **named)], payload="auto")
    assert table.select(["value", "inlongStreamId", "dataTime", "recordIndex"]).to_pylist() == [
        {"value": b"raw", "inlongStreamId": None, "dataTime": None, "recordIndex": 0},
        {"value": b"one", "inlongStreamId": "s", "dataTime": AT, "recordIndex": 0},
        {"value": b"two", "inlongStreamId": "s", "dataTime": AT, "recordIndex": 1},
        {"value": b"three", "inlongStreamId": "s", "dataTime": AT, "recordIndex": 0},
    ]


def test_a_bad_message_is_kept_where_tags_are_picked() -> None:
    """Its tag cannot be known, and the broker found it by one of them."""
    table = read([(b"\0\0\0\x63k=v", 1), sent(a_pack(b"x"), "t")], frozenset({"s"}), bad_messages="keep")
    assert [row["messageId"] for row in table.to_pylist()] == [0]


def test_many_records_in_bounded_batches() -> None:
    """What packs unpack to is not held at once."""
    large = [sent(a_pack(bytes(20 << 20))) for _ in range(4)]
    decoder = PackDecoder(rows=RowOptions(payload="inlong"), time_zone="UTC")
    sizes = [batch.num_rows for batch in decoder.batches(packs_of(large), OffsetRule.ALWAYS)]
    assert sizes == [2, 2]
    assert list(accumulate(sizes)) == [2, 4]


"""Lives longer than all that is taken from it."""


@pytest.mark.parametrize("attributes", [False, True])
def test_tag_or_attributes_that_fill_memory(attributes: bool) -> None:
    """A message is bad if its tag or attributes, once per record, would fill the memory."""
    pack = encode_pack([RecordGroup(ATTRIBUTES, [b""] * 100_000)], made_ms=1)
    large = sent(pack, via="v" * 6_000) if attributes else sent(pack, "v" * 6_000)
    table = read([sent(a_pack(b"x")), large], include_attributes=attributes, bad_messages="keep")
    good, bad = table["badReason"].to_pylist()
    assert good is None
    assert "would take more than" in bad
