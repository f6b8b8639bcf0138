"""The core's records of messages beside the plain code's: equal columns, batches and bad messages for any bytes."""

from __future__ import annotations

import gzip
import struct
from functools import partial
from typing import Any, Literal, NamedTuple
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tubeclient.inlong.packs import (
    GROUPS,
    OWN_GROUPS,
    Group,
    OwnRecord,
    encode_bin_pack,
    encode_groups,
    encode_message_objs,
)
from tests.wire.fuzz import FUZZ, damaged
from tubeclient.core import CORE
from tubeclient.inlong import RecordColumns, RecordDecoder
from tubeclient.inlong.packs import LENGTH, Limits

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

ORIGIN = {"groupId": "g", "streamId": "s", "dt": "1700000000123"}
DATAPROXYS = {"inlongGroupId": "og", "inlongStreamId": "os", "msgTime": "1700000000123"}
KEYS = st.sampled_from(["k", "streamId", "ü", "dt", "t", "sourceIp", ""])
VALUES = st.sampled_from(["", "w", "ü", "20240102", "x=y", "1700000000123", " 2024010203", "soon"])
BODIES = st.lists(st.sampled_from([b"", b"x", b"xyz" * 20]), max_size=4)
TOO_LATE = (1 << 63) // 1000
TIMES_MS = st.sampled_from([0, 1_700_000_000_123, -5, TOO_LATE, 1 - TOO_LATE, -(1 << 63)])


class Sent(NamedTuple):
    body: bytes
    attributes: dict[str, str]


def some(usual: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """Attributes, mostly those that are asked for."""
    more = st.dictionaries(KEYS.filter(bool), VALUES, max_size=2)
    return st.builds(lambda more, usual: usual | more, more, st.sampled_from([usual, usual, usual, {}]))


@st.composite
def a_group(draw: st.DrawFn) -> Group:
    bodies = draw(BODIES)
    own = [draw(st.dictionaries(KEYS.filter(bool), VALUES, max_size=2)) for _ in bodies]
    return Group(draw(some(ORIGIN)), bodies, own)


@st.composite
def packs(draw: st.DrawFn) -> bytes:
    """InLongMsg of all versions."""
    version, snappy = draw(st.sampled_from([1, 2, 3, 4])), draw(st.booleans())
    if version < 4:
        groups = draw(st.lists(a_group(), max_size=3) | (OWN_GROUPS if version == 3 else GROUPS))
        return encode_groups(groups, version, snappy=snappy)  # type: ignore[arg-type]
    one, numbers = draw(a_group()), draw(st.none() | st.tuples(st.integers(0, 65535), st.integers(0, 65535)))
    records: Any = [OwnRecord(*own) for own in zip(one.bodies, one.own, strict=True)]
    records = draw(st.sampled_from([records, one.bodies]))
    seconds = draw(st.integers(0, (1 << 32) - 1))
    return encode_bin_pack(records, one.attributes, data_time_s=seconds, numbers=numbers, snappy=snappy)


@st.composite
def objects(draw: st.DrawFn) -> Sent:
    """A protobuf pack. Most attributes of its message name its compression."""
    records = [OwnRecord(body, draw(st.dictionaries(KEYS, VALUES, max_size=2))) for body in draw(BODIES)]
    compression: Any = draw(st.sampled_from(["none", "gzip", "snappy"]))
    pack = encode_message_objs(
        records, [draw(TIMES_MS) for _ in records], compression, draw(st.sampled_from(["", "ip"]))
    )
    names = {"none": ["0", "NONE"], "gzip": ["1", "INLONG_GZ"], "snappy": ["2", "INLONG_SNAPPY"]}
    compressions = [*names[compression] * 3, "1", "lz4"]
    own = draw(st.sampled_from([DATAPROXYS, DATAPROXYS, {"inlongGroupId": "og"}]))
    attributes = {**own, "version": "1", "compressType": draw(st.sampled_from(compressions))}
    return Sent(draw(st.just(pack) | damaged(st.just(pack))), attributes)


OUTER: st.SearchStrategy[dict[str, str]] = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()},
    st.sampled_from([{}, DATAPROXYS, DATAPROXYS, {"inlongStreamId": "os"}]),
    st.sampled_from([{}, {}, {"msgTime": "soon"}]),
    st.sampled_from(
        [{}, {}, {"version": "2"}, {"version": "0"}, {"msgEnType": "2"}, {"msgEnType": "0"}, {"version": "3"}]
    ),
)
SENT = st.one_of(
    st.builds(Sent, packs(), st.sampled_from([{}, DATAPROXYS, {**DATAPROXYS, "msgEnType": "2"}])),
    st.builds(Sent, packs() | damaged(packs()) | st.binary(max_size=9), OUTER),
    objects(),
)


