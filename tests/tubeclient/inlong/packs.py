"""Generated packs, and encoders of what only Apache's clients write."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from tubeclient.inlong import OwnRecord
from tubeclient.inlong.attributes import attribute_text
from tubeclient.inlong.blocks import LENGTH, pack_snappy
from tubeclient.inlong.packs import (
    END_MARK,
    FIXED_BYTES,
    HEAD,
    MAGIC,
    NAMES_NOT_NUMBERS,
    OWN_ATTRIBUTES,
    SNAPPY_TYPE,
    TEXT_LENGTH,
)
from tubeclient.wire.proto import inlong_pb2

__all__ = ["GROUPS", "OWN_GROUPS", "Group", "attribute_maps", "encode_bin_pack", "encode_message_objs"]

# What Java's `=` and `&` split texts can hold: anything but these two, and no half of a surrogate pair.
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="=&"), max_size=12)
_KEYS = _TEXTS.filter(lambda key: key not in ("", "t", "dt", "groupId", "streamId"))
_TIMES_MS = st.integers(0, 4_000_000_000_000)
_BODIES = st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=3).map(lambda part: part * 200))


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
    st.builds(Group, attribute_maps(), st.lists(_BODIES, max_size=8), st.just([])),
    max_size=4,
    unique_by=_by_attributes,
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
    body = pack_snappy(body) if snappy else body
    text = attribute_text(attributes).encode()
    flags = (OWN_ATTRIBUTES if own else 0) | (NAMES_NOT_NUMBERS if numbers is None else 0)
    kind = 7 | (SNAPPY_TYPE if snappy else 0)
    total = FIXED_BYTES - 4 + len(body) + len(text)
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
    return gzip.compress(data) if compression == "gzip" else pack_snappy(data)
