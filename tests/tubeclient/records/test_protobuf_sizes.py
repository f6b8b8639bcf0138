"""Large records of Protobuf are bounded before they are parsed."""

from __future__ import annotations

import pyarrow as pa

from tests.tubeclient.records.protos import bytes_of, descriptor, number, varint
from tests.tubeclient.records.reading import read, spec
from tubeclient.records.json_text import MOST_VALUES

GROUPS = "message Groups { optional int64 n = 2; repeated group Wide = 1"


def test_a_record_has_a_bound() -> None:
    """Two bytes are a message, for each field of which the parser reserves memory."""
    too_many, no_rows = f"the record has more than {MOST_VALUES} values", "the bytes are not a message Rows"
    wide = "syntax = 'proto3'; message Wide { " + "".join(f"int64 f{at} = {at};" for at in range(1, 601))
    file = descriptor(wide + "} message Rows { repeated Wide rows = 1; repeated int32 numbers = 2; bytes rest = 3; }")
    rows = pa.list_(pa.struct([("f1", pa.int64())]))
    one = spec("protobuf", {"rows": rows, "numbers": pa.list_(pa.int32())}, descriptor=file, message="Rows")
    group = varint(9 << 3 | 3) + varint(9 << 3 | 4)
    others_first = group + varint(9 << 3 | 5) + bytes(4) + varint(9 << 3 | 1) + bytes(8) + bytes_of(3, bytes(20_000))
    most = MOST_VALUES // 600
    assert [found if isinstance(found, str) else list(map(len, found)) for found in read(
        one,
        bytes_of(1, b"") * most,
        bytes_of(1, b"") * (most + 1),
        group * (most + 1),
        bytes_of(2, bytes(MOST_VALUES)),
        bytes_of(2, bytes(MOST_VALUES + 1)),
        bytes_of(3, bytes(3 * MOST_VALUES)),
        bytes_of(1, b"") * 3_000 + b"\xff" * 4,
        others_first + number(9, 1 << 40) + bytes_of(1, b"") * (most + 1),
        bytes_of(1, b"") * 300 + varint(9 << 3 | 6) + b"\xff" * 40_000,
    )] == [
        [most, 0], too_many, [0, 0], [0, MOST_VALUES], too_many, [0, 0], too_many, too_many, no_rows
    ]  # fmt: skip
    grouped = wide.replace("proto3", "proto2").replace("int64", "optional int64").replace("message Wide", GROUPS)
    one = spec("protobuf", {"n": pa.int64()}, descriptor=descriptor(grouped + "}}"), message="Groups")
    begin, end = varint(1 << 3 | 3), varint(1 << 3 | 4)
    assert read(one, (begin + number(1, 1) + end) * (most - 600) + number(2, 5), (begin + end) * (most + 1)) == [
        (5,),
        too_many,
    ]
