"""Rows to InLong packs: what is written is what a read of it gives, and a row that cannot be sent is named."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.options.given import parse_given, write_options
from spark_source.options.row_options import ALL_ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.write.pack_rows import PackMaker
from spark_source.write.sink_columns import InlongColumns
from spark_source.write.sink_rows import Made
from tubeclient.errors import ConfigurationError
from tubeclient.inlong.column_packs import PackBounds
from tubeclient.keys import PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns
from tubeclient.wire.payload import decode_payload

COLUMNS = InlongColumns(value=0, inlong_group_id=1, inlong_stream_id=2, topic=3, data_time=4, record_attributes=5)
NOW_MS = 1_795_433_050_016
"""2026-11-23T11:24:10.016Z."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

texts = st.text(st.characters(codec="utf-8", exclude_characters="=&"), max_size=6)
rows_of_any_stream = st.fixed_dictionaries(
    {
        "value": st.binary(min_size=1, max_size=60),
        "group": st.sampled_from(["g", "g.2"]),
        "stream": st.sampled_from(["clicks", "views"]),
        "topic": st.sampled_from(["t", "u"]),
        "time": st.none()
        | st.datetimes(datetime(1969, 12, 31), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
        "attributes": st.none() | st.dictionaries(texts.filter(bool), texts, max_size=2),
    }
)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """With the columns in the order of COLUMNS."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.get("value", b"x") for row in rows], pa.binary()),
            pa.array([row.get("group", "g") for row in rows], pa.string()),
            pa.array([row.get("stream", "clicks") for row in rows], pa.string()),
            pa.array([row.get("topic", "t") for row in rows], pa.string()),
            pa.array([row.get("time") for row in rows], pa.timestamp("us", "America/New_York")),
            pa.array([row.get("attributes") for row in rows], pa.map_(pa.string(), pa.string())),
        ],
        names=["value", "inlongGroupId", "inlongStreamId", "topic", "dataTime", "recordAttributes"],
    )


def maker(limit: int = 1 << 20, columns: InlongColumns = COLUMNS, most: int = 256, **options: object) -> PackMaker:
    texts = {name: str(value) for name, value in options.items()}
    given_options = write_options(parse_given({"masterServers": "m:1", "payload": "inlong", **texts}))
    return PackMaker(
        columns, given_options, lambda topics: dict.fromkeys(topics, limit), lambda: NOW_MS, PackBounds(most, 327_680)
    )


def read_back(made: Made, payload: Any = "inlong") -> list[dict[str, Any]]:
    """As the source reads them."""
    found: list[dict[str, Any]] = []
    decoder = PackDecoder(rows=RowOptions(payload=payload, columns=ALL_ATTRIBUTES), time_zone="UTC")
    for topic in sorted({message.topic for message in made.messages}):
        messages = [message for message in made.messages if message.topic == topic]
        stored = Columns([1] * len(messages), [one.payload for one in messages], [one.flag for one in messages])
        pack = Pack(PartitionKey(1, topic, 0), 0, 28 * len(messages), stored)
        for records in decoder.batches([pack], OffsetRule.ALWAYS):
            found += records.to_pylist()
    return found


@given(st.lists(rows_of_any_stream, max_size=30), st.integers(1, 5), st.sampled_from(["inlong", "auto"]))
def test_what_is_written_is_what_is_read(rows: list[dict[str, Any]], most: int, payload: str) -> None:
    made = maker(most=most).make(batch(rows))
    found = read_back(made, payload)
    streams = sorted({(row["topic"], row["group"], row["stream"]) for row in rows})
    for topic, group, stream in streams:
        wanted = [row for row in rows if (row["topic"], row["group"], row["stream"]) == (topic, group, stream)]
        read = [
            row
            for row in found
            if (row["topic"], row["inlongGroupId"], row["inlongStreamId"]) == (topic, group, stream)
        ]
        assert [row["value"] for row in read] == [row["value"] for row in wanted]
        for got, put in zip(read, wanted, strict=True):
            time = put["time"] or EPOCH + timedelta(milliseconds=NOW_MS)
            assert got["dataTime"] == time - timedelta(microseconds=time.microsecond % 1000)
            ms = (got["dataTime"] - EPOCH) // timedelta(milliseconds=1)
            own = {key: value for key, value in (put["attributes"] or {}).items() if key not in ("t", "dt")}
            assert dict(got["recordAttributes"]) == {"groupId": group, "streamId": stream, "dt": str(ms), **own}
            assert got["messageType"] == stream
    assert len(found) == len(rows)
    assert sum(made.rows) == len(rows)


def test_what_goes_over_the_wire() -> None:
    made = maker(messageTimeZone="Asia/Shanghai").make(batch([{}, {"value": b"y"}]))
    [message] = made.messages
    assert (message.topic, message.tag, message.time) == ("t", "clicks", "202611231924")
    body, attributes = decode_payload(message.payload, message.flag)
    assert body[:2] == b"\x0f\x01"
    assert attributes == (f"$msgType$=clicks,$msgTime$=202611231924,rt={NOW_MS},st={NOW_MS},msgEnType=2,version=2")
    assert (made.first_rows, made.rows) == ([0], [2])


def test_rows_of_several_streams_are_counted_in_the_task() -> None:
    packs = maker(most=2)
    assert packs.make(batch([{}] * 3)).first_rows == [0, 2]
    made = packs.make(batch([{"stream": "a"}, {"stream": "b"}, {"stream": "a"}, {"stream": "a"}]))
    assert [one.tag for one in made.messages] == ["a", "a", "b"]
    assert (made.first_rows, made.rows) == ([3, 6, 4], [2, 1, 1])
    assert packs.make(batch([])) == Made([], [], [])


def test_columns_give_what_the_attributes_of_a_record_read_before_say_otherwise() -> None:
    old = {"groupId": "old", "streamId": "old", "dt": "1", "t": "20200101", "NodeIP": "10.0.0.1"}
    [row] = read_back(maker().make(batch([{"attributes": old}])))
    assert dict(row["recordAttributes"]) == {
        "groupId": "g",
        "streamId": "clicks",
        "dt": str(NOW_MS),
        "NodeIP": "10.0.0.1",
    }


def test_packs_of_a_topic_with_a_low_limit_fit_it() -> None:
    rng = random.Random(7)
    values = [rng.randbytes(40) for _ in range(300)]
    rows = [{"value": value, "attributes": {"n": str(number)}} for number, value in enumerate(values)]
    made = maker(limit=1_000).make(batch(rows))
    assert max(len(message.payload) for message in made.messages) <= 1_000
    assert max(made.rows) > 1
    assert [row["value"] for row in read_back(made)] == values


def test_a_record_that_no_reader_would_take_is_refused_however_well_it_is_compressed() -> None:
    most = 67_108_864 - 131_072
    rows = batch([{"value": b"x" * most, "attributes": {"k": "v" * 60_000}}])
    assert [len(row["value"]) for row in read_back(maker(limit=1 << 30).make(rows))] == [most]
    with pytest.raises(ConfigurationError, match=r"row 1 .*more than the 66977792 bytes that readers"):
        maker(limit=1 << 30).make(batch([{}, {"value": b"x" * (most + 1)}]))


def test_the_columns_that_may_be_missing() -> None:
    rows = batch([{"value": b"a"}, {"value": b"b"}])
    made = maker(columns=InlongColumns(0, 1, 2), topic="other").make(rows)
    assert [message.topic for message in made.messages] == ["other"]
    assert [row["value"] for row in read_back(made)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value": None}, "column value is null"),
        ({"value": b""}, "column value is empty"),
        ({"group": None}, "column inlongGroupId is null"),
        ({"group": "a b"}, "column inlongGroupId: 'a b' is no id in InLong"),
        ({"stream": None}, "column inlongStreamId is null"),
        ({"stream": " "}, "column inlongStreamId: ' ' is no id in InLong"),
        ({"topic": None}, "column topic is null"),
        ({"topic": " "}, "column topic: ' ' is not a topic name"),
        ({"attributes": {"k": "a&b"}}, "column recordAttributes: the attribute 'k' cannot be in a pack: its value"),
        ({"attributes": {"a=b": "v"}}, "column recordAttributes: the attribute 'a=b' cannot be in a pack: keys"),
        ({"attributes": {"": "v"}}, "column recordAttributes: the attribute '' cannot be in a pack: keys"),
        ({"attributes": {"k": "v", "n": None}}, "column recordAttributes: the attribute 'n' has no value"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(row: dict[str, Any], message: str) -> None:
    packs = maker()
    packs.make(batch([{}, {"attributes": {"k": "v"}}]))
    with pytest.raises(ConfigurationError, match=f"row 3 of this task cannot be sent: .*{message}"):
        packs.make(batch([{"attributes": {"k": "v", "l": "w"}}, row]))
