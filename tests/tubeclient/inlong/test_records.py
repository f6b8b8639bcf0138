"""Any bytes give records or one error; packs give what was put into them."""

from __future__ import annotations

import contextlib
import tracemalloc
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.inlong.packs import GROUPS, Group, OwnRecord, encode_bin_pack, encode_groups, encode_message_objs
from tubeclient.errors import ConfigurationError, CorruptMessage
from tubeclient.inlong import Limits, Origin, RecordDecoder, RecordGroup, encode_pack, records_of
from tubeclient.inlong.packs import LENGTH

ATTRIBUTES = {"groupId": "g", "streamId": "s", "dt": "1700000000000"}
ORIGIN = Origin("g", "s", 1_700_000_000_000)
OBJECTS = {"version": "1", "inlongGroupId": "g", "inlongStreamId": "s"}


def a_pack(version: int = 1, bodies: tuple[bytes, ...] = (b"one", b"", b"three"), **options: Any) -> bytes:
    """A pack of one group, of any version."""
    if version == 4:
        return encode_bin_pack(bodies, ATTRIBUTES, data_time_s=1_700_000_000, **options)
    own = [{"n": str(n)} for n in range(len(bodies))]
    return encode_groups([Group(ATTRIBUTES, list(bodies), own)], version, **options)  # type: ignore[arg-type]


def reason(message: bytes, attributes: dict[str, str] | None = None, decoder: RecordDecoder | None = None) -> str:
    with pytest.raises(CorruptMessage) as caught:
        records_of(message, attributes or {}, decoder)
    return str(caught.value)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("snappy", [True, False])
