"""Packs of records: ours are read by Apache's InLongMsg, and its packs by ours, record for record."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apache.java_client import JavaVM
from tests.tubeclient.inlong.packs import (
    GROUPS,
    OWN_GROUPS,
    Group,
    OwnRecord,
    attribute_maps,
    encode_bin_pack,
    encode_groups,
)
from tubeclient.inlong import records_of
from tubeclient.inlong.attributes import attribute_text, parse_pairs
from tubeclient.inlong.packs import LENGTH

pytestmark = pytest.mark.apache

MADE_MS = 1_700_000_000_123
examples = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

Found = dict[str, list[bytes]]
"""Bodies by the text of their attributes."""


def java_build(java: JavaVM, groups: list[Group], version: int, snappy: bool) -> bytes:
    """Apache's own pack."""
    pack = java.jvm.org.apache.inlong.common.msg.InLongMsg.newInLongMsg(snappy, version)
    for group in groups:
        text = attribute_text(group.attributes)
        for number, body in enumerate(group.bodies):
            record = body
            if version == 3:
                own = attribute_text(group.own[number]).encode()
                record = LENGTH.pack(len(body)) + body + LENGTH.pack(len(own)) + own
            pack.addMsg(text, record)
    return bytes(pack.buildArray(MADE_MS))


def java_parse(java: JavaVM, data: bytes) -> Found:
    """What Apache's parser finds in a pack."""
    pack = java.jvm.org.apache.inlong.common.msg.InLongMsg.parseFrom(data)
    found: Found = {}
    for text in list(pack.getAttrs()):
        bodies = pack.getIterator(text)
        found[text] = []
        while bodies.hasNext():
            found[text].append(bytes(bodies.next()))
    return found


def our_parse(data: bytes) -> Found:
    """The same by ours: attributes as text, in the order in which they were found."""
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for record in records_of(data, {}):
        found[attribute_text(record.attributes)].append(record.body)
    return dict(found)


def by_attributes(found: Found) -> dict[Any, list[bytes]]:
    """Equal for equal attributes in whatever order, without those that have no record."""
    return {frozenset(parse_pairs(text).items()): bodies for text, bodies in found.items() if bodies}


def put_in(groups: list[Group]) -> dict[Any, list[bytes]]:
    expected: defaultdict[Any, list[bytes]] = defaultdict(list)
    for group in groups:
        for number, body in enumerate(group.bodies):
            own = group.own[number] if group.own else {}
            expected[frozenset({**group.attributes, **own}.items())].append(body)
    return dict(expected)


@examples
@given(groups=GROUPS, version=st.sampled_from([1, 2]), snappy=st.booleans())
def test_packs_of_shared_attributes(java_vm: JavaVM, groups: list[Group], version: Any, snappy: bool) -> None:
    theirs = java_build(java_vm, groups, version, snappy)
    with_records = [group for group in groups if group.bodies]
    ours = encode_groups(with_records, version, snappy=snappy, made_ms=MADE_MS)
    expected = put_in(groups)
    assert by_attributes(our_parse(theirs)) == expected
    assert by_attributes(java_parse(java_vm, ours)) == expected
    assert by_attributes(our_parse(ours)) == expected
    if not snappy:
        assert ours == theirs


@examples
@given(groups=OWN_GROUPS, snappy=st.booleans())
def test_packs_of_own_attributes(java_vm: JavaVM, groups: list[Group], snappy: bool) -> None:
    theirs = java_build(java_vm, groups, 3, snappy)
    ours = encode_groups(groups, 3, snappy=snappy, made_ms=MADE_MS)
    expected = put_in(groups)
    assert by_attributes(our_parse(theirs)) == expected
    assert by_attributes(java_parse(java_vm, ours)) == expected


@examples
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=60), max_size=8),
    attributes=attribute_maps(),
    seconds=st.integers(0, (1 << 31) - 1),
    numbers=st.none() | st.tuples(st.integers(0, 32767), st.integers(0, 32767)),
    snappy=st.booleans(),
    with_own=st.booleans(),
)
def test_binary_packs(
    java_vm: JavaVM,
    bodies: list[bytes],
    attributes: dict[str, str],
    seconds: int,
    numbers: tuple[int, int] | None,
    snappy: bool,
    with_own: bool,
) -> None:
    # Apache's splitter of these attributes trims each piece, and takes no two of one key.
    common = {f"k{number}": value for number, value in enumerate(attributes.values())} | {
        "groupId": "g",
        "streamId": "s",
    }
    common = {key: value for key, value in common.items() if value == value.strip()}
    records: list[Any] = [
        OwnRecord(body, {"own": str(place)}) if with_own else body for place, body in enumerate(bodies)
    ]
    ours = encode_bin_pack(records, common, data_time_s=seconds, numbers=numbers, snappy=False)
    pack = java_vm.jvm.org.apache.inlong.common.msg.InLongMsg.newInLongMsg(snappy, 4)
    assert pack.addMsg(ours[2:-2])
    theirs = bytes(pack.buildArray(MADE_MS))
    if not snappy:
        assert theirs == ours
    by_java = by_attributes(java_parse(java_vm, theirs))
    # Apache's parser adds how many records there are.
    found = {frozenset(pair for pair in key if pair[0] != "cnt"): value for key, value in by_java.items()}
    assert by_attributes(our_parse(theirs)) == found
    assert sorted(body for group in found.values() for body in group) == sorted(bodies)
    compressed = encode_bin_pack(records, common, data_time_s=seconds, numbers=numbers, snappy=True)
    assert by_attributes(java_parse(java_vm, compressed)) == by_java
