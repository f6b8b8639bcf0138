"""Frames: golden bytes, every cut, limits, and whatever a peer may send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, chunks_of, damaged
from tubeclient.errors import ProtocolError
from tubeclient.wire.framing import BLOCK_BYTES, MAX_BLOCKS, MAX_STREAM_BYTES, Frame, FrameDecoder, encode_frame

TOKEN = bytes.fromhex("FF7FF4FE")
MOST_BUFFERED = MAX_STREAM_BYTES + 12 + 4 * MAX_BLOCKS


def frame_of(serial: int, *blocks: bytes) -> bytes:
    """A frame with these blocks, written without the code under test."""
    head = TOKEN + serial.to_bytes(4, "big", signed=True) + len(blocks).to_bytes(4, "big")
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


serials = st.integers(-(1 << 31), (1 << 31) - 1)
block_lists = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5)
frames = st.builds(lambda serial, blocks: frame_of(serial, *blocks), serials, block_lists)
streams_of_frames = st.lists(frames, min_size=1, max_size=3).map(b"".join)


@pytest.mark.parametrize("lengths", [[1], [8192], [8192, 1], [8192, 8192, 3616]])
def test_streams_are_cut_into_blocks_of_8192_bytes(lengths: list[int]) -> None:
    stream = bytes(index * 7 % 251 for index in range(sum(lengths)))
    blocks = [stream[8192 * number : 8192 * (number + 1)] for number in range(len(lengths))]
    assert encode_frame(5, stream) == frame_of(5, *blocks)


def test_the_largest_stream_goes_through() -> None:
    stream = bytes(range(256)) * (MAX_STREAM_BYTES // 256)
    encoded = encode_frame(1, stream)
    assert struct.unpack_from(">I", encoded, 8) == (MAX_BLOCKS,)
    decoder = FrameDecoder()
    assert decoder.feed(encoded[:-1]) == []
    assert decoder._end == MOST_BUFFERED - 1
    assert decoder.feed(encoded[-1:]) == [Frame(1, stream)]
    assert decoder._end == 0


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP",
        bytes.fromhex("FF7FF4FF"),
        TOKEN + bytes.fromhex("00000001 00000000"),
        TOKEN + bytes.fromhex("00000001 00000E01"),  # 3585 blocks
        TOKEN + bytes.fromhex("00000001 00000001 00000000"),
        TOKEN + bytes.fromhex("00000001 00000001 01C00001"),  # 28 MiB + 1
        TOKEN + bytes.fromhex("00000001 00000002 00000001 61 01C00000"),  # 28 MiB and the one before
    ],
)
def test_impossible_frames(data: bytes) -> None:
    """The decoder refuses bytes that cannot become a frame as soon as it sees them."""
    decoder = FrameDecoder()
    assert decoder.feed(data[:-1]) == []
    with pytest.raises(ProtocolError):
        decoder.feed(data[-1:])


lengths_of_blocks = st.sampled_from([BLOCK_BYTES, BLOCK_BYTES, BLOCK_BYTES, 1, BLOCK_BYTES - 1, BLOCK_BYTES + 1, 256])


@given(st.lists(lengths_of_blocks, min_size=1, max_size=12), st.data())
@FUZZ
def test_blocks_of_any_length_in_any_pieces(lengths: list[int], data: st.DataObject) -> None:
    blocks = [bytes([number + 1]) * length for number, length in enumerate(lengths)]
    stream = b"".join(blocks)
    whole = frame_of(1, b"before") + frame_of(7, *blocks) + frame_of(2, b"behind")
    decoder = FrameDecoder()
    found = [frame for piece in data.draw(chunks_of(whole)) for frame in decoder.feed(piece)]
    assert found == [Frame(1, b"before"), Frame(7, stream), Frame(2, b"behind")]


def feed_all(pieces: list[bytes]) -> tuple[list[Frame], bool]:
    """The frames of these pieces, and whether they ended in a ProtocolError; any other exception goes through."""
    decoder = FrameDecoder()
    found: list[Frame] = []
    for piece in pieces:
        try:
            found += decoder.feed(piece)
        except ProtocolError:
            return found, True
        assert decoder._end <= MOST_BUFFERED
    return found, False


@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(TOKEN.__add__), damaged(streams_of_frames)), st.data()
)
@FUZZ
def test_any_bytes_in_any_pieces(whole: bytes, data: st.DataObject) -> None:
    """Any bytes in any pieces give frames or a protocol error."""
    by_byte, failed_by_byte = feed_all([whole[at : at + 1] for at in range(len(whole))])
    found, failed = feed_all(data.draw(chunks_of(whole)))
    assert failed == failed_by_byte
    # A piece that ends in an error takes the frames completed in the same piece with it; none is ever made up.
    assert found == by_byte[: len(found)]
    assert failed or found == by_byte