def test_records_have_their_place_and_origin(version: int, snappy: bool) -> None:
    found = [(one.body, one.record_index, one.origin) for one in records_of(a_pack(version, snappy=snappy), {})]
    assert found == [(b"one", 0, ORIGIN), (b"", 1, ORIGIN), (b"three", 2, ORIGIN)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_protobuf_packs(compression: Any) -> None:
    pack = encode_message_objs([OwnRecord(b"a", {"k": "v"}), OwnRecord(b"", {})], [5, 6], compression, "10.0.0.1")
    number = {"none": "0", "gzip": "1", "snappy": "2"}[compression]
    name = {"none": "NONE", "gzip": "INLONG_GZ", "snappy": "INLONG_SNAPPY"}[compression]
    for text in (number, name):
        first, second = records_of(pack, {**OBJECTS, "compressType": text})
        assert (first.body, first.origin) == (b"a", Origin("g", "s", 5))
        assert first.attributes == {"k": "v", "sourceIp": "10.0.0.1"}
        assert (second.body, second.origin, second.record_index) == (b"", Origin("g", "s", 6), 1)


@given(GROUPS, st.sampled_from([1, 2]), st.booleans())
def test_groups_with_equal_attributes_lose_nothing(groups: list[Group], version: Any, snappy: bool) -> None:
    # Apache's parser keeps the last of them only.
    found = records_of(encode_groups([*groups, *groups], version, snappy=snappy), {})
    assert [one.body for one in found] == [body for group in [*groups, *groups] for body in group.bodies]
    assert [one.record_index for one in found] == list(range(len(found)))


@given(
    st.binary(max_size=80)
    | st.tuples(st.integers(1, 4), st.binary(max_size=80)).map(lambda p: bytes([15, p[0]]) + p[1] + bytes([15, p[0]])),
    st.sampled_from([{}, {**OBJECTS, "compressType": "1"}, {**OBJECTS, "compressType": "2"}, OBJECTS]),
)
def test_any_bytes_give_records_or_one_error(message: bytes, attributes: dict[str, str]) -> None:
    with contextlib.suppress(CorruptMessage):
        records_of(message, attributes)


@given(st.data(), st.integers(1, 4), st.booleans())
def test_pack_with_changed_byte(data: st.DataObject, version: int, snappy: bool) -> None:
    """A pack with any byte changed gives records or one error."""
    whole = bytearray(a_pack(version, snappy=snappy))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    test_any_bytes_give_records_or_one_error.hypothesis.inner_test(bytes(whole), {})  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_truncated_pack(version: int) -> None:
    """A truncated pack is bad, wherever it ends."""
    whole = a_pack(version, snappy=False)
    for length in range(4, len(whole) - 2):
        reason(whole[:length] + whole[-2:])


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\x0f\x05abc\x0f\x05", "does not begin and end"),
        (b"\x0f\x01\x0f\x01", "the pack's head is cut off"),
        (
            a_pack(snappy=False).replace(b"\0\0\0\x05three", b"\0\0\0\x06three"),
            "record of 6 bytes at byte 11; 5 are left",
        ),
        (a_pack(bodies=(), snappy=False).replace(b"\0\0\0\x01\0\x0f", b"\0\0\0\x01\x07\x0f"), "uses compression 7"),
        (a_pack(4).replace(b"\xee\x01", b"\xee\x02"), "its end is not EE01"),
        (a_pack(3, (b"x",), snappy=False).replace(b"\0\0\0\x03n=0", b""), "group"),
    ],
)
def test_what_is_wrong_and_where(message: bytes, said: str) -> None:
    assert said in reason(message)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (b"\xff\xff\xff\xff\x07abc", "claims to unpack to 2147483647 bytes; the limit is"),
        (b"\x80\x80\x40abc", "too few for the"),
        (b"\x05abc", "is damaged"),
        (b"", "does not start with its unpacked length"),
    ],
)
def test_a_snappy_block_that_lies_takes_no_memory(block: bytes, said: str) -> None:
    head = a_pack(bodies=(), snappy=False)
    at = head.rindex(b"\0\0\0\x01\0\x0f\x01")
    message = head[:at] + LENGTH.pack(len(block) + 1) + b"\x01" + block + head[-2:]
    tracemalloc.start()
    try:
        assert said in reason(message)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_bombs_end_at_the_limits() -> None:
    limits = RecordDecoder(limits=Limits(max_bytes=1000, max_records=50))
    many = [OwnRecord(b"", {})] * 51
    objects = {**OBJECTS, "compressType": "1"}
    assert "more than 1000 bytes" in reason(
        encode_message_objs([OwnRecord(b"x" * 2000, {})], [1], "gzip"), objects, limits
    )
    assert "more than 50 records" in reason(encode_message_objs(many, [1] * 51, "gzip"), objects, limits)
    assert "more than 50 entries" in reason(a_pack(bodies=(b"",) * 51), None, limits)
    assert "the limit is 1000" in reason(a_pack(bodies=(b"x" * 1000,)), None, limits)
    two = encode_pack([RecordGroup(ATTRIBUTES, [b"x" * 600])] * 2, made_ms=5)
    assert "the limit is" in reason(two, None, limits)
    assert len(records_of(a_pack(bodies=(b"",) * 50), {}, limits)) == 50


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"streamId": "s", "dt": "1"}, "lack groupId"),
        ({"groupId": "g", "dt": "1"}, "lack streamId"),
        ({**ATTRIBUTES, "dt": "soon"}, "the time dt is not a number of milliseconds"),
        ({**ATTRIBUTES, "dt": "9" * 18}, "too large for a timestamp"),
        ({**ATTRIBUTES, "t": "2026"}, "the time t is not yyyyMMdd"),
        ({**ATTRIBUTES, "t": "20261399"}, "not yyyyMMdd"),
    ],
)
def test_attributes_that_say_too_little(attributes: dict[str, str], said: str) -> None:
    assert said in reason(encode_pack([RecordGroup(attributes, [b"x"])], made_ms=5))


def test_short_reason_for_long_attributes() -> None:
    """The reason for a bad pack is short, however long the attributes are."""
    assert len(reason(encode_pack([RecordGroup({"k" * 60_000: ""}, [b"x"])], made_ms=5))) < 300


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("202611221", datetime(2026, 11, 22)),
        ("2026112213", datetime(2026, 11, 22, 13)),
        (" 20261122134559 ", datetime(2026, 11, 22, 13, 45)),
    ],
)
def test_text_time_before_dt(text: str, time: datetime) -> None:
    """A time written as text is read in the decoder's zone and takes precedence over dt."""
    pack = encode_pack([RecordGroup({**ATTRIBUTES, "t": text}, [b"x"])], made_ms=5)
    for zone in (UTC, ZoneInfo("Asia/Shanghai")):
        [found] = records_of(pack, {}, RecordDecoder(zone=zone))
        assert found.origin.data_time_ms == int(time.replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    "attributes", [{"a": "b&c"}, {"a=b": "c"}, {"": "x"}, {"a": "x" * 70000}], ids=["amp", "equals", "empty", "long"]
)
def test_attributes_that_cannot_round_trip(attributes: dict[str, str]) -> None:
    """The encoder refuses attributes that would not decode to the same ones."""
    with pytest.raises(ConfigurationError):
        encode_pack([RecordGroup(attributes, [b"x"])], made_ms=5)