def columns(sent: list[Sent], decoder: RecordDecoder) -> Any:
    """All that is known of the records of each batch."""
    batches = decoder.decode([one.body for one in sent], [one.attributes for one in sent], range(len(sent)))
    return [(*map(listed, (*one[:6], one.attribute_maps())), one.bad) for one in batches]


def listed(column: pa.Array) -> list[Any]:
    column.validate(full=True)
    return list(column.to_pylist())


def plain(sent: list[Sent], decoder: RecordDecoder) -> Any:
    with patch("tubeclient.inlong.records.CORE", None):
        return columns(sent, decoder)


def raw_pack(text: bytes, block: bytes, packing: int = 0, version: int = 1) -> bytes:
    """One group with this text of attributes and this block."""
    magic = bytes([15, version])
    head = magic + bytes(8 if version == 1 else 12) + LENGTH.pack(1) + struct.pack(">H", len(text)) + text
    return head + LENGTH.pack(len(block) + 1) + bytes([packing]) + block + magic


def entries(*bodies: bytes) -> bytes:
    return b"".join(LENGTH.pack(len(body)) + body for body in bodies)


NAMES = b"groupId=g&streamId=s&"
RECORD = entries(b"x")
SNAPPY = pa.compress(RECORD, codec="snappy", asbytes=True)
PAIRS = entries(b"x", b"a=1&dt=5", b"y", b"a=2&groupId=h")
MANY = b"&".join(b"k%d=" % number for number in range(70))
OBJECT = encode_message_objs([OwnRecord(b"a", {"k": "v", "l": ""})], [5], "none", "ip")
FIELDS = [
    bytes.fromhex(one)
    for one in ("0805", "12026970", "1a0161", "22050a016b1200", "2800", "2200", "1000", "0806", "120131", "1a0162")
]
BINARY = encode_bin_pack([b"x" * 9], ORIGIN, data_time_s=1, snappy=False)
GZIP = gzip.compress(OBJECT, mtime=0)
NAMED_GZIP = GZIP[:3] + b"\x08" + GZIP[4:10] + b"name\0" + GZIP[10:]


def object_of(*numbers: int) -> bytes:
    fields = b"".join(FIELDS[number] for number in numbers)
    return bytes([0x0A, len(fields)]) + fields


def odd_objects(compression: str, *bodies: bytes) -> list[Sent]:
    return [Sent(body, {**DATAPROXYS, "version": "1", "compressType": compression}) for body in bodies]


