"""The layout of records and index entries, against the layouts' description and against protobuf."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.storage.records import (
    HEADER_BYTES,
    INDEX_DTYPE,
    Record,
    decode_record,
    encode_index_entry,
    encode_record,
    wire_checksum,
)
from tubeclient.wire.proto import broker_pb2

SIGNED_32 = st.integers(-(1 << 31), (1 << 31) - 1)
RECORDS = st.builds(
    Record,
    partition_id=st.integers(0, 10_000_000),
    index_offset=st.integers(0, 1 << 40).map(lambda n: n * 28),
    received_ms=st.integers(0, 1 << 50),
    sender_ip=SIGNED_32,
    tag_hash=SIGNED_32,
    message_id=st.integers(0, (1 << 63) - 1),
    flag=SIGNED_32,
    payload=st.binary(min_size=1, max_size=300),
)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    data = encode_record(record)
    assert len(data) == record.size
    assert decode_record(data) == record
    assert decode_record(b"before" + data + b"behind", 6) == record


@given(RECORDS)
def test_the_wire_part_is_a_message_of_a_fetch_answer(record: Record) -> None:
    wire = encode_record(record)[HEADER_BYTES:]
    around = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="OK!").SerializeToString()
    parsed = broker_pb2.GetMessageResponseB2C.FromString(around + wire + wire)
    assert len(parsed.messages) == 2
    for message in parsed.messages:
        assert message.messageId == record.message_id
        assert message.flag == record.flag
        assert message.payLoadData == record.payload
        assert message.checkSum == zlib.crc32(record.payload) & 0x7FFFFFFF == wire_checksum(wire)


def test_the_header_is_laid_out_as_tubemqs() -> None:
    record = Record(10_003, 28, 1_700_000_000_123, 0x7F000001, -1, 1 << 62, 1, b"payload")
    header = encode_record(record)[:HEADER_BYTES]
    crc = zlib.crc32(b"payload") & 0x7FFFFFFF
    expected = (48 + 7, 0x02C998B8, crc, 10_003, 28, 1_700_000_000_123, 0x7F000001, -1, 1 << 62, 1)
    assert struct.unpack(">iIiiqqiiqi", header) == expected
    assert HEADER_BYTES == 52


def test_an_index_entry_is_28_bytes_and_reads_the_same_with_numpy() -> None:
    record = Record(10_003, 28, 1_700_000_000_123, 0, -7, 1, 0, b"payload")
    data = encode_index_entry(record, 5000)
    assert struct.unpack(">iqiiq", data) == (10_003, 5000, record.size, -7, 1_700_000_000_123)
    assert np.frombuffer(data, INDEX_DTYPE)[0].tolist() == (10_003, 5000, record.size, -7, 1_700_000_000_123)


@given(RECORDS, st.data())
def test_a_damaged_record_is_no_record(record: Record, data: st.DataObject) -> None:
    whole = encode_record(record)
    assert decode_record(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    # The payload, the magic number and the checksum are guarded, not every byte of the header.
    where = data.draw(st.sampled_from([*range(4, 12), *range(len(whole) - len(record.payload), len(whole))]))
    damaged = bytearray(whole)
    damaged[where] ^= data.draw(st.integers(1, 255))
    assert decode_record(bytes(damaged)) is None