def test_columns_of_good_and_bad_messages_together() -> None:
    good, bad = a_pack(), b"\x0f\x01 cut off \x0f\x01"
    raw = b"just a row"
    decoder = RecordDecoder("auto", batch_bytes=1)
    batches = list(decoder.decode([good, bad, raw, good], [{}] * 4))
    assert [batch.message_numbers.to_pylist() for batch in batches] == [[0, 0, 0], [2], [3, 3, 3]]
    assert [batch.record_indexes.to_pylist() for batch in batches] == [[0, 1, 2], [0], [0, 1, 2]]
    assert [one.number for batch in batches for one in batch.bad] == [1]
    [whole] = RecordDecoder("auto").decode([good, bad, raw, good], [{}] * 4)
    assert whole.bodies.to_pylist() == [b"one", b"", b"three", raw, b"one", b"", b"three"]
    assert whole.stream_ids.to_pylist() == ["s"] * 3 + [None] + ["s"] * 3
    assert whole.data_times_ms.to_pylist() == [1_700_000_000_000] * 3 + [None] + [1_700_000_000_000] * 3


@pytest.mark.parametrize(
    ("attributes", "body", "kind"),
    [
        ({}, b"row", "raw"),
        ({"version": "1"}, b"row", "raw"),
        ({"version": "1", "inlongGroupId": "g", "inlongStreamId": "s"}, b"", "objects"),
        ({"msgEnType": "0"}, a_pack(), "raw"),
        ({}, a_pack(), "pack"),
        ({"msgEnType": "2"}, a_pack(), "pack"),
    ],
)
def test_auto_trusts_attributes_then_magic(attributes: dict[str, str], body: bytes, kind: str) -> None:
    """Auto detection trusts DataProxy's attributes first and the pack's magic bytes second."""
    found = records_of(body, attributes, RecordDecoder("auto"))
    assert [one.body for one in found] == {"raw": [body], "pack": [b"one", b"", b"three"], "objects": []}[kind]


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (encode_message_objs([OwnRecord(b"a", {})], [(1 << 63) - 1], "none"), "too large for a timestamp"),
        (b"\x0a\x0e\x08\x05\x12\x00\x1a\x00\x22\x06\x0a\x01\xff\x12\x01v", "not UTF-8"),
        (b"\x0a\x02\x08\x05", "cannot be parsed"),
    ],
)
def test_what_is_wrong_with_a_protobuf_pack(pack: bytes, said: str) -> None:
    assert said in reason(pack, OBJECTS)


def test_records_are_counted_over_all_of_a_pack() -> None:
    limits = RecordDecoder(limits=Limits(max_records=10))
    two = [Group(ATTRIBUTES, [b"x"] * 6, [{"n": "0"}] * 6)] * 2
    assert "too many records" in reason(encode_groups(two, 3), None, limits)
    # Java writes several records as one entry.
    pair = LENGTH.pack(1) + b"x" + LENGTH.pack(3) + b"n=0"
    block = (LENGTH.pack(len(pair) * 6) + pair * 6) * 2
    empty = a_pack(3, (), snappy=False)
    at = empty.rindex(LENGTH.pack(1) + b"\0\x0f\x03")
    several = empty[:at] + LENGTH.pack(len(block) + 1) + b"\0" + block + empty[-2:]
    assert "too many records" in reason(several, None, limits)
    assert len(records_of(several, {})) == 12


@pytest.mark.parametrize("version", [1, 3, 4])
def test_few_bytes_cannot_become_columns_without_end(version: int) -> None:
    """A block unpacks to many records, and each has the attributes that its pack has once."""
    common, bodies = {**ATTRIBUTES, "groupId": "g" * 1_000}, [b""] * 1_000
    if version == 4:
        pack = encode_bin_pack(bodies, common, data_time_s=1)
    else:
        pack = encode_groups([Group(common, bodies, [{}] * 1_000)], version)  # type: ignore[arg-type]
    assert len(pack) < 5_000
    limits = RecordDecoder(limits=Limits(max_repeated_bytes=1_000_000))
    assert "would take more than 1000000 bytes" in reason(pack, {}, limits)
    assert len(records_of(pack, {}, RecordDecoder(limits=Limits(max_repeated_bytes=3_000_000)))) == 1_000