ODD = [
    *(
        Sent(raw_pack(NAMES + text, RECORD), {})
        for text in (b"dt=5&dt=6", b"dt=+5", b"dt= 5", b"dt=-7", b"dt=9223372036854776", b"dt=-9223372036854775808")
    ),
    *(
        Sent(raw_pack(NAMES + text, RECORD), {})
        for text in (b"t=20240102&dt=soon", b"t=soon", b"k", b"k=\xc0\x80", b"k=\xed\xa0\x80", b"&&k==&", MANY)
    ),
    Sent(raw_pack(b"groupId=g", RECORD), {}),
    *(Sent(raw_pack(NAMES, block), {}) for block in (b"", RECORD[:-1], RECORD * 2)),
    *(
        Sent(raw_pack(NAMES, block, 1), {})
        for block in (b"", b"\0", b"\0\0", b"\xff\xff\xff\xff\x0f\0", b"\x80\x80\x40abc")
    ),
    *(Sent(raw_pack(NAMES, block, 1), {}) for block in (SNAPPY, SNAPPY[:-1], b"\xff\xff\xff\x1f" + b"\xfe\0\0" * 20)),
    Sent(raw_pack(NAMES, SNAPPY, 2), {}),
    Sent(raw_pack(NAMES, RECORD)[:-2] + b"more\x0f\x01", {}),
    Sent(raw_pack(NAMES, RECORD)[:-1] + b"\2", {}),
    *(
        Sent(raw_pack(NAMES, block, 0, 3), {})
        for block in (entries(PAIRS, b"", PAIRS), entries(PAIRS[:-1]), entries(PAIRS + RECORD), entries(b"", b"", b""))
    ),
    *(Sent(raw_pack(NAMES, entries(entries(b"x", text)), 0, 3), {}) for text in (b"k=\xff", MANY, b"k", b"t=20240102")),
    *(
        Sent(encode_bin_pack([OwnRecord(b"x", own)], common, data_time_s=1, numbers=numbers), outer)
        for own in ({"dt": "7", "k": "own"}, {"t": "20240102", "groupId": "own"})
        for common in (ORIGIN | {"k": "common"}, {})
        for numbers in (None, (7, 8))
        for outer in ({}, DATAPROXYS)
    ),
    *odd_objects(
        "1", GZIP, NAMED_GZIP, GZIP + GZIP, GZIP[:-1], GZIP[:-4] + b"\0\0\0\0", GZIP[:-8] + bytes(8), b"", GZIP + b"x"
    ),
    *odd_objects(
        "1", gzip.compress(b""), gzip.compress(bytes(1 << 20)), gzip.compress(bytes(1 << 20))[:-4] + LENGTH.pack(0)
    ),
    *odd_objects("2", b"", b"\0", b"\0\0", b"\xff\xff\xff\xff\x07abc"),
    *odd_objects("0", b"", OBJECT, OBJECT * 3, OBJECT[:-1], b"\x0a\0", b"\x0b\x0c", b"\x10\x05" + OBJECT, b"\x08\x05"),
    *odd_objects(
        "0", *(object_of(*numbers) for numbers in [(0, 1, 2), (2, 0, 1, 3), (3, 1, 0, 2), (0, 1), (0, 2), (1, 2)])
    ),
    *odd_objects("0", *(object_of(0, 1, 2, *more) for more in [(4,), (5, 3), (6,), (7,), (8,), (9,), (3,) * 9])),
    *odd_objects("0", encode_message_objs([OwnRecord(b"", {})] * 9, [5] * 9, "none")),
    *odd_objects(
        "0", *(encode_message_objs([OwnRecord(b"", {})], [at], "none") for at in (TOO_LATE, TOO_LATE - 1, -TOO_LATE))
    ),
    Sent(encode_groups([Group({**ORIGIN, "ü": "ü"}, [b"x"] * 3, [])] * 2, 1, snappy=False), {}),
    Sent(raw_pack(NAMES, bytes(40), 0, 3), {}),
    *(
        Sent(BINARY.replace(*change), {})
        for change in ((b"\xee\1", b"\xee\2"), (b"\x0f\4\0", b"\x0f\4\1"), (b"x" * 9, b"x" * 8))
    ),
    Sent(encode_bin_pack([OwnRecord(b"x", {"k": "v"})] * 4, ORIGIN, data_time_s=1), {}),
    Sent(b"row", {"version": "2"}),
    Sent(raw_pack(NAMES, RECORD), {"version": "0"}),
    Sent(raw_pack(NAMES + b"dt=" + b"0" * 5_000, RECORD), {}),
    *(Sent(b"row", {**DATAPROXYS, "msgEnType": "0", "msgTime": time}) for time in ("+5", "soon", str(TOO_LATE))),
]
LIMITS = st.sampled_from(
    [Limits(), Limits(), Limits(max_bytes=30), Limits(max_records=3), Limits(max_repeated_bytes=60)]
)


