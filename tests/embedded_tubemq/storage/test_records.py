"""The layout of records and index entries, against the layouts' description and against protobuf."""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.broker.answer_bytes import Pieces, encode_fetch_answer, encode_response, frame_pieces
from embedded_tubemq.storage.records import (
    HEADER_BYTES,
    INDEX_DTYPE,
    Record,
    decode_record,
    encode_index_entry,
    encode_record,
    wire_checksum,
)
from tubeclient.errors import ProtocolError
from tubeclient.wire import envelope
from tubeclient.wire.framing import MAX_STREAM_BYTES, encode_frame
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
    answer = encode_fetch_answer(wire + wire, start=28, max_offset=84, data_lag=5, slow=True)
    data = answer.joined()
    assert len(data) == answer.size
    parsed = broker_pb2.GetMessageResponseB2C.FromString(data)
    assert (parsed.success, parsed.errCode, parsed.currOffset, parsed.maxOffset) == (True, 200, 28, 84)
    assert (parsed.currDataDlt, parsed.requireSlow, parsed.escFlowCtrl) == (5, True, False)
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


@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from([1, 17, 200]))
def test_answers_in_pieces_are_the_same_bytes_as_the_clients_own_encoding(
    head: bytes, rest: bytes, method_id: int
) -> None:
    stream = encode_response(method_id, Pieces(head, memoryview(rest)))
    assert stream.joined() == envelope.encode_response(method_id, head + rest)
    assert envelope.decode_response(stream.joined(), method_id) == head + rest


@pytest.mark.parametrize("head", [1, 100, 8191, 8192, 8193])
@pytest.mark.parametrize("total", [8194, 32768, 32769, 40_960, 40_961, 49_152, 500_001])
def test_frames_in_pieces_are_the_same_bytes_as_the_clients_own_encoding(head: int, total: int) -> None:
    stream = random.Random(total).randbytes(total)
    pieces = frame_pieces(77, Pieces(stream[:head], stream[head:]))
    assert b"".join(pieces) == encode_frame(77, stream)


def test_frames_in_pieces_keep_to_the_limit_of_frames() -> None:
    whole = bytes(MAX_STREAM_BYTES)
    assert b"".join(frame_pieces(1, Pieces(b"\0", whole[1:]))) == encode_frame(1, whole)
    with pytest.raises(ProtocolError):
        frame_pieces(1, Pieces(b"\0", whole))
