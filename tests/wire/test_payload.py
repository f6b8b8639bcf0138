"""Message payloads: golden bytes, checksums, hashes, and whatever a broker may hand out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, damaged, outcome
from tubeclient.errors import ConfigurationError, CorruptMessage
from tubeclient.wire.payload import (
    ATTRIBUTE_FLAG,
    TAG_KEY,
    TIME_KEY,
    checksum,
    decode_payload,
    encode_attributes,
    encode_payload,
    java_string_hash,
    parse_attributes,
)


def test_body_with_and_without_attributes() -> None:
    """A payload is the body alone, or the attributes and then the body."""
    payload, flag = encode_payload(b"body", "k=v,x=\u00e9")
    assert (payload.hex(" "), flag) == ("00 00 00 08 6b 3d 76 2c 78 3d c3 a9 62 6f 64 79", 1)
    assert decode_payload(payload, flag) == (b"body", "k=v,x=\u00e9")
    assert encode_payload(b"body") == (b"body", 0)
    assert decode_payload(b"body", 0b110) == (b"body", "")  # other bits of the flag mean nothing


def test_the_checksum_is_crc_32_without_the_sign_bit() -> None:
    assert checksum(b"123456789") == 0x4BF43926  # CRC-32's check value 0xCBF43926


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("\u4e2d\u6587", 31 * 0x4E2D + 0x6587),
        ("\U0001f600", 31 * 0xD83D + 0xDE00),  # two UTF-16 units
    ],
)
def test_java_string_hash(text: str, value: int) -> None:
    assert java_string_hash(text) == value


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=,a=1,b,a=2,a", {"a": "1", "b": ""}),
        ("$msgType$=a,k=1,$msgType$=b", {TAG_KEY: "b", "k": "1"}),
        ("$msgType$=a,$msgTime$=1,$msgType$=,$msgTime$", {TAG_KEY: "a", TIME_KEY: "1"}),
    ],
)
def test_odd_attribute_texts_are_read(text: str, attributes: dict[str, str]) -> None:
    assert parse_attributes(text) == attributes


@pytest.mark.parametrize(
    ("attributes", "tag"),
    [({"": "v"}, ""), ({TAG_KEY: "v"}, ""), ({"a,b": "v"}, ""), ({"a": "\ud800"}, ""), ({}, "a,b=c")],
)
def test_unreadable_attributes(attributes: dict[str, str], tag: str) -> None:
    """The encoder refuses attributes that no reader could parse."""
    with pytest.raises(ConfigurationError):
        encode_attributes(attributes, tag)


words = st.text(st.characters(exclude_characters=",=", exclude_categories=["Cs"]), min_size=1, max_size=10)
attribute_maps = st.dictionaries(
    words.filter(lambda key: key not in (TAG_KEY, TIME_KEY)), words | st.just(""), max_size=5
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(attribute_maps, words | st.just(""), words | st.just(""))
@FUZZ
def test_attributes_round_trip(attributes: dict[str, str], tag: str, time: str) -> None:
    expected = {key: value for key, value in ((TAG_KEY, tag), (TIME_KEY, time)) if value} | attributes
    text = encode_attributes(attributes, tag, time)
    assert parse_attributes(text) == expected
    assert text.startswith("$msgType$=" * bool(tag))


@given(st.binary(max_size=60) | damaged(st.builds(lambda b, t: encode_payload(b, t)[0], st.binary(), texts)))
@FUZZ
def test_any_payload_is_taken_apart_or_corrupt(payload: bytes) -> None:
    found = outcome(lambda: decode_payload(payload, ATTRIBUTE_FLAG), CorruptMessage)
    if isinstance(found, tuple):
        body, text = found
        assert len(payload) == 4 + len(text.encode()) + len(body)
    else:
        assert found is CorruptMessage