@given(
    st.lists(SENT | st.integers(0, len(ODD) - 1).map(ODD.__getitem__), max_size=5),
    st.sampled_from(["inlong", "auto"]),
    LIMITS,
    st.sampled_from([1, 200, 32 << 20]),
)
@example(ODD, "inlong", Limits(), 200)
@example(ODD[::-1], "auto", Limits(max_bytes=1000), 32 << 20)
@FUZZ
def test_any_messages_as_columns(sent: list[Sent], payload: Any, limits: Limits, batch_bytes: int) -> None:
    """Core and plain code give the same columns and bad messages for any messages."""
    decoder = RecordDecoder(payload, zone=ZoneInfo("Asia/Kolkata"), limits=limits, batch_bytes=batch_bytes)
    assert columns(sent, decoder) == plain(sent, decoder)


@pytest.mark.parametrize("name", ["max_bytes", "max_records", "max_repeated_bytes"])
@pytest.mark.parametrize("payload", ["inlong", "auto"])
def test_odd_messages_at_each_limit(payload: Any, name: str) -> None:
    for most in range(6 if name == "max_records" else 100):
        decoder = RecordDecoder(payload, limits=Limits(**{name: most}))
        assert columns(ODD, decoder) == plain(ODD, decoder)


VERSIONS: list[Literal[1, 2, 3]] = [1, 2, 3]
GROUP = Group({**ORIGIN, "t": "20240102"}, [b"a", b"b"], [{"k": "v"}, {"k": "w"}])
OBJECTS = [OwnRecord(b"a", {"k": "v"}), OwnRecord(b"b", {})]
USUAL = [
    *(
        Sent(encode_groups([GROUP, GROUP], version, snappy=snappy), {})
        for version in VERSIONS
        for snappy in (True, False)
    ),
    Sent(encode_bin_pack([b"a", b"b"], ORIGIN, data_time_s=7), {}),
    Sent(encode_bin_pack(OBJECTS, {}, data_time_s=7, numbers=(1, 2)), DATAPROXYS),
    Sent(b"single", {"msgEnType": "0", **DATAPROXYS}),
    *odd_objects("0", encode_message_objs(OBJECTS, [5, 6], "none")),
    *odd_objects("INLONG_GZ", encode_message_objs(OBJECTS, [5, 6], "gzip", "ip")),
    *odd_objects("2", encode_message_objs(OBJECTS, [5, 6], "snappy", "ip")),
]


def test_plain_code_gets_only_unusual_messages() -> None:
    """The core decodes all usual messages and leaves only the others to the plain code."""
    bad = Sent(b"no pack", {})
    sent = [bad, *USUAL, bad, *USUAL]
    asked = []
    plainly = RecordDecoder._segments_of

    def held(self: RecordDecoder, body: bytes, *more: Any) -> Any:
        asked.append(body)
        return plainly(self, body, *more)

    with patch.object(RecordDecoder, "_segments_of", held):
        [found] = RecordDecoder().decode([one.body for one in sent], [one.attributes for one in sent])
    assert asked == [bad.body] * 2
    assert [one.number for one in found.bad] == [0, 1 + len(USUAL)]
    assert len(found.bodies) == 2 * (6 * 4 + 2 + 2 + 1 + 3 * 2)


def test_groups_without_records_take_nothing() -> None:
    """A group is seven bytes, and has the names of its message: no limit would hold columns of them."""
    assert CORE is not None
    sent: list[Any] = [(raw_pack(b"", b""), DATAPROXYS, 0), (raw_pack(b"dt= 5", b""), DATAPROXYS, 0)]
    decoder = RecordDecoder()
    plain = partial(decoder._segments_for_core, sent, [])
    found = CORE.take_records(sent, 0, False, (99, 9, 9, 9), decoder._time_ms, plain)
    assert [pa.record_batch(one).num_rows for one in found[1:]] == [0, 0]


def test_an_error_that_is_not_the_messages_ends_all() -> None:
    sent = [Sent(encode_groups([GROUP], 1), {}), Sent(b"no pack", {})]
    for broken in ("_time_ms", "_segments_for_core"):
        with patch.object(RecordDecoder, broken, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            columns(sent, RecordDecoder())


def test_messages_without_attributes() -> None:
    """The decoder refuses messages that have no attributes of their own."""
    with pytest.raises(ValueError, match="shorter"):
        RecordDecoder().decode([b"a", b"b"], [{}])


def test_no_messages_give_no_columns() -> None:
    found: list[RecordColumns] = list(RecordDecoder().decode([], []))
    assert found == []
