"""Generated packs, and encoders of what only Apache's clients write."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.inlong.attributes import attribute_text, write_java_text
from tubeclient.inlong.packs import (
    END_MARK,
    HEAD,
    HEADS,
    LENGTH,
    MAGIC,
    NAMES_NOT_NUMBERS,
    OWN_ATTRIBUTES,
    TEXT_LENGTH,
)
from tubeclient.wire.proto import inlong_pb2

__all__ = [
    "GROUPS",
    "OWN_GROUPS",
    "Group",
    "OwnRecord",
    "attribute_maps",
    "encode_bin_pack",
    "encode_groups",
    "encode_message_objs",
]

# What Java's `=` and `&` split texts can hold: anything but these two, and no half of a surrogate pair.
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="=&"), max_size=12)
_KEYS = _TEXTS.filter(lambda key: key not in ("", "t", "dt", "groupId", "streamId"))
_TIMES_MS = st.integers(0, 4_000_000_000_000)
_BODIES = st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=3).map(lambda part: part * 200))


class OwnRecord(NamedTuple):
    """A record with its own attributes."""

    body: bytes
    attributes: Mapping[str, str]


class Group(NamedTuple):
    """Attributes, and the records that share them."""

    attributes: dict[str, str]
    bodies: list[bytes]
    own: list[dict[str, str]]
    """As many as bodies where records have attributes of their own; else empty."""


def attribute_maps() -> st.SearchStrategy[dict[str, str]]:
    """Attributes with the three that InLong asks for."""
    return st.builds(
        lambda more, group, stream, time_ms: {"groupId": group, "streamId": stream, "dt": str(time_ms), **more},
        st.dictionaries(_KEYS, _TEXTS, max_size=3),
        _TEXTS,
        _TEXTS,
        _TIMES_MS,
    )


def _by_attributes(group: Group) -> str:
    return repr(sorted(group.attributes.items()))


GROUPS = st.lists(
    st.builds(Group, attribute_maps(), st.lists(_BODIES, max_size=8), st.just([])), max_size=4, unique_by=_by_attributes
)
"""For versions 1 and 2, where Apache's parser keeps the last of two groups with equal attributes only."""

OWN_GROUPS = st.lists(
    st.lists(
        st.tuples(_BODIES.filter(bool), st.dictionaries(_KEYS, _TEXTS, min_size=1, max_size=2)), min_size=1, max_size=6
    ),
    max_size=3,
).flatmap(
    lambda groups: st.tuples(*(attribute_maps() for _ in groups)).map(
        lambda maps: [
            Group(own, [body for body, _ in records], [more for _, more in records])
            for own, records in zip(maps, groups, strict=True)
        ]
    )
)
"""For version 3. Apache's parser takes no empty bodies nor empty attributes there."""


def _entry(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def _pair(record: OwnRecord) -> bytes:
    return _entry(record.body) + _entry(attribute_text(record.attributes).encode())


def _packed(block: bytes, snappy: bool = True) -> bytes:
    if not snappy:
        return block
    return pa.compress(block, codec="snappy", asbytes=True) if block else b"\0"


def encode_groups(
    groups: Sequence[Group], version: Literal[1, 2, 3], *, made_ms: int = 5, snappy: bool = True
) -> bytes:
    """An InLongMsg."""
    if version == 1:
        shared = [RecordGroup(group.attributes, group.bodies) for group in groups]
        return encode_pack(shared, made_ms=made_ms, snappy=snappy)
    magic = bytes([MAGIC, version])
    parts = [magic, HEADS[version].pack(made_ms, sum(len(group.bodies) for group in groups), len(groups))]
    for group in groups:
        entries = group.bodies
        if version == 3:
            entries = [_pair(OwnRecord(*one)) for one in zip(group.bodies, group.own, strict=True)]
        block = _packed(b"".join(map(_entry, entries)), snappy)
        text = write_java_text(attribute_text(group.attributes))
        parts += [TEXT_LENGTH.pack(len(text)), text]
        if version == 2:
            parts.append(LENGTH.pack(len(group.bodies)))
        parts += [LENGTH.pack(len(block) + 1), bytes([snappy]), block]
    return b"".join([*parts, magic])


def encode_bin_pack(
    records: Sequence[bytes] | Sequence[OwnRecord],
    attributes: Mapping[str, str],
    *,
    data_time_s: int,
    numbers: tuple[int, int] | None = None,
    snappy: bool = True,
) -> bytes:
    """An InLongMsg of version 4, as InLong's SDKs send it. `numbers` are groupId and streamId as numbers; without them
    the attributes name them. All records are bytes, or all are OwnRecord."""
    own = any(isinstance(one, OwnRecord) for one in records)
    body = b"".join(_pair(one) if isinstance(one, OwnRecord) else _entry(one) for one in records)
    body = _packed(body, snappy)
    text = attribute_text(attributes).encode()
    flags = (OWN_ATTRIBUTES if own else 0) | (NAMES_NOT_NUMBERS if numbers is None else 0)
    kind = 7 | (snappy << 5)
    total = HEAD.size + 2 * TEXT_LENGTH.size - 4 + len(body) + len(text)
    head = HEAD.pack(total, kind, *(numbers or (0, 0)), flags, data_time_s, len(records), 0, len(body))
    magic = bytes([MAGIC, 4])
    return b"".join([magic, head, body, TEXT_LENGTH.pack(len(text)), text, TEXT_LENGTH.pack(END_MARK), magic])


def encode_message_objs(
    records: Sequence[OwnRecord],
    times_ms: Sequence[int],
    compression: Literal["none", "gzip", "snappy"] = "snappy",
    source_ip: str = "",
) -> bytes:
    """A protobuf pack. Its message needs the attributes `version=1` and `compressType` 0, 1 or 2."""
    objs = inlong_pb2.MessageObjs()
    for record, time_ms in zip(records, times_ms, strict=True):
        one = objs.msgs.add(msgTime=time_ms, sourceIp=source_ip, body=record.body)
        for key, value in record.attributes.items():
            one.params.add(key=key, value=value)
    data = objs.SerializeToString()
    if compression == "none":
        return data
    return gzip.compress(data) if compression == "gzip" else _packed(data)
